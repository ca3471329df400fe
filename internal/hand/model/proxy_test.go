package model

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serve starts a proxy for a job, and returns a function that posts to it with this token.
func serve(t *testing.T, api API) (j *Job, l net.Listener, post func(token, path, body string) (int, string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	j = job(t, api)
	ended := make(chan struct{})
	go func() { defer close(ended); j.Serve(l, "token-of-the-job") }()
	t.Cleanup(func() { l.Close(); <-ended })
	post = func(token, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, j.Endpoint("http://"+l.Addr().String())+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	return j, l, post
}

func TestProxyAddsKey(t *testing.T) {
	j, _, post := serve(t, endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("the API gets %q", r.Header.Get("Authorization"))
		}
		says("application/json", chat)(w, r)
	}))
	if status, text := post("token-of-the-job", "/chat/completions", "{}"); status != 200 || text != chat {
		t.Errorf("%d %s", status, text)
	}
	if j.Used() != (Usage{1, 11, 7, 0}) {
		t.Errorf("%+v", j.Used())
	}
}

func TestProxyRefuses(t *testing.T) {
	api := endpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	api.JobTokens = 10
	j, _, post := serve(t, api)
	for _, c := range []struct {
		token, path, body string
		status            int
		says              string
	}{
		{"", "/chat/completions", "{}", 401, "not the token"},
		{"sk-something", "/chat/completions", "{}", 401, "not the token"},
		{"token-of-the-job", "/files", "{}", 400, "only completions"},
		{"token-of-the-job", "/chat/completions", `{"max_tokens":100}`, 400, "the limit of 10 tokens per job is reached"},
	} {
		if status, text := post(c.token, c.path, c.body); status != c.status || !strings.Contains(text, c.says) || !strings.Contains(text, `"error"`) {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, text)
		}
	}
	if err := j.Limited(); err == nil || !strings.Contains(err.Error(), "per job") {
		t.Errorf("the owner is told %v", err)
	}
}

func TestProxyHidesWhyAPIFails(t *testing.T) {
	_, _, post := serve(t, API{URL: "http://127.0.0.1:1/v1"})
	if status, text := post("token-of-the-job", "/chat/completions", "{}"); status != 502 || strings.Contains(text, "127.0.0.1") {
		t.Errorf("%d %s", status, text)
	}
}

func TestProxyEndsWithItsListener(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	api := endpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	j := job(t, api)
	go func() { defer close(ended); j.Serve(l, "token") }()
	go func() {
		req, _ := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "http://"+l.Addr().String()+"/v1/messages", strings.NewReader("{}"))
		req.Header.Set("X-Api-Key", "token")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-arrived
	l.Close()
	<-ended
	if used := j.Used(); used.Requests != 1 || used.Estimated != 1 {
		t.Errorf("the request under way is not counted: %+v", used)
	}
	<-gone // the request to the API ended with it
}

func TestProxyBoundsConnections(t *testing.T) {
	_, l, post := serve(t, endpoint(t, says("application/json", chat)))
	var open []net.Conn
	for range maxConnections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	more, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	more.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := more.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("one more stays open: %v", err)
	}
	for _, c := range open {
		c.Close()
	}
	for range 500 { // until the server has noticed
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		c.Close()
		if err != nil && strings.Contains(err.Error(), "timeout") {
			break
		}
	}
	if status, _ := post("token-of-the-job", "/chat/completions", "{}"); status != 200 {
		t.Errorf("after they closed: %d", status)
	}
}
