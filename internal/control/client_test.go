package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
)

// node serves h on a socket of its own and returns a client.
func node(t *testing.T, h http.Handler) *control.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return control.Dial(socket)
}

// answer serves one fixed body on one route, and nothing else.
func answer(route, body string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(route, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
	return mux
}

func TestNoNode(t *testing.T) {
	absent := control.Dial(filepath.Join(t.TempDir(), "absent"))
	if _, err := control.NodeStatus.Call(t.Context(), absent); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("no socket: %v", err)
	}
	left := filepath.Join(t.TempDir(), "left")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := control.NodeStatus.Call(t.Context(), control.Dial(left)); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("a socket that nobody listens on: %v", err)
	}
	for _, err := range absent.Watch(t.Context(), "5f21") {
		if !errors.Is(err, control.ErrNotRunning) {
			t.Errorf("watch: %v", err)
		}
	}
}

func TestHireSendsBundleAndTerms(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(control.Job{ID: "5f21", Title: string(body), Task: r.URL.RawQuery})
	})
	client := node(t, mux)
	job, err := client.Hire(t.Context(), strings.NewReader("NUT"), control.Hire{
		Task: "a b&c", Providers: []string{"npub1x", "npub1y"}, Timeout: 90_000, Bid: 21_000, Tries: 2, Private: true, Kind: 5050,
	})
	want := "bid_msat=21000&kind=5050&private=true&provider=npub1x&provider=npub1y&task=a+b%26c&timeout_ms=90000&tries=2"
	if err != nil || job.Title != "NUT" || job.Task != want {
		t.Errorf("%+v, %v", job, err)
	}
	job, err = client.Hire(t.Context(), strings.NewReader("NUT"), control.Hire{})
	if err != nil || job.Task != "" {
		t.Errorf("terms that were not given: %q, %v", job.Task, err)
	}
}

func TestEachCallHasItsRoute(t *testing.T) {
	ctx := t.Context()
	for route, c := range map[string]struct {
		body string
		call func(*control.Client) error
	}{
		"GET /v1/status":          {`{}`, func(c *control.Client) error { _, err := control.NodeStatus.Call(ctx, c); return err }},
		"GET /v1/jobs":            {`[{"id":"a"}]`, func(c *control.Client) error { _, err := control.Jobs.Call(ctx, c); return err }},
		"GET /v1/jobs/5f21":       {`{}`, func(c *control.Client) error { _, err := control.OneJob.Call(ctx, c, "5f21"); return err }},
		"POST /v1/jobs/5f/cancel": {`{}`, func(c *control.Client) error { _, err := control.CancelJob.Call(ctx, c, "5f"); return err }},
		"GET /v1/receipts/r-1":    {`{}`, func(c *control.Client) error { _, err := control.Receipt.Call(ctx, c, "r-1"); return err }},
		"GET /v1/replays/5f":      {"{}\n", func(c *control.Client) error { _, err := control.Replay.Call(ctx, c, "5f"); return err }},
		"GET /v1/providers":       {`[]`, func(c *control.Client) error { _, err := control.Providers.Call(ctx, c, "x"); return err }},
		"GET /v1/journal/42":      {`{"seq":42}`, func(c *control.Client) error { _, err := control.OneEntry.Call(ctx, c, "42"); return err }},
		"GET /v1/rejected":        {"{}\n{}\n", func(c *control.Client) error { _, err := control.Rejected.Call(ctx, c); return err }},
		"GET /v1/jobs/{id}":       {`{}`, func(c *control.Client) error { _, err := control.OneJob.Call(ctx, c, "../status?x=%"); return err }},
	} {
		if err := c.call(node(t, answer(route, c.body))); err != nil {
			t.Errorf("%s: %v", route, err)
		}
	}
}

func TestAReceiptComesAsItIs(t *testing.T) {
	const receipt = `{"b":1.0,"a":18446744073709551615}`
	got, err := control.Receipt.Call(t.Context(), node(t, answer("/v1/receipts/", receipt)), "x")
	if err != nil || string(got) != receipt {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAProblemKeepsItsHint(t *testing.T) {
	client := node(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		json.NewEncoder(w).Encode(control.Problem{Error: "two jobs begin so", Hint: "give more digits", Code: "ambiguous"})
	}))
	_, err := control.OneJob.Call(t.Context(), client, "5")
	problem, ok := errors.AsType[*control.ProblemError](err)
	if !ok || problem.Error() != "two jobs begin so" || problem.Hint() != "give more digits" || problem.Status != 409 {
		t.Errorf("%#v", err)
	}
}

func TestErrorWithoutProblem(t *testing.T) {
	_, err := control.NodeStatus.Call(t.Context(), node(t, http.NotFoundHandler()))
	if problem, ok := errors.AsType[*control.ProblemError](err); !ok || problem.Error() != "the node answers 404 Not Found" {
		t.Errorf("%v", err)
	}
}

// wait in a stream keeps it open until the client leaves.
const wait = ""

// stream writes lines one by one, as a node does.
func stream(lines ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, line := range lines {
			if line == wait {
				<-r.Context().Done()
				return
			}
			fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
		}
	})
}

func TestWatchEndsWithTheJob(t *testing.T) {
	client := node(t, stream(`{"seq":1,"event":"job.opened"}`, `{"seq":2,"event":"ended","ended":{"ending":"accepted"}}`))
	var events []string
	for u, err := range client.Watch(t.Context(), "5f") {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, u.Event)
		if u.Ended != nil && u.Ended.Ending != guild.JobAccepted {
			t.Errorf("ended %q", u.Ended.Ending)
		}
	}
	if strings.Join(events, " ") != "job.opened ended" {
		t.Errorf("%q", events)
	}
}

func TestWatchNoticesANodeThatDies(t *testing.T) {
	var last error
	for _, err := range node(t, stream(`{"seq":1,"event":"job.opened"}`)).Watch(t.Context(), "5f") {
		last = err
	}
	if !errors.Is(last, io.ErrUnexpectedEOF) || !errors.Is(last, control.ErrLost) {
		t.Errorf("got %v", last)
	}
}

func TestACallNoticesANodeThatDies(t *testing.T) {
	for name, last := range map[string]string{
		"before it answers":       "",
		"in the middle of a line": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"npub\":",
	} {
		dying := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, last)
			conn.Close()
		})
		if _, err := control.NodeStatus.Call(t.Context(), node(t, dying)); !errors.Is(err, control.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWatchCanBeLeft(t *testing.T) {
	client := node(t, stream(`{"seq":1}`, `{"seq":2}`, wait))
	for range client.Watch(t.Context(), "5f") {
		break
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := 0
	for u, err := range client.Watch(ctx, "5f") {
		if u.Seq == 2 {
			cancel()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("after leaving: %v", err)
		}
		seen++
	}
	if seen < 2 {
		t.Errorf("%d updates", seen)
	}
}

func TestBrokenLineEndsStream(t *testing.T) {
	for name, line := range map[string]string{"words": "hello", "too long": `{"subject":"` + strings.Repeat("a", 2<<20) + `"}`} {
		var last error
		for _, err := range control.Entries.Lines(t.Context(), node(t, stream(line)), "1", "job") {
			last = err
		}
		if last == nil {
			t.Errorf("%s were read", name)
		}
	}
}
