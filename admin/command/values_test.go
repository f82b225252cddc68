package command

import (
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5s": 5 * time.Second, "1d": 24 * time.Hour, "1h30m": 90 * time.Minute, "0": 0, "0s": 0,
	} {
		var s span
		if err := s.Set(text); err != nil || s.value != want {
			t.Errorf("%s: got %s, %v", text, s.value, err)
		}
		if err := (&span{positive: true}).Set(text); (err == nil) != (want > 0) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	for _, text := range []string{"", "5", "-1s", "never", "999999999h", "1s 2s"} {
		for _, positive := range []bool{false, true} {
			if err := (&span{positive: positive}).Set(text); err == nil {
				t.Errorf("%q is taken", text)
			}
		}
	}
}

func TestCount(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "1000000": mostCount} {
		var c count
		if err := c.Set(text); err != nil || c.value != want || c.String() != text {
			t.Errorf("%s: got %d, %v", text, c.value, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5", "1000001", "99999999999999999999", "never", "x"} {
		if err := new(count).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	c := count{never: true}
	if err := c.Set("never"); err != nil || c.value != healthcheck.Never || c.String() != "never" {
		t.Errorf("never: got %d, %v", c.value, err)
	}
	if err := c.Set("-1"); err == nil {
		t.Error("-1 is taken")
	}
}
