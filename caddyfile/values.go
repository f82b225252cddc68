package caddyfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// A reader turns the argument of an option into its value. Its error says
// what the argument must be.
type reader[V any] func(argument string) (V, error)

func readText(argument string) (string, error) {
	if argument == "" {
		return "", errors.New("must not be empty")
	}
	return argument, nil
}

// readWord accepts one of words, of which there are at least two.
func readWord(words ...string) reader[string] {
	last := len(words) - 1
	expected := fmt.Errorf("must be %s or %s", strings.Join(words[:last], ", "), words[last])
	return func(argument string) (string, error) {
		for _, word := range words {
			if argument == word {
				return word, nil
			}
		}
		return "", expected
	}
}

// readDuration accepts zero.
func readDuration(argument string) (caddy.Duration, error) {
	value, err := caddy.ParseDuration(argument)
	if err != nil || value < 0 {
		return 0, errors.New("must be a duration of zero or more, such as 5s")
	}
	return caddy.Duration(value), nil
}

func readPositiveDuration(argument string) (caddy.Duration, error) {
	value, err := readDuration(argument)
	if err != nil || value == 0 {
		return 0, errors.New("must be a duration above zero, such as 5s")
	}
	return value, nil
}

func readCount(argument string) (int, error) {
	value, err := strconv.Atoi(argument)
	if err != nil || value <= 0 {
		return 0, errors.New("must be a whole number above zero")
	}
	return value, nil
}

func readWeight(argument string) (int, error) {
	value, err := strconv.Atoi(argument)
	if err != nil || value < 1 || value > upstreams.MaxWeight {
		return 0, fmt.Errorf("must be a whole number from 1 to %d", upstreams.MaxWeight)
	}
	return value, nil
}

func readPercent(argument string) (int, error) {
	value, err := strconv.Atoi(strings.TrimSuffix(argument, "%"))
	if err != nil || value < 0 || value > 100 {
		return 0, errors.New("must be a whole percentage from 0 to 100")
	}
	return value, nil
}

// orNever accepts the word never besides what read accepts.
func orNever[V ~int | ~int64](read reader[V]) reader[V] {
	return func(argument string) (V, error) {
		if argument == "never" {
			return healthcheck.Never, nil
		}
		value, err := read(argument)
		if err != nil {
			return 0, fmt.Errorf("%w, or never", err)
		}
		return value, nil
	}
}
