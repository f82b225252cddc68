package statuspage

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stage is a hub whose pictures a test makes up.
type stage struct {
	*hub
	mu      sync.Mutex
	now     *picture
	looks   int
	changed chan struct{}
}

func newStage() *stage {
	s := &stage{changed: make(chan struct{})}
	s.set(pictureOf(poolOf("web", is("a"), is("b"))))
	s.hub = newHub(func() *picture {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.looks++
		p := *s.now
		p.Time = time.Now()
		return &p
	}, func() <-chan struct{} {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.changed
	})
	return s
}

func (s *stage) set(p *picture) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = p
}

// transit is a transition.
func (s *stage) transit(p *picture) {
	s.set(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stage) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

// present returns how many viewers there are.
func (s *stage) present() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.viewers
}

func (s *stage) mustJoin(t *testing.T, q query) *viewer {
	t.Helper()
	who, err := s.join(q)
	if err != nil {
		t.Fatal(err)
	}
	return who
}

// next returns the next message and how long it took to come.
func (who *viewer) next(t *testing.T) (message, time.Duration) {
	t.Helper()
	began := time.Now()
	text, ok := <-who.messages
	if !ok {
		t.Fatal("the viewer was dropped")
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\n") {
		t.Error("a message has a line break")
	}
	return m, time.Since(began)
}

func TestViewersAreToldWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		who := s.mustJoin(t, query{})
		defer s.leave(who)
		m, took := who.next(t)
		if took != 0 || !m.Whole || len(m.Layout) != 1 || len(m.Layout[0].Rows) != 2 || len(m.Parts) != 6 || len(m.Counts) != 4 {
			t.Errorf("after %s the whole: %+v", took, m)
		}
		if m, took = who.next(t); took != pace || m.Whole || m.Layout != nil || len(m.Parts)+len(m.Counts) != 0 {
			t.Errorf("after %s nothing new: %+v", took, m)
		}
		s.set(pictureOf(poolOf("web", is("a", hasTraffic), is("b"))))
		m, took = who.next(t)
		if took != pace || len(m.Parts) != 0 || m.Counts[rowKey("web", "a")] != (counts{3, 12345, 7}) || len(m.Counts) != 3 {
			t.Errorf("after %s the traffic: %+v", took, m)
		}
		time.Sleep(600 * time.Millisecond)
		s.transit(pictureOf(poolOf("web", is("a", hasTraffic), is("b", isDown))))
		m, took = who.next(t)
		row := m.Parts[rowKey("web", "b")]
		if took != 0 || !strings.Contains(row, "connection refused") || len(m.Parts) != 3 || m.Layout[0].Rows[0] != rowKey("web", "b") {
			t.Errorf("after %s the transition: %+v", took, m)
		}
		// the next one follows at once, but not too soon
		s.transit(pictureOf(poolOf("web", is("a"), is("b"))))
		if _, took = who.next(t); took != quickest {
			t.Errorf("a second transition after %s", took)
		}
		s.transit(pictureOf())
		if m, _ = who.next(t); !m.Whole || m.Layout != nil {
			t.Errorf("nothing is left: %+v", m)
		}
	})
}

// One picture serves all, and none is taken when nobody watches.
func TestViewersShareTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		var all []*viewer
		for i := range 20 {
			who := s.mustJoin(t, query{Search: []string{"", "web"}[i%2]})
			all = append(all, who)
			go func() {
				for range who.messages {
				}
			}()
		}
		if n := s.looked(); n != 1 {
			t.Errorf("%d pictures for those who join together", n)
		}
		time.Sleep(10*pace + time.Millisecond)
		if n := s.looked(); n != 11 {
			t.Errorf("%d pictures in ten seconds", n)
		}
		for _, who := range all {
			s.leave(who)
			s.leave(who)
			close(who.messages)
		}
		synctest.Wait() // the producer has ended, or the bubble would not end
		n := s.looked()
		time.Sleep(time.Hour)
		if s.looked() != n || len(s.views) != 0 || s.viewers != 0 || s.recent != nil {
			t.Errorf("goes on when nobody watches: %d pictures, %d views, %d viewers", s.looked()-n, len(s.views), s.viewers)
		}
		who := s.mustJoin(t, query{})
		who.next(t)
		who.next(t)
		s.leave(who)
	})
}

func TestSlowViewersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		slow, quick := s.mustJoin(t, query{}), s.mustJoin(t, query{})
		var told atomic.Int64
		go func() {
			for range quick.messages {
				told.Add(1)
			}
		}()
		time.Sleep(20*pace + time.Millisecond)
		waiting := 0
		for range slow.messages {
			waiting++
		}
		synctest.Wait()
		s.leave(slow)
		if n := s.present(); waiting != backlog || told.Load() != 21 || n != 1 {
			t.Errorf("%d messages waited, %d were told, %d viewers", waiting, told.Load(), n)
		}
		s.leave(quick)
		close(quick.messages)
	})
}

func TestViewersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		var all []*viewer
		for i := range maxViewers {
			all = append(all, s.mustJoin(t, query{Search: fmt.Sprint("a", i%7)}))
		}
		if _, err := s.join(query{}); !errors.Is(err, errCrowded) {
			t.Errorf("one more: %v", err)
		}
		s.leave(all[0])
		all[0] = s.mustJoin(t, query{})
		for _, who := range all {
			s.leave(who)
		}
	})
}

// However long a picture takes, the hub rests most of the time.
func TestTheHubRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		look := s.look
		s.look = func() *picture { time.Sleep(time.Second); return look() }
		who := s.mustJoin(t, query{})
		go func() {
			for range who.messages {
			}
		}()
		time.Sleep(110 * time.Second)
		if n := s.looked(); n < 9 || n > 12 {
			t.Errorf("%d pictures in 110 seconds", n)
		}
		s.leave(who)
		close(who.messages)
		time.Sleep(time.Minute)
	})
}
