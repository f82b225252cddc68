package statuspage

import (
	"errors"
	"sync"
	"time"
)

const (
	// maxViewers is how many may listen at a time.
	maxViewers = 256
	// backlog is how many messages may wait for a viewer. One that is slower
	// is dropped; a browser comes back by itself and gets everything anew.
	backlog = 4

	// pace is how often viewers are told what has changed, quickest how soon
	// after the last time if there was a transition.
	pace     = time.Second
	quickest = 500 * time.Millisecond
	// fresh is how old a picture may be for one who joins.
	fresh = 100 * time.Millisecond
	// thrift is how many times as long the hub rests as it worked.
	thrift = 10
)

var errCrowded = errors.New("too many viewers")

// hub takes the pictures for all viewers while there are any, and tells them
// what has changed. Viewers of the same query share the work.
type hub struct {
	look func() *picture
	// news returns a channel that is closed at the next transition.
	news func() <-chan struct{}

	mu      sync.Mutex
	views   map[query]*view
	viewers int
	quit    chan struct{} // closed when the last viewer leaves
	// recent is the newest picture, for those who join one after another, as
	// all do that a reload of the config has sent away.
	recent *picture
}

// view is a query, what was sent last, and to whom.
type view struct {
	last    *frame
	viewers map[*viewer]struct{}
}

// viewer is one who listens. Messages is closed if it is too slow.
type viewer struct {
	query    query
	messages chan []byte
}

func newHub(look func() *picture, news func() <-chan struct{}) *hub {
	return &hub{look: look, news: news, views: make(map[query]*view)}
}

// join returns a viewer, whose first message is the whole frame.
func (h *hub) join(q query) (*viewer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers == maxViewers {
		return nil, errCrowded
	}
	news := h.news()
	v := h.views[q]
	if v == nil {
		if h.recent == nil || time.Since(h.recent.Time) > fresh {
			h.recent = h.look()
		}
		v = &view{last: compose(h.recent, q), viewers: make(map[*viewer]struct{})}
	}
	first, err := v.last.diff(nil)
	if err != nil {
		return nil, err
	}
	who := &viewer{query: q, messages: make(chan []byte, backlog)}
	who.messages <- first
	v.viewers[who] = struct{}{}
	h.views[q] = v
	h.viewers++
	if h.viewers == 1 {
		h.quit = make(chan struct{})
		go h.produce(news, h.quit)
	}
	return who, nil
}

// leave ends what join began. It may be called again.
func (h *hub) leave(who *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[who.query]
	if v == nil {
		return
	}
	if _, here := v.viewers[who]; !here {
		return
	}
	delete(v.viewers, who)
	if len(v.viewers) == 0 {
		delete(h.views, who.query)
	}
	h.viewers--
	h.rest()
}

// rest ends the work if nobody is left.
func (h *hub) rest() {
	if h.viewers == 0 {
		close(h.quit)
		h.recent = nil
	}
}

// produce tells the viewers what has changed until quit is closed.
func (h *hub) produce(news <-chan struct{}, quit chan struct{}) {
	var worked time.Duration
	for {
		rest := max(quickest, thrift*worked)
		select {
		case <-quit:
			return
		case <-time.After(rest):
		}
		select {
		case <-quit:
			return
		case <-news:
		case <-time.After(pace - rest):
		}
		news = h.news()
		began := time.Now()
		h.tell()
		worked = time.Since(began)
	}
}

// tell sends every viewer what has changed.
func (h *hub) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers == 0 {
		return
	}
	h.recent = h.look()
	for q, v := range h.views {
		next := compose(h.recent, q)
		text, err := next.diff(v.last)
		v.last = next
		for who := range v.viewers {
			if err == nil && who.take(text) {
				continue
			}
			close(who.messages)
			delete(v.viewers, who)
			h.viewers--
		}
		if len(v.viewers) == 0 {
			delete(h.views, q)
		}
	}
	h.rest()
}

// take reports whether there was room for a message.
func (who *viewer) take(text []byte) bool {
	select {
	case who.messages <- text:
		return true
	default:
		return false
	}
}
