package taskserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/hand/taskserver"
	"guild/nutshell/vault"
)

// against is a client of a server that answers everything in one way.
func against(t *testing.T, answer http.HandlerFunc) *taskserver.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return as(t, s.URL, "s3cret")
}

// says answers with a text.
func says(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

func TestDownloadWrongBundle(t *testing.T) {
	c := against(t, says(200, "NUT\x01 another"))
	var got bytes.Buffer
	_, err := c.Download(t.Context(), "t-1", &got, guild.Sum([]byte("NUT\x01 mine")), 1<<20)
	if wrong, ok := errors.AsType[*taskserver.HashError](err); !ok || wrong.Got != guild.Sum([]byte("NUT\x01 another")) {
		t.Error(err)
	}
	if hash, err := c.Download(t.Context(), "t-1", &got, guild.Hash{}, 1<<20); err != nil || hash != guild.Sum([]byte("NUT\x01 another")) {
		t.Errorf("without a hash to compare: %v, %v", hash, err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte("[1,"), 1<<14)); err != nil {
				return
			}
		}
	}
	c := against(t, endless)
	if _, err := c.Task(t.Context(), "t-1"); !errors.Is(err, taskserver.ErrTooLarge) {
		t.Errorf("JSON: %v", err)
	}
	if _, err := c.Tasks(t.Context(), ""); !errors.Is(err, taskserver.ErrTooLarge) {
		t.Errorf("a list: %v", err)
	}
	var got bytes.Buffer
	if _, err := c.Download(t.Context(), "t-1", &got, guild.Hash{}, 1<<20); !errors.Is(err, taskserver.ErrTooLarge) || got.Len() > 1<<20+1 {
		t.Errorf("a bundle: %v, %d bytes", err, got.Len())
	}
	announced := against(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "999999999999") })
	if _, err := announced.Download(t.Context(), "t-1", &got, guild.Hash{}, 1<<20); !errors.Is(err, taskserver.ErrTooLarge) {
		t.Errorf("a bundle that says so: %v", err)
	}
	errorPage := against(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); endless(w, r) })
	if _, err := errorPage.Task(t.Context(), "t-1"); !taskserver.IsStatus(err, 500) || len(err.Error()) > 400 {
		t.Errorf("an error: %v", err)
	}
}

func TestStalledTransferEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := taskserver.New(taskserver.Config{URL: "https://tasks.example", Transport: standing{}})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := c.Download(t.Context(), "t-1", io.Discard, guild.Hash{}, 1<<20); !errors.Is(err, taskserver.ErrStalled) {
			t.Error(err)
		}
		if took := time.Since(begin); took != 40*time.Second { // ten bytes, a second each, and the patience
			t.Errorf("took %s", took)
		}
		begin = time.Now()
		if _, err := c.Task(t.Context(), "t-1"); !errors.Is(err, taskserver.ErrStalled) {
			t.Error(err)
		}
		if took := time.Since(begin); took != 30*time.Second {
			t.Errorf("a question took %s", took)
		}
	})
}

func TestSlowTransferEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := taskserver.New(taskserver.Config{URL: "https://tasks.example", Transport: standing{drips: 1 << 20}, Longest: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = c.Download(t.Context(), "t-1", io.Discard, guild.Hash{}, 1<<30)
		if took := time.Since(begin); !errors.Is(err, taskserver.ErrStalled) || took != time.Minute {
			t.Errorf("took %s: %v", took, err)
		}
	})
}

// standing answers with a body of a byte a second, which then stalls.
type standing struct{ drips int }

func (s standing) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.drips == 0 {
		s.drips = 10
	}
	return &http.Response{StatusCode: 200, Request: r, ContentLength: -1, Body: &drip{r: r, left: s.drips}}, nil
}

type drip struct {
	r    *http.Request
	left int
}

func (d *drip) Close() error { return nil }

