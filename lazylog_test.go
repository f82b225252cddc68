package loadbalance

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/logging" // writes to files
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// fileLog returns a log of that level that goes to a new file.
func fileLog(t testing.TB, level string) caddy.BaseLog {
	t.Helper()
	writer, err := json.Marshal(map[string]string{"output": "file", "filename": filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	return caddy.BaseLog{WriterRaw: writer, Level: level}
}

// TestDebugLineOfARequest compares what the log says of a request with what
// it says when Caddy's own proxy serves.
func TestDebugLineOfARequest(t *testing.T) {
	lines := make(map[string][]string)
	for _, who := range []string{"stock", "ours"} {
		log := fileLog(t, "DEBUG")
		serve(t, proxies(t, logging(t, log), healthChecks["active checks"])[who])
		lines[who] = fieldsOf(t, log, "upstream roundtrip")
	}
	if len(lines["stock"]) == 0 || !slices.Equal(lines["ours"], lines["stock"]) {
		t.Errorf("got a line with %v, want %v", lines["ours"], lines["stock"])
	}
}

// fieldsOf returns the fields that the line of the log with that message has,
// those within others included.
func fieldsOf(t *testing.T, log caddy.BaseLog, message string) []string {
	t.Helper()
	var writer struct{ Filename string }
	if err := json.Unmarshal(log.WriterRaw, &writer); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(writer.Filename)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		if fields["msg"] == message {
			return names("", fields)
		}
	}
	return nil
}

func names(prefix string, fields map[string]any) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, prefix+name)
		if inner, ok := fields[name].(map[string]any); ok {
			all = append(all, names(prefix+name+".", inner)...)
		}
	}
	return all
}

func TestLazyCoreEncodesForALineOnly(t *testing.T) {
	var out bytes.Buffer
	encoded := 0
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg"}), zapcore.AddSync(&out), zap.InfoLevel)
	logger := zap.New(lazyCore{core}).With(zap.Inline(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		encoded++
		enc.AddString("host", "example.com")
		return nil
	})))
	logger.Debug("not written")
	if encoded != 0 {
		t.Error("encoded though no line is written")
	}
	logger.Info("one")
	logger.Info("two")
	want := `{"msg":"one","host":"example.com"}` + "\n" + `{"msg":"two","host":"example.com"}` + "\n"
	if out.String() != want || encoded != 1 {
		t.Errorf("encoded %d times, for %q, want once, for %q", encoded, out.String(), want)
	}
}
