//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/bench/backend"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/load"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/peer"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/report"
	"github.com/caddy-loadbalance/caddy-loadbalance/bench/sandbox"
)

// Requests a second.
const (
	soakGets  = 200
	soakPosts = 40
)

// soakJob is how long to soak, and what the faults are drawn from.
type soakJob struct {
	Caddy string
	For   time.Duration
	Seed  uint64
}

// measureSoak soaks our load balancer.
func measureSoak(o options) error {
	if err := missing(nil); err != nil {
		return err
	}
	begin := time.Now()
	job := soakJob{Caddy: o.caddy, For: o.long, Seed: o.seed}
	if job.Seed == 0 {
		job.Seed = rand.Uint64N(1e6) + 1
	}
	fmt.Fprintf(os.Stderr, "soaking for %s, -seed %d\n", job.For, job.Seed)
	return sandbox.Run("soak", []soakJob{job}, 1, func(_ soakJob, data report.Soak) error {
		data.About, data.Took = report.ThisMachine(), time.Since(begin).Round(time.Second).String()
		fmt.Fprintf(os.Stderr, "GET: %d errors of %d; POST: %d errors of %d; %d faults, %d reloads\n",
			data.GetErrors, data.Gets, data.PostErrors, data.Posts, data.Faults, data.Reloads)
		for kind, n := range data.Kinds {
			fmt.Fprintf(os.Stderr, "%6d %s\n", n, kind)
		}
		return report.Save(o.folder, "soak", data)
	})
}

// soaking is a soak under way.
type soaking struct {
	*stage
	// fault is the name of what is wrong at present.
	fault atomic.Pointer[string]
	// calm is held while something is wrong, and while that must not be.
	calm sync.Mutex

	mutex sync.Mutex
	data  report.Soak
}

// soak lets backends fail at random, one at a time, and reloads at random
// moments, under load.
func soak(job soakJob, dir string) (report.Soak, error) {
	stage, err := newStage(peer.OursPatient, job.Caddy, dir, false)
	if err != nil {
		return report.Soak{}, err
	}
	defer stage.close()
	s := &soaking{stage: stage, data: report.Soak{Kinds: make(map[string]int)}}
	s.fault.Store(new(string))
	time.Sleep(warmTime)

	loaded, unload := context.WithCancel(context.Background())
	defer unload()
	var wait sync.WaitGroup
	wait.Go(func() { s.send(loaded, http.MethodGet, soakGets, &s.data.Gets, &s.data.GetErrors) })
	wait.Go(func() { s.send(loaded, http.MethodPost, soakPosts, &s.data.Posts, &s.data.PostErrors) })

	ctx, cancel := context.WithTimeout(context.Background(), job.For)
	defer cancel()
	work := []func(context.Context) error{
		func(ctx context.Context) error { return s.fail(ctx, rand.New(rand.NewPCG(job.Seed, 1))) },
		func(ctx context.Context) error { return s.reload(ctx, rand.New(rand.NewPCG(job.Seed, 2))) },
		s.measure,
	}
	failed := make(chan error, len(work))
	var workers sync.WaitGroup
	for _, do := range work {
		workers.Go(func() {
			if err := do(ctx); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	workers.Wait()
	unload()
	wait.Wait()
	select {
	case err := <-failed:
		return report.Soak{}, err
	default:
		return s.data, nil
	}
}

// send sends requests, and counts them.
func (s *soaking) send(ctx context.Context, method string, rate int, sent, failed *int) {
	cfg := s.load(method, rate)
	cfg.Done = func(sample load.Sample) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		*sent++
		if sample.Redialed {
			s.data.Redialed++
		}
		if sample.Error == "" {
			return
		}
		*failed++
		what := fmt.Sprintf("%s: %s (%s)", method, sample.Error, *s.fault.Load())
		s.data.Kinds[what]++
		if method == http.MethodGet {
			s.tell("%s, sent at %s, took %s", what, short(sample.Start), short(sample.Took))
		}
	}
	load.Run(ctx, s.begin, cfg)
}

// reload reloads at random moments.
func (s *soaking) reload(ctx context.Context, random *rand.Rand) error {
	for wait(ctx, between(random, 2*time.Second, 12*time.Second)) {
		if err := s.peer.Reload(); err != nil {
			return err
		}
		s.mutex.Lock()
		s.data.Reloads++
		s.mutex.Unlock()
	}
	return nil
}

// measure looks at the load balancer every minute, and at the end, when nothing
// is wrong and slow requests have been answered.
func (s *soaking) measure(ctx context.Context) error {
	begin := time.Now()
	for more := true; more; {
		more = wait(ctx, time.Minute)
		s.calm.Lock()
		time.Sleep(backend.Slowdown * serviceTime)
		used, err := s.peer.Gauge()
		s.calm.Unlock()
		if err != nil {
			return err
		}
		const mega = 1e6
		point := report.SoakPoint{
			Minute: time.Since(begin).Minutes(), Goroutines: used.Goroutines,
			HeapMB: used.Heap / mega, RSSMB: used.RSS / mega,
		}
		s.mutex.Lock()
		s.data.Points = append(s.data.Points, point)
		s.tell("%d goroutines, heap %.1f MB, RSS %.1f MB; GET: %d errors of %d; POST: %d of %d; %d faults, %d reloads",
			point.Goroutines, point.HeapMB, point.RSSMB, s.data.GetErrors, s.data.Gets, s.data.PostErrors, s.data.Posts,
			s.data.Faults, s.data.Reloads)
		s.mutex.Unlock()
	}
	return nil
}

// tell prints what has happened, and when.
func (s *soaking) tell(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "%8s %s\n", short(time.Since(s.begin)), fmt.Sprintf(format, values...))
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// wait lets time go by, and reports whether it did not end before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// between draws a duration.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
