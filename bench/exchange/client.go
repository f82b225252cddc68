//go:build linux

package exchange

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/child"
)

// StartClient asks so many upstreams, each once in an interval, evenly spaced,
// with a transport like Caddy's, over connections that are kept or not.
func StartClient(upstreams int, interval time.Duration, keep bool) (*Process, error) {
	return start("client", "-upstreams", strconv.Itoa(upstreams), "-interval", interval.String(),
		"-keep="+strconv.FormatBool(keep))
}

// ask is the main function of the client. It ends with its input.
func ask(args []string) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	upstreams := flags.Int("upstreams", 1, "how many there are")
	interval := flags.Duration("interval", time.Second, "how often each is asked")
	keep := flags.Bool("keep", true, "whether connections are kept")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dialer := net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}
	client := &http.Client{Transport: &http.Transport{
		DialContext:       dialer.DialContext,
		DisableKeepAlives: !*keep, MaxIdleConnsPerHost: 32, IdleConnTimeout: 2 * time.Minute,
	}}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println(child.Ready)
	urls := make([]string, *upstreams)
	for i := range urls {
		urls[i] = "http://" + Address(i) + "/"
	}
	var failed atomic.Int64
	begin, pace := time.Now(), *interval/time.Duration(*upstreams)
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * pace)))
		go func() {
			if err := get(client, urls[i%len(urls)]); err != nil && failed.Add(1) == 1 {
				fmt.Fprintln(os.Stderr, "plain client:", err)
			}
		}()
	}
	return nil
}

func get(client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
