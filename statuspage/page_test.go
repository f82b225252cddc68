package statuspage

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-loadbalance/caddy-loadbalance/healthcheck"
	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

func transition(address string) healthcheck.Change {
	return healthcheck.Change{Time: noon.Add(-5 * time.Second), Pool: "web", Address: address, From: "up", To: "down", Reason: "status 503"}
}

func pageOf(t testing.TB, p *picture, q query) string {
	t.Helper()
	text, err := renderPage(compose(p, q), q)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var tags = regexp.MustCompile(`<[^>]*>`)

// words returns the text of HTML, its spaces made one each.
func words(text string) string {
	text = html.UnescapeString(tags.ReplaceAllString(text, " "))
	return strings.Join(strings.Fields(text), " ")
}

// rowIn returns the words of an upstream's row.
func rowIn(text, pool, address string) string {
	_, rest, _ := strings.Cut(text, `<tr role="row" id="`+rowKey(pool, address)+`"`)
	_, rest, _ = strings.Cut(rest, ">")
	part, _, _ := strings.Cut(rest, "</tr>")
	return words(part)
}

func TestRows(t *testing.T) {
	for _, tc := range []struct {
		like []func(*upstreams.Upstream)
		want string
	}{
		{nil, "a:1 up for 1m 00s in rotation 0 0 in all 0 in all 200 in 1.2 ms · next in 3s"},
		{list(hasTraffic), "a:1 up for 1m 00s in rotation 3 12,345 in all 7 in all 200 in 1.2 ms · next in 3s"},
		{list(isDown), "a:1 down for 1m 00s out 0 0 in all 0 in all 3 of 10 failed connection refused: dial tcp: refused next in 11s · retired in 3m 20s"},
		{list(isRetired, noNext), "a:1 retired for 1m 00s out 0 0 in all 0 in all 10 of 10 failed timeout 200 in 1.2 ms · given up, until an operator readmits it"},
		{list(isEjected), "a:1 up for 1m 00s ejected on trial in 7s 0 0 in all 0 in all 200 in 1.2 ms · next in 3s"},
		{list(isOnTrial), "a:1 up for 1m 00s ejected on trial: a check has to pass 0 0 in all 0 in all 200 in 1.2 ms · next in 3s"},
		{list(isOnTrial, unchecked), "a:1 up for 1m 00s ejected on trial: a request decides 0 0 in all 0 in all not checked"},
		{list(isDrained), "a:1 up for 1m 00s drained ready in 10m 00s 0 0 in all 0 in all 200 in 1.2 ms · next in 3s"},
		{list(isInMaint, noNext), "a:1 up for 1m 00s maintenance 0 0 in all 0 in all 200 in 1.2 ms · paused"},
		{list(heavy, isBackup), "a:1 backup weight 5 up for 1m 00s standby 0 0 in all 0 in all 200 in 1.2 ms · next in 3s"},
	} {
		p := pictureOf(poolOf("web", is("a:1", tc.like...), is("other")))
		if got := rowIn(pageOf(t, p, query{}), "web", "a:1"); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func list(f ...func(*upstreams.Upstream)) []func(*upstreams.Upstream) { return f }
func noNext(u *upstreams.Upstream)                                    { u.Next = time.Time{} }
func heavy(u *upstreams.Upstream)                                     { u.Weight = 5 }

func TestHeadlines(t *testing.T) {
	for _, tc := range []struct {
		picture *picture
		want    string
	}{
		{pictureOf(), "No load_balance handler is configured"},
		{pictureOf(poolOf("a", is("x"))), "All is well 1 of 1 upstream in rotation, in 1 pool"},
		{pictureOf(poolOf("a", is("x"), is("y", isDown))), "One upstream needs attention 1 of 2 upstreams in rotation, in 1 pool"},
		{pictureOf(poolOf("a", is("y", isDown))), "Nothing is in rotation 0 of 1 upstream in rotation, in 1 pool"},
		{pictureOf(poolOf("a", is("y", isDown)), poolOf("b", is("x"))), "One pool has nothing in rotation 1 of 2 upstreams in rotation, in 2 pools"},
	} {
		if got := words(pageOf(t, tc.picture, query{})); !strings.Contains(got, tc.want) {
			t.Errorf("no %q in %.400s", tc.want, got)
		}
	}
}

// Names, addresses and error texts are text, whatever is in them, in the page
// and in the stream.
func TestHostileTextIsText(t *testing.T) {
	for _, evil := range []string{
		`<script>alert(1)</script>`,
		`"><img src=x onerror=alert(1)>`,
		`' onmouseover='alert(1)`,
		`</style></script></template><svg onload=alert(1)>`,
		"{{.Key}}`${alert(1)}`",
		"javascript:alert(1)//\u2028\x00\xff]]>",
	} {
		u := is(evil, isDown)
		u.Reason, u.Last.Reason, u.Last.Detail = evil, evil, evil
		p := pictureOf(poolOf(evil, u, is("fine")))
		p.Log = []healthcheck.Change{{Time: noon, Pool: evil, Address: evil, From: "up", To: "down", Reason: evil}}
		f := compose(p, query{Search: strings.ToLower(evil)})
		page, err := renderPage(f, query{Search: evil})
		if err != nil {
			t.Fatal(err)
		}
		for key, part := range f.Parts {
			text, err := renderPart(key, part, f)
			if err != nil {
				t.Fatal(err)
			}
			page = append(page, text...)
		}
		text := strings.ReplaceAll(strings.ReplaceAll(string(page), pageJS, ""), pageCSS, "")
		for _, bad := range []string{"<img", "<svg onload", "<script>alert", "onmouseover='", "</template>"} {
			if strings.Contains(text, bad) {
				t.Errorf("%q got through of %q", bad, evil)
			}
		}
		for _, tag := range tags.FindAllString(text, -1) {
			if regexp.MustCompile(`\son\w+=`).MatchString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, "")) {
				t.Errorf("a tag with a script: %s", tag)
			}
		}
	}
}

// The policy names the script and the style as they stand in the page, and
// the page has nothing that it forbids.
func TestPolicyFitsThePage(t *testing.T) {
	text := pageOf(t, pictureOf(poolOf("web", is("a"), is("b", isDown))), query{})
	for _, tag := range []string{"script", "style"} {
		_, rest, _ := strings.Cut(text, "<"+tag+">")
		inline, after, _ := strings.Cut(rest, "</"+tag+">")
		if !strings.Contains(policy, tag+"-src '"+fingerprint(inline)+"'") {
			t.Errorf("the policy does not allow the page's %s", tag)
		}
		if strings.Contains(after, "<"+tag) {
			t.Errorf("there is another %s", tag)
		}
	}
	if found := regexp.MustCompile(`\sstyle=|\sonclick=|https?://[^w]`).FindString(text); found != "" {
		t.Errorf("the page has %q", found)
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("policy %s", policy)
	}
}

// With 10,000 upstreams, a page and a message are made in no time, and are
// small.
func TestTenThousandUpstreams(t *testing.T) {
	p := pictureOf(crowd("a", 5000, 100), crowd("b", 4000, 50), crowd("c", 1000, 1000))
	page := pageOf(t, p, query{})
	if len(page) > 700_000 {
		t.Errorf("a page of %d bytes", len(page))
	}
	if rows := strings.Count(page, `<tr role="row" id=`); rows != maxRows {
		t.Errorf("%d rows", rows)
	}
	began := time.Now()
	f := compose(p, query{Search: "10. 8080"})
	whole, err := f.diff(nil)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := compose(p, query{Search: "10. 8080"}).diff(f)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if len(whole) > 700_000 || len(rest) > 100 {
		t.Errorf("messages of %d and %d bytes", len(whole), len(rest))
	}
	t.Logf("page %d bytes, message %d bytes, %s", len(page), len(whole), took)
}

func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		of   time.Duration
		want string
	}{
		{-time.Second, "0s"},
		{999 * time.Millisecond, "0s"},
		{59 * time.Second, "59s"},
		{61 * time.Second, "1m 01s"},
		{time.Hour + 2*time.Minute, "1h 02m"},
		{49 * time.Hour, "2d 1h"},
	} {
		if got := strings.ReplaceAll(span(instant(tc.of.Milliseconds())), "\u00a0", " "); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.of, got, tc.want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := group(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestLadder(t *testing.T) {
	for _, tc := range []struct{ failures, most, climbed int }{
		{1, 10, 1}, {6, 10, 6}, {10, 10, 10}, {12, 10, 10}, {1, 1000, 1}, {999, 1000, 10}, {2, 3, 2},
	} {
		l := row{Failures: tc.failures, Most: tc.most, Checked: true}.Ladder()
		if got := strings.Count(l.Climbed, "M"); got != tc.climbed {
			t.Errorf("%d of %d: %d rungs climbed, want %d", tc.failures, tc.most, got, tc.climbed)
		}
		if all := strings.Count(l.Climbed+l.Left, "M"); all != min(tc.most, rungs) {
			t.Errorf("%d of %d: %d rungs", tc.failures, tc.most, all)
		}
	}
	if l := (row{Failures: 3, Checked: true}).Ladder(); l != nil {
		t.Error("a ladder without end is drawn")
	}
	r := row{History: "ppfx"}
	if got := fmt.Sprint(strings.Count(r.Passed(), "M"), strings.Count(r.Failed(), "M"), strings.Count(r.Ignored(), "M")); got != "2 1 1" {
		t.Errorf("strokes %s", got)
	}
}
