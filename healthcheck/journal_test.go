package healthcheck

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// remembered returns the transitions, oldest first.
func (l *lab) remembered() string {
	var text strings.Builder
	list := l.registry.Changes()
	for i := range list {
		t := list[len(list)-1-i]
		fmt.Fprintf(&text, "\n\t%s %s/%s %s>%s %s", l.when(t.Time), t.Pool, t.Address, t.From, t.To, t.Reason)
	}
	return text.String()
}

// Transitions are remembered as they happen, and those who wait for one are
// told at once.
func TestJournal(t *testing.T) {
	inLab(t, func(l *lab) {
		a, b := l.backend("a", "p"), l.backend("b", "f")
		set := defaults()
		set.MaxFailures = 2
		p := &pool{set: set, backends: []*backend{a, b}}
		l.start(p)
		l.at(9)
		transited := l.registry.NextChange()
		l.at(9.5)
		select {
		case <-transited:
			t.Error("told of a transition that was none")
		default:
		}
		l.at(10)
		select {
		case <-transited:
		default:
			t.Error("not told of the retirement")
		}
		l.at(11)
		p.targets[0].SetMode(Drain, time.Second)
		l.at(320) // b is readmitted and retired again, quietly
		got := l.remembered()
		for _, want := range []string{
			"0s pool/a unknown>up ",
			"0s pool/b unknown>down connection refused",
			"10s pool/b down>retired connection refused",
			"11s pool/a ready>drain ",
			"12s pool/a drain>ready ",
		} {
			if strings.Count(got, "\t"+want) != 1 {
				t.Errorf("not once %q in%s", want, got)
			}
		}
	})
}

// However many transitions there are, the latest ones are kept.
func TestJournalIsBounded(t *testing.T) {
	var r Registry
	for i := range 3*journalMost + 7 {
		r.journal.add(Change{Address: fmt.Sprint(i)})
	}
	list := r.Changes()
	if len(list) != journalMost {
		t.Fatalf("%d remembered", len(list))
	}
	for i, tr := range list {
		if want := fmt.Sprint(3*journalMost + 6 - i); tr.Address != want {
			t.Errorf("at %d is %s, want %s", i, tr.Address, want)
		}
	}
}
