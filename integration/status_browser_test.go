package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	desk  = look{width: 1200, height: 900}
	phone = look{width: 390, height: 844}
)

// statusStage is a Caddy with the page and three backends, one of which is
// healthy or not as the test says, and a browser.
type statusStage struct {
	*caddyProcess
	browser *chromium
	url     string
	fickle  *backend
	sick    atomic.Bool
}

func newStatusStage(t *testing.T, pool string) *statusStage {
	t.Helper()
	s := &statusStage{browser: startBrowser(t)}
	s.fickle = newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		if s.sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, nil)
	a, b := newBackend(t, nil, nil), newBackend(t, nil, nil)
	site := freeAddr(t)
	s.url = "http://" + site + "/board"
	s.caddyProcess = startCaddy(t, fmt.Sprintf(statusSite, site, addrs(a, b, s.fickle), pool))
	s.waitStatus(t, "up", a.addr, b.addr, s.fickle.addr)
	return s
}

// open opens the page, whose console has to stay without errors.
func (s *statusStage) open(t *testing.T, l look) *tab {
	t.Helper()
	tb := s.browser.open(t, s.url, l)
	t.Cleanup(func() {
		if problems := tb.console(); len(problems) > 0 {
			t.Errorf("console: %s", problems)
		}
	})
	if !l.still {
		tb.until(t, `document.getElementById("live").textContent === "live"`)
	}
	return tb
}

// rowOf is the row of an address.
func rowOf(address string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("tr.row")].find((r) => r.querySelector(".address").textContent === %q)`, address)
}

// noteWhen makes window.seen a promise of the time at which a row gets a status.
const noteWhen = `window.seen = new Promise((seen) => {
	const look = () => {
		if (%s.querySelector(".c-%s")) seen(Date.now());
		else setTimeout(look, 10);
	};
	look();
}), null`

// The page shows a transition within a second, whoever looks at it, and
// without anybody doing anything.
func TestStatusPageIsLive(t *testing.T) {
	s := newStatusStage(t, "web")
	tabs := []*tab{s.open(t, desk), s.open(t, phone)}
	tb := tabs[0]
	late := 0
	for _, becomes := range []string{"down", "up", "down", "up"} {
		for _, tb := range tabs {
			eval[any](t, tb, fmt.Sprintf(noteWhen, rowOf(s.fickle.addr), becomes))
		}
		s.sick.Store(becomes == "down")
		s.act(t, "check?upstream="+s.fickle.addr)
		for _, tb := range tabs {
			seen := eval[float64](t, tb, "window.seen")
			u := s.upstream(t, s.fickle.addr)
			if u.Status != becomes {
				t.Fatalf("it is %s", u.Status)
			}
			if took := time.UnixMilli(int64(seen)).Sub(*u.Since); took > time.Second {
				late++
				t.Logf("%s was seen after %s", becomes, took)
			}
		}
		tb.until(t, fmt.Sprintf(`document.querySelector("#log li").textContent.includes(%q)`, s.fickle.addr))
	}
	if late > 2 { // the machine may be busy now and then
		t.Errorf("%d of 8 times, a transition was seen late", late)
	}

	// the traffic
	for range 30 {
		get(t, strings.TrimSuffix(s.url, "/board"))
	}
	tb.until(t, `document.querySelector("#summary [data-count='1']").textContent === "30"`)
	tb.until(t, `document.querySelector("#summary .line").getAttribute("d")?.includes("L")`)

	// a reload of the config, after which the page listens to the new one
	if err := s.load("text/caddyfile", s.caddyfile(fmt.Sprintf(statusSite, strings.TrimSuffix(s.url[len("http://"):], "/board"), s.fickle.addr, "other"))); err != nil {
		t.Fatal(err)
	}
	tb.until(t, `document.querySelector(".pool h2").textContent === "other" && document.querySelectorAll("tr.row").length === 1`)
	tb.until(t, `document.getElementById("live").textContent === "live"`)
	// Chromium reports the stream that the reload ended
	for _, tb := range tabs {
		tb.forgive("net::ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR_CONNECTION_RE")
	}
}

// Countdowns count down.
func TestStatusPageCountsDown(t *testing.T) {
	s := newStatusStage(t, "web")
	s.sick.Store(true)
	s.act(t, "check?upstream="+s.fickle.addr)
	s.waitStatus(t, "down", s.fickle.addr)
	tb := s.open(t, desk)
	left := func() int {
		text := eval[string](t, tb, rowOf(s.fickle.addr)+`.querySelector("td:last-child time[data-until]").textContent`)
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(text, "in "), "s"))
		if err != nil {
			t.Fatalf("the countdown says %q", text)
		}
		return n
	}
	from := left()
	if from < 5 || from > 11 {
		t.Errorf("the next check is in %d s", from)
	}
	eventually(t, "the countdown has moved", func() bool { return left() <= from-2 })
}

// Nothing has to be scrolled sideways on a phone, and long words wrap.
func TestStatusPageOnAPhone(t *testing.T) {
	s := newStatusStage(t, `"`+strings.Repeat("a-very-long-name", 10)+`"`)
	s.sick.Store(true)
	s.act(t, "check?upstream="+s.fickle.addr)
	s.waitStatus(t, "down", s.fickle.addr)
	for _, l := range []look{phone, {width: 320, height: 600}, {width: 700, height: 900}, {width: 820, height: 900}, desk} {
		tb := s.open(t, l)
		if wide := eval[int](t, tb, "document.documentElement.scrollWidth"); wide > l.width {
			t.Errorf("at %d pixels, the page is %d wide", l.width, wide)
		}
		// nor is anything cut off, or too small to be read
		over := eval[[]string](t, tb, `[...document.querySelectorAll("main *")].filter((e) =>
			!e.closest(".unseen, thead, svg") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))`)
		if len(over) > 0 {
			t.Errorf("at %d pixels, beyond the edge: %q", l.width, over)
		}
		if small := eval[float64](t, tb, `Math.min(...[...document.querySelectorAll("main *")].filter((e) => e.textContent.trim() && !e.closest("svg")).map((e) => parseFloat(getComputedStyle(e).fontSize)))`); small < 11 {
			t.Errorf("at %d pixels, a text is %g pixels high", l.width, small)
		}
	}
}

// Without script, the page shows the same and loads itself again.
func TestStatusPageWithoutScript(t *testing.T) {
	s := newStatusStage(t, "web")
	tb := s.open(t, look{width: 1200, height: 900, still: true})
	text := eval[string](t, tb, "document.body.innerText")
	for _, part := range []string{"All is well", s.fickle.addr, "in rotation", "reloads every 10 s", "unknown →"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %s", part, text)
		}
	}
	s.sick.Store(true)
	s.act(t, "check?upstream="+s.fickle.addr)
	eventually(t, "the page has loaded itself again", func() bool { return tb.loaded() > 1 })
	tb.until(t, `document.querySelector(".c-down") !== null`)
}

// The page follows the viewer's colours, and its text stands out from what
// is behind it.
func TestStatusPageColours(t *testing.T) {
	s := newStatusStage(t, "web")
	s.sick.Store(true)
	s.act(t, "check?upstream="+s.fickle.addr)
	s.waitStatus(t, "down", s.fickle.addr)
	var backs []string
	for _, dark := range []bool{false, true} {
		tb := s.open(t, look{width: 1200, height: 900, dark: dark})
		backs = append(backs, eval[string](t, tb, "getComputedStyle(document.body).backgroundColor"))
		for _, what := range []string{".address", "small", ".says", ".c-down", ".c-up", ".reason", ".when", "h1", "thead th", "dt"} {
			if contrast := eval[float64](t, tb, fmt.Sprintf(contrastOf, what)); contrast < 4.5 {
				t.Errorf("dark %t: %s has a contrast of %.2f", dark, what, contrast)
			}
		}
	}
	if backs[0] == backs[1] {
		t.Errorf("light and dark are both on %s", backs[0])
	}
}

// contrastOf is the contrast of an element's text to what is behind it, as
// WCAG counts it; backgrounds that shine through are mixed.
const contrastOf = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const e = document.querySelector(%q);
	const behind = [];
	for (let at = e; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
	const pixel = (colour) => {
		canvas.fillStyle = colour;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = (rgb) => {
		const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	pixel("white");
	const back = light(behind.map(pixel).at(-1));
	const text = light(pixel(getComputedStyle(e).color));
	return (Math.max(back, text) + 0.05) / (Math.min(back, text) + 0.05);
})()`

