package command

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
)

// span is a flag that takes a duration as the Caddyfile spells it.
type span struct {
	value time.Duration
	// positive says that it must be above zero.
	positive bool
}

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	value, err := caddy.ParseDuration(text)
	switch {
	case s.positive && (err != nil || value <= 0):
		return errors.New("must be a duration above zero, such as 5s")
	case err != nil || value < 0:
		return errors.New("must be a duration of zero or more, such as 5s")
	}
	s.value = value
	return nil
}

// String implements pflag.Value.
func (s *span) String() string {
	if s.value == 0 {
		return "0"
	}
	return s.value.String()
}

// Type implements pflag.Value.
func (*span) Type() string { return "duration" }

// mostCount is the largest number that a count takes, so that what is
// computed step by step is computed soon.
const mostCount = 1_000_000

// count is a flag that takes a number above zero.
type count struct {
	value int
	// never says that it may be switched off.
	never bool
}

// Set implements pflag.Value.
func (c *count) Set(text string) error {
	if c.never && text == "never" {
		c.value = healthcheck.Never
		return nil
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 || value > mostCount {
		wrong := fmt.Errorf("must be a whole number from 1 to %d", mostCount)
		if c.never {
			wrong = fmt.Errorf("%w, or never", wrong)
		}
		return wrong
	}
	c.value = value
	return nil
}

// String implements pflag.Value.
func (c *count) String() string {
	if c.value == healthcheck.Never {
		return "never"
	}
	return strconv.Itoa(c.value)
}

// Type implements pflag.Value.
func (*count) Type() string { return "count" }

// notEmpty refuses an address that is empty, which would mean all.
func notEmpty(_ *cobra.Command, args []string) error {
	if args[0] == "" {
		return errors.New("the address of the upstream is empty")
	}
	return nil
}
