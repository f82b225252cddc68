package statuspage

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed parts.html
	partsHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var templates = template.Must(template.Must(
	template.New("page").Funcs(template.FuncMap{"group": group, "plural": plural}).Parse(pageHTML)).
	Parse(partsHTML))

// policy is the Content-Security-Policy of the page.
var policy = contentPolicy(fingerprint(pageJS), fingerprint(pageCSS))

// fingerprint returns a hash of an inline script or style, as the policy
// wants it.
func fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// scene is what a template shows: a part, the time, and the traffic.
type scene struct {
	Key    string
	Part   any
	Now    instant
	Counts counts
	// Rows are those of a pool, if they are to be rendered with it.
	Rows []scene
}

// page is all that the page's template shows.
type page struct {
	CSS   template.CSS
	JS    template.JS
	Query query
	Now   instant

	Summary, Note, Log scene
	Pools              []scene
}

// servePage answers with the page.
func servePage(w http.ResponseWriter, q query) error {
	text, err := renderPage(compose(takePicture(), q), q)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text) // an error means that the client has gone away
	return nil
}

// renderPage renders a frame whole.
func renderPage(f *frame, q query) ([]byte, error) {
	p := page{
		CSS: template.CSS(pageCSS), JS: template.JS(pageJS), Query: q, Now: instantOf(f.Time), //nolint:gosec // both are ours
		Summary: f.scene(summaryKey), Note: f.scene(noteKey), Log: f.scene(logKey),
	}
	for _, b := range f.Layout {
		pool := f.scene(b.Pool)
		for _, key := range b.Rows {
			pool.Rows = append(pool.Rows, f.scene(key))
		}
		p.Pools = append(p.Pools, pool)
	}
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, "page", p); err != nil {
		return nil, fmt.Errorf("rendering the status page: %w", err)
	}
	return text.Bytes(), nil
}

// renderPart renders a part of a frame.
func renderPart(key string, part any, f *frame) (string, error) {
	var name string
	switch part.(type) {
	case summary:
		name = "summary"
	case note:
		name = "note"
	case pool:
		name = "pool"
	case row:
		name = "row"
	case log:
		name = "log"
	}
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, name, f.scene(key)); err != nil {
		return "", fmt.Errorf("rendering the status page's %s: %w", name, err)
	}
	return text.String(), nil
}

func (f *frame) scene(key string) scene {
	return scene{Key: key, Part: f.Parts[key], Now: instantOf(f.Time), Counts: f.Counts[key]}
}