// The search asks the server, and can be linked to.
func TestStatusPageSearch(t *testing.T) {
	s := newStatusStage(t, "web")
	tb := s.open(t, desk)
	eval[bool](t, tb, fmt.Sprintf(`(() => {
		const q = document.getElementById("q");
		q.value = %q;
		return q.dispatchEvent(new Event("input"));
	})()`, s.fickle.addr))
	tb.until(t, `document.querySelectorAll("tr.row").length === 1`)
	if address := eval[string](t, tb, "location.search"); !strings.HasPrefix(address, "?q=") {
		t.Errorf("the address has %q", address)
	}
	eval[bool](t, tb, `document.getElementById("troubled").click() === undefined`)
	tb.until(t, `document.querySelectorAll("tr.row").length === 0 && document.getElementById("note").textContent.trim() === "Nothing matches."`)
	s.sick.Store(true)
	s.act(t, "check?upstream="+s.fickle.addr)
	tb.until(t, `document.querySelectorAll("tr.row.r-down").length === 1`)
}

// Hostile names are shown as they are, and do nothing.
func TestStatusPageIsNotFooled(t *testing.T) {
	const name = `<img src=x onerror=document.title='fooled'><script>document.title='fooled'</script>`
	s := newStatusStage(t, `"`+name+`"`)
	tb := s.open(t, desk)
	s.sick.Store(true)
	s.act(t, "check?upstream="+s.fickle.addr)
	tb.until(t, `document.querySelector(".c-down") !== null`)
	if got := eval[string](t, tb, `document.querySelector(".pool h2").textContent`); got != name {
		t.Errorf("the pool's name is shown as %q", got)
	}
	if got := eval[[]string](t, tb, `[document.title, document.querySelector("img") ? "an image" : ""]`); !slices.Equal(got, []string{"(1) Upstreams", ""}) {
		t.Errorf("fooled: %q", got)
	}
}
