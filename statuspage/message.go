package statuspage

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// message tells a viewer what has changed.
type message struct {
	// Now is the server's time in milliseconds.
	Now instant `json:"now"`
	// Layout is which pools there are and which rows they have, in order. It
	// is left out if it is as before.
	Layout []block `json:"layout,omitempty"`
	// Whole says that nothing was sent before, so that an empty layout means
	// that there is nothing.
	Whole bool `json:"whole,omitempty"`
	// Parts are the parts that have changed, as HTML, by key.
	Parts map[string]string `json:"parts,omitempty"`
	// Counts is the traffic that has changed, by key.
	Counts map[string]counts `json:"counts,omitempty"`
}

// diff returns what has changed since old, which is nil if nothing was sent
// before.
func (f *frame) diff(old *frame) ([]byte, error) {
	m := message{Now: instantOf(f.Time), Parts: make(map[string]string), Counts: make(map[string]counts)}
	if old == nil {
		old = new(frame)
		m.Whole = true
	}
	same := func(a, b block) bool { return a.Pool == b.Pool && slices.Equal(a.Rows, b.Rows) }
	if !slices.EqualFunc(f.Layout, old.Layout, same) {
		m.Layout, m.Whole = f.Layout, m.Whole || len(f.Layout) == 0
	}
	for key, part := range f.Parts {
		if before, ok := old.Parts[key]; ok && before == part {
			continue
		}
		html, err := renderPart(key, part, f)
		if err != nil {
			return nil, err
		}
		m.Parts[key] = html
	}
	maps.Copy(m.Counts, f.Counts)
	maps.DeleteFunc(m.Counts, func(key string, c counts) bool {
		before, ok := old.Counts[key]
		return ok && before == c
	})
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(m)
	return bytes.TrimRight(text.Bytes(), "\n"), err
}
