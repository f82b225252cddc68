package report

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine is where and with what something was measured.
type Machine struct {
	Date, Processor, Kernel string
	Cores                   int
	// Versions are of the programs, in a line each.
	Versions []string
}

// ThisMachine describes the machine that this runs on.
func ThisMachine() Machine {
	m := Machine{
		Date: time.Now().Format(time.DateOnly), Cores: runtime.NumCPU(),
		Processor: processor(), Kernel: firstLine("uname", "-sr"),
		Versions: []string{"Go " + strings.TrimPrefix(runtime.Version(), "go")},
	}
	if line := firstLine("go", "list", "-m", "github.com/caddyserver/caddy/v2"); line != "" {
		m.Versions = append(m.Versions, "Caddy "+line[strings.LastIndex(line, " ")+1:])
	}
	for _, command := range [][]string{{"haproxy", "-v"}, {"nginx", "-v"}, {"h2load", "--version"}} {
		if line := firstLine(command[0], command[1:]...); line != "" {
			m.Versions = append(m.Versions, line)
		}
	}
	return m
}

// processor is the name of its model.
func processor() string {
	info, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer func() { _ = info.Close() }()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// firstLine is the first line that a command writes, empty if it is not there.
func firstLine(name string, arguments ...string) string {
	output, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(output, []byte("\n"))
	return strings.TrimSpace(string(line))
}
