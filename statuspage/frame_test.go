package statuspage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-loadbalance/caddy-loadbalance/upstreams"
)

// shown returns what a frame shows, in order: "pool: address address ...".
func shown(f *frame) string {
	var lines []string
	for _, b := range f.Layout {
		line := f.Parts[b.Pool].(pool).Name + ":"
		for _, key := range b.Rows {
			line += " " + f.Parts[key].(row).Address
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestTroubledFirst(t *testing.T) {
	p := pictureOf(
		poolOf("fine", is("a"), is("b", isBackup)),
		poolOf("mixed", is("up"), is("failing", isFailing), is("drained", isDrained), is("maint", isInMaint), is("unknown", isUnknown),
			is("retired", isRetired), is("ejected", isEjected), is("down", isDown), is("up2")),
		poolOf("dead", is("x", isDown)),
		poolOf("empty"),
	)
	const want = "dead: x\nempty:\nmixed: down ejected retired unknown failing maint drained up up2\nfine: a b"
	if got := shown(compose(p, query{})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSearch(t *testing.T) {
	p := pictureOf(
		poolOf("web", is("10.0.0.1:80"), is("10.0.0.2:80", isDown), is("10.0.0.3:80", isDrained)),
		poolOf("API", is("10.0.1.1:80"), is("10.0.1.2:80", isEjected)),
	)
	for _, tc := range []struct {
		query query
		want  string
	}{
		{query{Search: "10.0.1."}, "API: 10.0.1.2:80 10.0.1.1:80"},
		{query{Search: "api"}, "API: 10.0.1.2:80 10.0.1.1:80"},
		{query{Search: "refused web"}, "web: 10.0.0.2:80"},
		{query{Search: "ejected"}, "API: 10.0.1.2:80"},
		{query{Search: "drained"}, "web: 10.0.0.3:80"},
		{query{Search: "nobody"}, ""},
		{query{Troubled: true}, "web: 10.0.0.2:80 10.0.0.3:80\nAPI: 10.0.1.2:80"},
		{query{Search: "api", Troubled: true}, "API: 10.0.1.2:80"},
	} {
		if got := shown(compose(p, tc.query)); got != tc.want {
			t.Errorf("%+v: got\n%s\nwant\n%s", tc.query, got, tc.want)
		}
	}
}

// A large pool does not hide a small one, and those that need attention are
// shown wherever they are.
func TestRowsAreBounded(t *testing.T) {
	f := compose(pictureOf(crowd("large", 9000, 3), crowd("small", 5, 0), crowd("other", 995, 0)), query{})
	rows := make(map[string]int)
	for _, b := range f.Layout {
		rows[f.Parts[b.Pool].(pool).Name] = len(b.Rows)
	}
	if total := rows["large"] + rows["small"] + rows["other"]; total != maxRows || rows["small"] != 5 {
		t.Errorf("rows %v", rows)
	}
	first := f.Parts[f.Layout[0].Rows[2]].(row)
	if first.Status != "down" {
		t.Errorf("third row is %+v", first)
	}
	if n := f.Parts[noteKey].(note); n.Shown != maxRows || n.Matched != 10_000 {
		t.Errorf("note %+v", n)
	}
	if s := f.Parts[summaryKey].(summary); s.Health.Total != 10_000 || s.Health.Troubled() != 3 || s.Health.Serving != 9997 {
		t.Errorf("summary %+v", s)
	}

	var pools []poolPicture
	for i := range 1000 {
		pools = append(pools, poolOf(fmt.Sprint("pool", i), is("a")))
	}
	f = compose(pictureOf(pools...), query{})
	if n := f.Parts[noteKey].(note); len(f.Layout) != maxRows || n.Hidden != 800 {
		t.Errorf("%d pools, note %+v", len(f.Layout), n)
	}
}

// Backups are on standby while another one serves, and serve when none does.
func TestStandby(t *testing.T) {
	word := func(list ...upstreams.Upstream) string {
		p := poolOf("p", list...)
		f := compose(pictureOf(p), query{Search: "spare"})
		return f.Parts[f.Layout[0].Rows[0]].(row).Traffic.Word + ", " + f.Parts[f.Layout[0].Pool].(pool).Health.Says()
	}
	for _, tc := range []struct {
		got, want string
	}{
		{word(is("a"), is("spare", isBackup)), "standby, 1 of 2 in rotation, 1 on standby"},
		{word(is("a", isDown), is("spare", isBackup)), "in rotation, 1 of 2 in rotation"},
		{word(is("a", isDown), is("spare", isBackup, isDown)), "out, nothing in rotation"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

func TestTransitionsAreListed(t *testing.T) {
	p := pictureOf()
	for i := range 40 {
		p.Log = append(p.Log, transition(fmt.Sprint(i)))
	}
	l := compose(p, query{}).Parts[logKey].(log)
	var list []string
	for _, e := range l {
		list = append(list, e.Address)
	}
	if !slices.Equal(list, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}) {
		t.Errorf("shown %v", list)
	}
}
