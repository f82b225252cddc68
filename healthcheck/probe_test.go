package healthcheck

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

// A roundTripper is a transport without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (rt roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return rt(req) }

// An HTTP response is an answer, whatever it says, but not half of one, and
// not none.
func TestAnsweredOverHTTP(t *testing.T) {
	response := func(status int, body io.Reader) roundTripper {
		return func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(body), Request: req}, nil
		}
	}
	for _, tc := range []struct {
		name         string
		transport    roundTripper
		body, reason string
		answered     bool
	}{
		{"passed", response(200, strings.NewReader("well")), "", "", true},
		{"body matches", response(200, strings.NewReader("well")), "well", "", true},
		{"bad status", response(503, strings.NewReader("")), "well", "status 503", true},
		{"body mismatch", response(200, strings.NewReader("ill")), "well", "body mismatch", true},
		{"body took too long", response(200, iotest.ErrReader(context.DeadlineExceeded)), "well", "timeout", false},
		{"body broke off", response(200, iotest.ErrReader(syscall.ECONNRESET)), "well", "connection reset", false},
		{"no response", func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }, "", "connection refused", false},
		{"no response in time", func(*http.Request) (*http.Response, error) { return nil, context.DeadlineExceeded }, "", "timeout", false},
		{"panic", func(*http.Request) (*http.Response, error) { panic("oops") }, "", "panic", false},
		{"error", func(*http.Request) (*http.Response, error) { return nil, errors.New("oops") }, "", "error", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := Config{Protocol: ProtocolHTTP}
			cfg.ExpectBody = tc.body
			prober, err := NewProber(cfg, tc.transport)
			if err != nil {
				t.Fatal(err)
			}
			report := prober.Probe("localhost:80")(context.Background())
			if report.OK != (tc.reason == "") || report.Reason != tc.reason || report.Answered != tc.answered || report.TimedOut() != (tc.reason == "timeout") {
				t.Errorf("got %+v", report)
			}
		})
	}
}

// Only SERVING passes.
func TestJudgeGRPC(t *testing.T) {
	for status, want := range map[health.HealthCheckResponse_ServingStatus]string{
		health.HealthCheckResponse_SERVING:         "",
		health.HealthCheckResponse_NOT_SERVING:     "not serving",
		health.HealthCheckResponse_SERVICE_UNKNOWN: "unknown service",
		health.HealthCheckResponse_UNKNOWN:         "unknown health",
		42:                                         "unknown health",
	} {
		if got := judgeGRPC(status); got.Reason != want || got.OK != (want == "") || !got.Answered {
			t.Errorf("%s: got %+v", status, got)
		}
	}
}

func TestCodeReason(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.NotFound:         "unknown service",
		codes.Unimplemented:    "unimplemented",
		codes.Unavailable:      "status Unavailable",
		codes.DeadlineExceeded: "status DeadlineExceeded", // the backend's own, no timeout of the check
		codes.Code(99):         "status Code(99)",
	} {
		if got := codeReason(code); got != want {
			t.Errorf("%s: %q", code, got)
		}
	}
}