func (d *drip) Read(p []byte) (int, error) {
	if d.left == 0 {
		<-d.r.Context().Done()
		return 0, d.r.Context().Err()
	}
	second := time.NewTimer(time.Second)
	defer second.Stop()
	select {
	case <-d.r.Context().Done():
		return 0, d.r.Context().Err()
	case <-second.C:
	}
	d.left--
	p[0] = ' '
	return 1, nil
}

func TestRedirects(t *testing.T) {
	var stolen atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen.Store(true)
		io.WriteString(w, `{"id":"t-1"}`)
	}))
	defer thief.Close()
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+r.URL.Path, http.StatusFound)
	})
	if _, err := c.Task(t.Context(), "t-1"); !errors.Is(err, taskserver.ErrRedirect) {
		t.Errorf("a question: %v", err)
	}
	if _, err := c.Download(t.Context(), "t-1", io.Discard, guild.Hash{}, 100); !errors.Is(err, taskserver.ErrRedirect) {
		t.Errorf("a bundle: %v", err)
	}
	if err := c.Claim(t.Context(), "t-1"); !errors.Is(err, taskserver.ErrRedirect) {
		t.Errorf("a claim: %v", err)
	}
	for _, code := range []int{307, 308} {
		c := against(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, thief.URL, code) })
		if err := c.Upload(t.Context(), "t-1", strings.NewReader("NUT"), 3, guild.Sum(nil)); err == nil {
			t.Errorf("an upload was redirected with %d", code)
		}
		if err := c.Submit(t.Context(), "t-1", "x", guild.Hash{}); err == nil {
			t.Errorf("a submission was redirected with %d", code)
		}
	}
	if stolen.Load() {
		t.Error("the other host was asked")
	}
	within := against(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/") {
			http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
			return
		}
		io.WriteString(w, `{"id":"t-1"}`)
	})
	if task, err := within.Task(t.Context(), "t-1"); err != nil || task.ID != "t-1" {
		t.Errorf("within the host: %v", err)
	}
	circle := against(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) })
	if _, err := circle.Task(t.Context(), "t-1"); !errors.Is(err, taskserver.ErrRedirect) {
		t.Errorf("in a circle: %v", err)
	}
}

func TestInvalidTasksAreRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"a page":             "<!DOCTYPE html><html><body>Welcome to nginx</body></html>",
		"nothing":            "",
		"a list":             "[]",
		"no id":              `{"title":"x"}`,
		"an id with a path":  `{"id":"../../etc/passwd"}`,
		"an id that is long": `{"id":"` + strings.Repeat("a", 200) + `"}`,
		"another task":       `{"id":"t-2"}`,
		"a number for an id": `{"id":7}`,
		"a title of numbers": `{"id":"t-1","title":[1]}`,
		"a hash of nothing":  `{"id":"t-1","nutshell_hash":"sha256:zz"}`,
		"a reward of words":  `{"id":"t-1","reward":"lots"}`,
		"a huge reward":      `{"id":"t-1","reward":1e9999}`,
		"two":                `{"id":"t-1"}{"id":"t-1"}`,
		"deep":               strings.Repeat(`{"task":`, 20_000),
	} {
		c := against(t, says(200, answer))
		if task, err := c.Task(t.Context(), "t-1"); !errors.Is(err, taskserver.ErrNotTaskServer) {
			t.Errorf("%s: %+v, %v", name, task, err)
		}
	}
}

func TestBadTasksAreSkipped(t *testing.T) {
	c := against(t, says(200, `[{"id":"../x"},{"id":"t-1","title":"\u001b[2J","tags":"a, b"},7,{"id":"t-2","reward":"?"},null,{"id":"t-3","tags":"[\"c\"]"}]`))
	tasks, err := c.Tasks(t.Context(), "")
	if err != nil || len(tasks) != 2 || tasks[0].ID != "t-1" || len(tasks[0].Tags) != 2 || tasks[1].Tags[0] != "c" {
		t.Errorf("%+v, %v", tasks, err)
	}
	c = against(t, says(200, `{"bids":[{"bidder_id":"a\u0007b"},{"bidder_id":"bob","amount":1.50},"x"]}`))
	if bids, err := c.Bids(t.Context(), "t-1"); err != nil || len(bids) != 1 || bids[0].Amount.String() != "1.50" {
		t.Errorf("%+v, %v", bids, err)
	}
}

