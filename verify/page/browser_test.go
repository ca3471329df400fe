package page_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// browser is a headless Chromium. It speaks the DevTools protocol (chromedevtools.github.io/devtools-protocol) over
// two pipes; each message ends in a zero byte.
type browser struct {
	to    io.WriteCloser
	pipe  *os.File
	from  *bufio.Reader // of the pipe
	calls int
	seen  []message // events, in order
}

// message is an answer to a call, or an event.
type message struct {
	ID      int
	Session string `json:"sessionId"`
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   *struct{ Message string }
}

// patience limits the time that the browser may take to answer, on a busy machine.
const patience = 2 * time.Minute

type object = map[string]any

// chromium starts a browser with a new profile and without network services of its own, and stops it with the test.
// The browser's sandbox is off because root cannot start it otherwise; the browser opens only our page.
func chromium(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not here; scripts/needs test says how to install it")
	}
	theirIn, to := pipe(t)
	from, theirOut := pipe(t)
	run := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--no-startup-window", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe")
	run.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // otherwise it finds no files with names outside ASCII
	run.ExtraFiles = []*os.File{theirIn, theirOut}   // 3 and 4, as the browser expects them
	var complaints bytes.Buffer
	run.Stderr = &complaints // makes Wait return only when its last process has exited
	run.WaitDelay = 10 * time.Second
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{to: to, pipe: from, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		to.Close() // the browser exits when its input is closed
		if t.Failed() {
			_ = run.Process.Kill() // it may no longer react to that
			defer func() { t.Logf("chromium: %s", &complaints) }()
		}
		_ = run.Wait()
	})
	return b
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// call calls a method and waits for the answer. It decodes the answer into result unless that is nil.
func (b *browser) call(t *testing.T, session, method string, params object, result any) {
	t.Helper()
	b.calls++
	question := object{"id": b.calls, "method": method}
	if params != nil {
		question["params"] = params
	}
	if session != "" {
		question["sessionId"] = session
	}
	asked, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.to.Write(append(asked, 0)); err != nil {
		t.Fatal(err)
	}
	for {
		m := b.read(t, method)
		switch {
		case m.ID != b.calls:
			b.seen = append(b.seen, m)
		case m.Error != nil:
			t.Fatalf("%s: %s", method, m.Error.Message)
		default:
			if result != nil {
				decode(t, m.Result, result)
			}
			return
		}
	}
}

// read returns the next message. what describes the expected message, for errors.
func (b *browser) read(t *testing.T, what string) (m message) {
	t.Helper()
	if err := b.pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	raw, err := b.from.ReadBytes(0)
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
	decode(t, raw[:len(raw)-1], &m)
	return m
}

// tab is a page in the browser.
type tab struct {
	*browser
	t       *testing.T
	session string
	address string
}

// open opens a page from a file, as its recipient would.
func (b *browser) open(t *testing.T, html []byte) tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "verify.html")
	if err := os.WriteFile(file, html, 0o600); err != nil {
		t.Fatal(err)
	}
	var target struct{ TargetID, SessionID string }
	b.call(t, "", "Target.createTarget", object{"url": "about:blank"}, &target)
	b.call(t, "", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &target)
	p := tab{b, t, target.SessionID, "file://" + file}
	for _, domain := range []string{"Network", "Runtime", "Log", "Page", "DOM"} {
		p.do(domain+".enable", nil, nil)
	}
	p.do("Page.navigate", object{"url": p.address}, nil)
	p.await("Page.loadEventFired")
	eyes, err := os.ReadFile("testdata/eyes.js")
	if err != nil {
		t.Fatal(err)
	}
	p.eval(string(eyes), nil)
	return p
}

func (p tab) do(method string, params object, result any) {
	p.t.Helper()
	p.call(p.t, p.session, method, params, result)
}

// events returns the params of the page's events of these methods, in order.
func (p tab) events(methods ...string) (all []json.RawMessage) {
	for _, m := range p.seen {
		if m.Session == p.session && slices.Contains(methods, m.Method) {
			all = append(all, m.Params)
		}
	}
	return all
}

// await waits for an event and removes it.
func (p tab) await(method string) {
	p.t.Helper()
	is := func(m message) bool { return m.Session == p.session && m.Method == method }
	for !slices.ContainsFunc(p.seen, is) {
		p.seen = append(p.seen, p.read(p.t, method))
	}
	i := slices.IndexFunc(p.seen, is)
	p.seen = slices.Delete(p.seen, i, i+1)
}

// complaints returns the messages in the browser's console.
func (p tab) complaints() (all []string) {
	for _, e := range p.events("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown") {
		all = append(all, string(e))
	}
	return all
}

// requests returns the addresses that the page requested.
func (p tab) requests() (all []string) {
	for _, e := range p.events("Network.requestWillBeSent", "Network.webSocketCreated") {
		var asked struct {
			URL     string
			Request struct{ URL string }
		}
		decode(p.t, e, &asked)
		all = append(all, asked.Request.URL+asked.URL)
	}
	return all
}

// eval runs JavaScript in the page and awaits its promise.
func (p tab) eval(script string, result any) {
	p.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.do("Runtime.evaluate", object{"expression": script, "awaitPromise": true, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", script, answer.ExceptionDetails)
	}
	if result != nil {
		decode(p.t, answer.Result.Value, result)
	}
}

func decode(t *testing.T, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%.300s: %v", b, err)
	}
}
