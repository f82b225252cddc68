package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// section is a part of the report, from the data of one experiment.
type section interface {
	markdown() string
	// plot draws its plots into a folder.
	plot(folder string) error
}

// intro begins the report.
const intro = `# Results

Made by ` + "`go run ./bench report`" + ` from the files in [data](data), where every single measurement is. The commands that measure, all of which need Linux and the Debian packages haproxy, nginx-light, nftables and nghttp2-client:

| command | measures |
|---|---|
| ` + "`go run ./bench faults`" + ` | what clients see while backends fail |
| ` + "`go run ./bench speed`" + ` | processor time, requests a second, latency |
| ` + "`go run ./bench scale`" + ` | 10 to 10,000 upstreams |
| ` + "`go run ./bench soak`" + ` | random faults and reloads for a long time |

Everything runs on one machine, over loopback. No peer sends a POST again that a backend may have begun, so none has fewer errors than the others at the price of orders placed twice.

`

// legend explains the mark.
const legend = "▼: `load_balance` is worse here than the best of the others; times and rates only if by more than 5 %."

// Write makes RESULTS.md and its plots from all data that there are.
func Write(folder string) error {
	plots := filepath.Join(folder, "plots")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	var (
		faults Faults
		speed  Speed
		scale  Scale
		soak   Soak
		out    strings.Builder
	)
	out.WriteString(intro)
	for _, s := range []struct {
		name string
		data section
	}{{"faults", &faults}, {"speed", &speed}, {"scale", &scale}, {"soak", &soak}} {
		switch err := Load(folder, s.name, s.data); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := s.data.plot(plots); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		out.WriteString(s.data.markdown())
	}
	out.WriteString(configurations(slices.Concat(faults.Peers, speed.Peers)))
	return os.WriteFile(filepath.Join(folder, "RESULTS.md"), []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644)
}

// configurations shows how each peer is configured, once.
func configurations(peers []Peer) string {
	if len(peers) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("## The peers\n\nTheir configurations are templates: what stands in double braces depends on the experiment.\n\n")
	var seen []string
	for _, p := range peers {
		if slices.Contains(seen, p.Name) {
			continue
		}
		seen = append(seen, p.Name)
		out.WriteString(details(fmt.Sprintf("<b>%s</b>: %s", p.Name, p.Note), "```text\n"+strings.TrimRight(p.Config, "\n")+"\n```\n"))
	}
	return out.String()
}

// details is text that is shown on demand.
func details(summary, text string) string {
	return fmt.Sprintf("<details><summary>%s</summary>\n\n%s\n</details>\n\n", summary, text)
}

// about says where and when something was measured.
func about(m Machine, took string) string {
	return fmt.Sprintf("Measured on %s in %s: %s, %d cores, %s; %s.",
		m.Date, took, m.Processor, m.Cores, m.Kernel, strings.Join(m.Versions, ", "))
}