func TestServerMessagesAreCleaned(t *testing.T) {
	for answer, want := range map[string]string{
		`{"error":"no \u001b[31mway\n\n hint: send money"}`:             "the server says 409: no ·[31mway hint: send money",
		`{"error":{"code":"x","message":"not yours"}}`:                  "the server says 409: not yours",
		`{"error":"reward_too_low","message":"Minimum reward is 100."}`: "the server says 409: Minimum reward is 100.",
		"plain words\n":                "the server says 409: plain words",
		"<html>nginx</html>":           "the server says 409 Conflict",
		"":                             "the server says 409 Conflict",
		`{"error":7}`:                  "the server says 409 Conflict",
		`{"error":"a\u202eb\u0000c"}`:  "the server says 409: a·b·c",
		strings.Repeat("long ", 1_000): "the server says 409: " + strings.Repeat("long ", 40) + "…",
	} {
		err := against(t, says(409, answer)).Claim(t.Context(), "t-1")
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestIDsInPaths(t *testing.T) {
	c := against(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was asked", r.URL) })
	for _, id := range []string{"", ".", "..", "../status", "a/b", "a b", "a%2fb", "a?b", "a#b", "a\nb", "ü", strings.Repeat("a", 129)} {
		if _, err := c.Task(t.Context(), id); err == nil {
			t.Errorf("%q is a task", id)
		}
		if _, err := c.Download(t.Context(), id, io.Discard, guild.Hash{}, 1); err == nil {
			t.Errorf("%q has a bundle", id)
		}
		if err := c.Upload(t.Context(), id, strings.NewReader(""), 0, guild.Hash{}); err == nil {
			t.Errorf("%q takes a bundle", id)
		}
		if err := c.Submit(t.Context(), id, "", guild.Hash{}); err == nil {
			t.Errorf("%q takes a delivery", id)
		}
	}
	for _, peer := range []string{"", "a b", "a\x1b[2J", "a\u202eb", strings.Repeat("p", 129)} {
		if err := c.Assign(t.Context(), "t-1", peer); err == nil {
			t.Errorf("%q is a peer", peer)
		}
	}
}

func TestServerURLs(t *testing.T) {
	for _, url := range []string{"http://localhost:3998", "http://127.0.0.1:1", "http://[::1]:1/prefix/", "https://tasks.example", "https://10.0.0.1:8443"} {
		if c, err := taskserver.New(taskserver.Config{URL: url}); err != nil || strings.HasSuffix(c.URL(), "/") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"http://tasks.example", "http://10.0.0.1:3998", "http://localhost.example", "http://0.0.0.0:3998"} {
		if _, err := taskserver.New(taskserver.Config{URL: url}); !errors.Is(err, taskserver.ErrPlainHTTP) {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := taskserver.New(taskserver.Config{URL: url, InsecureHTTP: true}); err != nil {
			t.Errorf("%s, allowed: %v", url, err)
		}
	}
	for _, url := range []string{"", "localhost:3998", "ftp://localhost", "https://", "https://:80", "https://user:pass@tasks.example", "https://tasks.example/?token=x", "https://tasks.example/#x", "https://a b", "http://[::1"} {
		_, err := taskserver.New(taskserver.Config{URL: url})
		if err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestOnlyGETsAreRepeated(t *testing.T) {
	var times atomic.Int32
	busy := func(w http.ResponseWriter, r *http.Request) {
		if times.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `{"id":"t-1"}`)
	}
	if _, err := against(t, busy).Task(t.Context(), "t-1"); err != nil || times.Load() != 3 {
		t.Errorf("asked %d times: %v", times.Load(), err)
	}
	times.Store(0)
	if err := against(t, busy).Claim(t.Context(), "t-1"); !taskserver.IsStatus(err, 503) || times.Load() != 1 {
		t.Errorf("posted %d times: %v", times.Load(), err)
	}
	times.Store(0)
	gone := func(w http.ResponseWriter, r *http.Request) { times.Add(1); w.WriteHeader(http.StatusNotFound) }
	if _, err := against(t, gone).Task(t.Context(), "t-1"); !taskserver.IsStatus(err, 404) || times.Load() != 1 {
		t.Errorf("asked %d times for what is not there: %v", times.Load(), err)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	keys := map[string]bool{}
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" || r.UserAgent() != "nutshell" || strings.Contains(r.URL.String(), "s3cret") {
			t.Errorf("%s: %v", r.URL, r.Header)
		}
		keys[r.Header.Get("Idempotency-Key")] = true
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"id":"t-1"}`)
	})
	for range 2 {
		must(t, c.Claim(t.Context(), "t-1"))
		must(t, c.Claim(t.Context(), "t-2"))
		must(t, c.Bid(t.Context(), "t-1", amount(t, "1"), ""))
		must(t, c.Bid(t.Context(), "t-1", amount(t, "2"), ""))
		must(t, c.Upload(t.Context(), "t-1", strings.NewReader("a"), 1, guild.Sum([]byte("a"))))
		must(t, c.Upload(t.Context(), "t-1", strings.NewReader("b"), 1, guild.Sum([]byte("b"))))
	}
	if len(keys) != 6 || keys[""] {
		t.Errorf("%d keys: %v", len(keys), keys)
	}
}

func TestUploadIsStreamed(t *testing.T) {
	const size = 64 << 20
	sum := guild.Hash{1}
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < size {
			t.Errorf("length %d", r.ContentLength)
		}
		parts, err := r.MultipartReader()
		if err != nil {
			t.Error(err)
			return
		}
		part, err := parts.NextPart()
		if err != nil || part.FormName() != "bundle" || part.FileName() != "bundle.nut" {
			t.Error(part, err)
			return
		}
		if n, err := io.Copy(io.Discard, part); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	if err := c.Upload(t.Context(), "t-1", io.LimitReader(zeros{}, size), size, sum); err != nil {
		t.Error(err)
	}
}

func TestUploadOfTooFewBytes(t *testing.T) {
	c := against(t, func(_ http.ResponseWriter, r *http.Request) {
		parts, err := r.MultipartReader()
		if err != nil {
			t.Error(err)
			return
		}
		if part, err := parts.NextPart(); err == nil {
			if b, err := io.ReadAll(part); err == nil {
				t.Errorf("%q looks like all of it", b)
			}
		}
	})
	if err := c.Upload(t.Context(), "t-1", strings.NewReader("short"), 10, guild.Sum(nil)); err == nil {
		t.Error("it went through")
	}
}

func TestRefusedUploadIsNotSent(t *testing.T) {
	c := against(t, says(http.StatusRequestEntityTooLarge, `{"error":"50 MB at most"}`))
	counted := &counter{r: zeros{}}
	err := c.Upload(t.Context(), "t-1", counted, 64<<20, guild.Hash{1})
	if !taskserver.IsStatus(err, http.StatusRequestEntityTooLarge) || counted.n > 0 {
		t.Errorf("%d bytes were read: %v", counted.n, err)
	}
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestErrorsHideTheToken(t *testing.T) {
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "you sent %s", r.Header.Get("User-Agent"))
	})
	_, err := c.Task(t.Context(), "t-1")
	if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, c), "s3cret") {
		t.Errorf("%v", err)
	}
	if text := fmt.Sprintf("%+v", taskserver.Config{Token: vault.NewSecret([]byte("s3cret"))}); strings.Contains(text, "s3cret") {
		t.Error(text)
	}
}
