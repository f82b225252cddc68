package load

import (
	"bufio"
	"fmt"
	"io"
	"time"
)

// Logged is a request that h2load has sent.
type Logged struct {
	Start time.Time
	// Status is the status code, -1 if it failed.
	Status int
	// Took is the time to the end of the response.
	Took time.Duration
}

// ParseLog reads what h2load writes to its log file.
func ParseLog(log io.Reader) ([]Logged, error) {
	var all []Logged
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var start, took int64 // in microseconds
		var status int
		if _, err := fmt.Sscan(lines.Text(), &start, &status, &took); err != nil {
			return nil, fmt.Errorf("h2load's log: %q: %w", lines.Text(), err)
		}
		all = append(all, Logged{time.UnixMicro(start), status, time.Duration(took) * time.Microsecond})
	}
	return all, lines.Err()
}
