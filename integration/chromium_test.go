package integration

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// chromium is a headless Chromium, driven by its DevTools protocol over a pair
// of pipes.
type chromium struct {
	to io.Writer

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	tabs    map[string]*tab
	ended   bool
}

// reply is an answer of the browser, or an event.
type reply struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser starts a browser, which is ended with the test.
func startBrowser(t testing.TB) *chromium {
	t.Helper()
	path := tool(t, "chromium")
	theirIn, ourOut := pipe(t)
	ourIn, theirOut := pipe(t)
	cmd := exec.Command(path,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
		"--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &chromium{to: ourOut, waiting: make(map[int]chan reply), tabs: make(map[string]*tab)}
	go b.listen(ourIn)
	t.Cleanup(func() {
		_, _ = b.call("", "Browser.close", nil)
		timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
	})
	return b
}

func pipe(t testing.TB) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

// listen hands on what the browser says; messages end with a zero byte.
func (b *chromium) listen(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var r reply
		if json.Unmarshal(bytes.TrimRight(text, "\x00"), &r) != nil {
			continue
		}
		b.mu.Lock()
		waiting, tab := b.waiting[r.ID], b.tabs[r.Session]
		delete(b.waiting, r.ID)
		b.mu.Unlock()
		switch {
		case waiting != nil:
			waiting <- r
		case tab != nil:
			tab.event(r)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for id, waiting := range b.waiting {
		close(waiting)
		delete(b.waiting, id)
	}
}

// call calls a method of the browser, or of a tab.
func (b *chromium) call(session, method string, params any) (json.RawMessage, error) {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return nil, errors.New("the browser has ended")
	}
	b.last++
	request := map[string]any{"id": b.last, "method": method}
	if params != nil {
		request["params"] = params
	}
	if session != "" {
		request["sessionId"] = session
	}
	answer := make(chan reply, 1)
	b.waiting[b.last] = answer
	text, err := json.Marshal(request)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case r, ok := <-answer:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: the browser has ended", method)
		case r.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		return r.Result, nil
	case <-time.After(2 * patience):
		return nil, fmt.Errorf("%s: no answer", method)
	}
}

// tab is a tab of a browser.
type tab struct {
	browser *chromium
	session string

	mu       sync.Mutex
	loads    int
	problems []string
}

// look is how a tab looks at pages.
type look struct {
	width, height int
	dark, still   bool // still is without script
}

// open opens a page in a tab of its own and waits until it has loaded.
func (b *chromium) open(t testing.TB, url string, l look) *tab {
	t.Helper()
	created := decode[struct{ TargetID string }](t, b, "", "Target.createTarget", object{"url": "about:blank"})
	attached := decode[struct{ SessionID string }](t, b, "", "Target.attachToTarget",
		object{"targetId": created.TargetID, "flatten": true})
	tb := &tab{browser: b, session: attached.SessionID}
	b.mu.Lock()
	b.tabs[tb.session] = tb
	b.mu.Unlock()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	for _, c := range []struct {
		method string
		params object
	}{
		{"Page.enable", nil},
		{"Runtime.enable", nil},
		{"Log.enable", nil},
		{"Emulation.setDeviceMetricsOverride", object{
			"width": l.width, "height": l.height, "deviceScaleFactor": 1, "mobile": l.width < 600,
		}},
		{"Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}},
		{"Emulation.setScriptExecutionDisabled", object{"value": l.still}},
		{"Page.navigate", object{"url": url}},
	} {
		if _, err := b.call(tb.session, c.method, c.params); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the page has loaded", func() bool { return tb.loaded() > 0 })
	t.Cleanup(func() { _, _ = b.call("", "Target.closeTarget", object{"targetId": created.TargetID}) })
	return tb
}

func decode[result any](t testing.TB, b *chromium, session, method string, params object) result {
	t.Helper()
	var r result
	answer, err := b.call(session, method, params)
	if err == nil {
		err = json.Unmarshal(answer, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// event notes loads, and whatever the console shows as an error.
func (tb *tab) event(r reply) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch r.Method {
	case "Page.loadEventFired":
		tb.loads++
	case "Runtime.exceptionThrown":
		tb.problems = append(tb.problems, string(r.Params))
	case "Runtime.consoleAPICalled", "Log.entryAdded":
		if bytes.Contains(r.Params, []byte(`"error"`)) {
			tb.problems = append(tb.problems, string(r.Params))
		}
	}
}

func (tb *tab) loaded() int {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.loads
}

// console returns the errors in the console.
func (tb *tab) console() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.problems
}

// forgive forgets the errors that have one of these texts.
func (tb *tab) forgive(texts ...string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.problems = slices.DeleteFunc(tb.problems, func(problem string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(problem, text) })
	})
}

// eval evaluates an expression, which may be a promise, in a tab.
func eval[result any](t testing.TB, tb *tab, expression string) result {
	t.Helper()
	answer := decode[struct {
		Result struct {
			Value result
		}
		ExceptionDetails json.RawMessage
	}](t, tb.browser, tb.session, "Runtime.evaluate",
		object{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if answer.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	return answer.Result.Value
}

// until waits until an expression is true.
func (tb *tab) until(t testing.TB, expression string) {
	t.Helper()
	eventually(t, expression, func() bool { return eval[bool](t, tb, expression) })
}

// screenshot returns a picture of the page, whole, as PNG.
func (tb *tab) screenshot(t testing.TB) []byte {
	t.Helper()
	size := eval[[]int](t, tb, "[innerWidth, document.documentElement.scrollHeight]")
	shot := decode[struct{ Data string }](t, tb.browser, tb.session, "Page.captureScreenshot", object{
		"format": "png", "captureBeyondViewport": true,
		"clip": object{"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1},
	})
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		t.Fatal(err)
	}
	return png
}
