package model

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"guild/nutshell/vault"
)

const key = "sk-owner-0123456789abcdef"

// endpoint starts a server that answers every request with the same text.
func endpoint(t *testing.T, answer http.HandlerFunc) API {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return API{URL: s.URL + "/v1", Key: vault.NewSecret([]byte(key)), Transport: s.Client().Transport}
}

func says(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, text)
	}
}

func job(t *testing.T, api API) *Job {
	t.Helper()
	j, err := api.Job()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func request(t *testing.T, j *Job, method, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, j.base.String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// ask sends a request and reads the whole answer.
func ask(t *testing.T, j *Job, path, body string) (string, error) {
	t.Helper()
	resp, err := j.RoundTrip(request(t, j, http.MethodPost, path, body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

const (
	chat        = `{"id":"c","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`
	chatStream  = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n"
	answers     = `{"object":"response","output":[],"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":20},"output_tokens":5}}`
	answerParts = "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\r\n\r\nevent: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":30,\"output_tokens\":5}}}\r\n\r\n"
	message     = `{"type":"message","content":[],"usage":{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":9}}`
	messageFlow = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":1000,\"output_tokens\":1}}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":9}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

func TestUsageOfAnswers(t *testing.T) {
	for _, c := range []struct {
		name, path, kind, answer string
		want                     Usage
	}{
		{"chat", "/chat/completions", "application/json", chat, Usage{1, 11, 7, 0}},
		{"stream of a chat", "/chat/completions", "text/event-stream", chatStream, Usage{1, 11, 7, 0}},
		{"response", "/responses", "application/json; charset=utf-8", answers, Usage{1, 30, 5, 0}},
		{"stream of a response", "/responses", "text/event-stream", answerParts, Usage{1, 30, 5, 0}},
		{"message", "/messages", "application/json", message, Usage{1, 1103, 9, 0}},
		{"stream of a message", "/messages?beta=true", "text/event-stream; charset=utf-8", messageFlow, Usage{1, 1003, 9, 0}},
		{"other members of the same names", "/messages", "application/json", `{"type":1,"message":"m","response":[],"usage":{"input_tokens":2,"output_tokens":1}}`, Usage{1, 2, 1, 0}},
		{"no usage", "/chat/completions", "application/json", `{"choices":[],"text":"0123456789"}`, Usage{1, 5, 9, 1}},
		{"neither JSON nor a stream", "/chat/completions", "text/plain", "0123456789abcdef", Usage{1, 5, 4, 1}},
		{"impossible numbers", "/chat/completions", "application/json", `{"usage":{"prompt_tokens":-5,"completion_tokens":9223372036854775807}}`, Usage{1, 0, maxTokens, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := job(t, endpoint(t, says(c.kind, c.answer)))
			text, err := ask(t, j, c.path, `{"messages":[  ]}`)
			if err != nil || text != c.answer {
				t.Errorf("%v\n%s", err, text)
			}
			if got := j.Used(); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestKeyReachesOnlyAPI(t *testing.T) {
	for _, header := range []string{"", "X-Api-Key"} {
		var got http.Header
		api := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Clone()
			w.Header().Set("Openai-Organization", "org-owner")
			w.Header().Set("Set-Cookie", "a=b")
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		api.Header = header
		j := job(t, api)
		req := request(t, j, http.MethodPost, "/messages", `{}`)
		for name, value := range map[string]string{
			"Authorization": "Bearer dummy", "X-Api-Key": "dummy", "Api-Key": "dummy", "Cookie": "dummy", "X-Forwarded-For": "dummy",
			"Openai-Organization": "dummy", "Anthropic-Version": "2023-06-01", "Content-Type": "application/json",
		} {
			req.Header.Set(name, value)
		}
		resp, err := j.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		want := map[string]string{"Authorization": "Bearer " + key, "X-Api-Key": ""}
		if header != "" {
			want = map[string]string{"Authorization": "", "X-Api-Key": key}
		}
		want["Anthropic-Version"] = "2023-06-01"
		for name, value := range want {
			if got.Get(name) != value {
				t.Errorf("%s is %q, want %q", name, got.Get(name), value)
			}
		}
		for name, values := range got {
			if strings.Contains(strings.Join(values, " "), "dummy") {
				t.Errorf("the caller's %s reached the API", name)
			}
		}
		if len(resp.Header) > 2 || resp.Header.Get("Location") != "" || resp.Request != req {
			t.Errorf("the caller gets %v", resp.Header)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	j := job(t, endpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	base := j.base.String()
	for _, c := range []struct{ name, method, url, body string }{
		{"another host", "POST", "https://elsewhere.example/v1/messages", "{}"},
		{"a user in the address", "POST", strings.Replace(base, "://", "://a:b@", 1) + "/messages", "{}"},
		{"above the API", "POST", base + "/../messages", "{}"},
		{"beside the API", "POST", strings.TrimSuffix(base, "/v1") + "/v2/messages", "{}"},
		{"an escaped path", "POST", base + "/models/%2e%2e%2fmessages", "{}"},
		{"batches", "POST", base + "/messages/batches", "{}"},
		{"files", "GET", base + "/files", ""},
		{"an organization's keys", "GET", strings.TrimSuffix(base, "/v1") + "/v1/organizations/api_keys", ""},
		{"models and back", "GET", base + "/models/../files", ""},
		{"removal", "DELETE", base + "/models/a", ""},
		{"no JSON", "POST", base + "/messages", "max_tokens=1"},
		{"two bodies", "POST", base + "/messages", "{}{}"},
		{"an answer later", "POST", base + "/responses", `{"background":true}`},
		{"a search of the API's", "POST", base + "/messages", `{"tools":[{"name":"x"},{"type":"web_search_20250305","name":"web_search"}]}`},
		{"a tool in an item", "POST", base + "/responses", `{"input":[{"type":"additional_tools","tools":[{"type":"namespace","tools":[{"type":"mcp","server_url":"https://attacker.example"}]}]}]}`},
		{"a search by an option", "POST", base + "/chat/completions", `{"web_search_options":{}}`},
		{"other servers", "POST", base + "/messages", `{"mcp_servers":[{"url":"https://attacker.example"}]}`},
		{"a length that is there twice", "POST", base + "/messages", `{"max_tokens":1,"max_tokens":100000}`},
		{"tools that are there twice", "POST", base + "/responses", `{"tools":[],"tools":[{"type":"web_search"}]}`},
		{"items of another form", "POST", base + "/responses", `{"input":[{"tools":"web_search"}]}`},
		{"a negative length", "POST", base + "/messages", `{"max_tokens":-1}`},
		{"an endless length", "POST", base + "/messages", `{"max_tokens":9000000000000000000,"n":9000000000000000000}`},
		{"a long query", "POST", base + "/messages?" + strings.Repeat("a", maxQuery+1), "{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequest(c.method, c.url, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			_, err = j.RoundTrip(req)
			if _, refused := errors.AsType[*RefusedError](err); !refused {
				t.Errorf("%v", err)
			}
		})
	}
	for name, value := range map[string]string{"Upgrade": "websocket", "Content-Encoding": "zstd"} {
		req := request(t, j, http.MethodPost, "/responses", "{}")
		req.Header.Set(name, value)
		if _, err := j.RoundTrip(req); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if j.Used() != (Usage{}) {
		t.Errorf("%+v", j.Used())
	}
}

func TestOrdinaryRequestsPass(t *testing.T) {
	j := job(t, endpoint(t, says("application/json", chat)))
	for _, body := range []string{
		`{"input":"a text","tools":null,"mcp_servers":null,"web_search_options":null,"n":null,"unknown":{"n":1}}`,
		`{"messages":[{"role":"user","content":"cut \ud83d"}],"tools":[{"name":"Bash","input_schema":{"type":"object"}},{"type":"function","function":{"name":"web_search"}}]}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"tools":[{"type":"custom","name":"exec"}]}],"tools":[{"type":"custom","name":"apply_patch"}]}`,
	} {
		if _, err := ask(t, j, "/responses", body); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestRequestTooLarge(t *testing.T) {
	j := job(t, endpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	_, err := ask(t, j, "/messages", `{"a":"`+strings.Repeat("a", MaxRequest)+`"}`)
	if err == nil || !strings.Contains(err.Error(), "33554432 bytes") {
		t.Error(err)
	}
}

func TestEndlessAnswer(t *testing.T) {
	api := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for block := bytes.Repeat([]byte("a"), 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	api.JobTokens = 100 << 20
	j := job(t, api)
	if _, err := ask(t, j, "/messages", `{"max_tokens":1000}`); err == nil || !strings.Contains(err.Error(), "67108864 bytes") {
		t.Error(err)
	}
	if used := j.Used(); used.Output < MaxAnswer/perToken || used.Estimated != 1 {
		t.Errorf("%+v", used)
	}
}

func TestCompressedAnswerIsCounted(t *testing.T) {
	j := job(t, endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
		z := gzip.NewWriter(w)
		io.WriteString(z, chat)
		z.Close()
	}))
	if text, err := ask(t, j, "/chat/completions", "{}"); err != nil || text != chat || j.Used() != (Usage{1, 11, 7, 0}) {
		t.Errorf("%v %+v %q", err, j.Used(), text)
	}
}

func TestJobLimit(t *testing.T) {
	api := endpoint(t, says("application/json", chat))
	api.JobTokens = 40
	j := job(t, api)
	if _, err := ask(t, j, "/chat/completions", `{"max_tokens":30}`); err != nil {
		t.Fatal(err)
	}
	_, err := ask(t, j, "/chat/completions", `{"max_tokens":30}`)
	limit, ok := errors.AsType[*LimitError](err)
	if !ok || *limit != (LimitError{"job", 40, 18, 35}) {
		t.Fatalf("%v", err)
	}
	if _, err := ask(t, j, "/chat/completions", `{"max_tokens":8,"n":2}`); err != nil {
		t.Errorf("a shorter one fits: %v", err)
	}
	if got := j.Used(); got != (Usage{2, 22, 14, 0}) {
		t.Errorf("%+v", got)
	}
}

// Requests at the same time must not each find the same tokens left.
func TestLimitHoldsForRequestsAtOnce(t *testing.T) {
	release := make(chan struct{})
	api := endpoint(t, func(w http.ResponseWriter, r *http.Request) { <-release; says("application/json", chat)(w, r) })
	api.JobTokens = 99
	j := job(t, api)
	var asking sync.WaitGroup
	var mu sync.Mutex
	passed, limited := 0, make(chan struct{}, 10)
	for range 10 {
		asking.Go(func() {
			_, err := ask(t, j, "/chat/completions", `{"max_tokens":45}`)
			if err != nil {
				limited <- struct{}{}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			passed++
		})
	}
	for range 9 {
		<-limited // before any answer came
	}
	close(release)
	asking.Wait()
	if passed != 1 {
		t.Errorf("%d passed: each may cost 50 of 99 tokens", passed)
	}
}

func TestCutAnswerCostsWhatWasHeld(t *testing.T) {
	cut := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, messageFlow[:strings.Index(messageFlow, "event: message_delta")])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	j := job(t, endpoint(t, cut))
	if _, err := ask(t, j, "/messages", `{"max_tokens":5000}`); err == nil {
		t.Error("the answer is whole")
	}
	if used := j.Used(); used.Input != 1003 || used.Tokens() < 5000 || used.Estimated != 1 {
		t.Errorf("%+v", used)
	}
}

func TestAnswerWithoutItsEnd(t *testing.T) {
	for path, answer := range map[string]http.HandlerFunc{
		"/messages":         says("text/event-stream", messageFlow),
		"/chat/completions": says("application/json", chat),
	} {
		j := job(t, endpoint(t, answer))
		resp, err := j.RoundTrip(request(t, j, http.MethodPost, path, `{"max_tokens":5000}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, int64(len(chat))); err != nil {
			t.Fatal(err)
		}
		if path == "/messages" {
			io.CopyN(io.Discard, resp.Body, int64(len(messageFlow)-len(chat)))
		}
		resp.Body.Close()
		if used := j.Used(); used.Estimated != 0 || used.Tokens() > 2000 {
			t.Errorf("%s: all was read but the end of the body: %+v", path, used)
		}
	}
}

func TestErrorsCostNothing(t *testing.T) {
	status := http.StatusTooManyRequests
	j := job(t, endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, `{"error":{"message":"Incorrect API key provided: sk-owner-********cdef; you sent `+key+`"}}`)
	}))
	if text, err := ask(t, j, "/messages", `{"max_tokens":5000}`); err != nil || !strings.Contains(text, "Incorrect") || strings.Contains(text, key) {
		t.Errorf("%v %q", err, text)
	}
	status = http.StatusUnauthorized
	if text, err := ask(t, j, "/messages", `{"max_tokens":5000}`); err != nil || strings.Contains(text, "cdef") || !strings.Contains(text, "refuses the key") {
		t.Errorf("a part of the key is shown: %v %q", err, text)
	}
	if got := j.Used(); got.Tokens() != 0 || got.Requests != 2 {
		t.Errorf("%+v", got)
	}
}

func TestBrokenErrorIsNoAnswer(t *testing.T) {
	j := job(t, endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusInternalServerError)
	}))
	if resp, err := j.RoundTrip(request(t, j, http.MethodPost, "/messages", "{}")); err == nil || resp != nil {
		t.Errorf("the answer %v with the error %v: want an error alone", resp, err)
	}
}

func TestUnreachableAPI(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	j := job(t, API{URL: s.URL, Key: vault.NewSecret([]byte(key))})
	if _, err := ask(t, j, "/v1/messages", `{"max_tokens":5000}`); err == nil || j.Used() != (Usage{}) {
		t.Errorf("nothing was sent: %v %+v", err, j.Used())
	}
	ctx, cancel := context.WithCancel(t.Context())
	j = job(t, endpoint(t, func(http.ResponseWriter, *http.Request) { cancel(); <-t.Context().Done() }))
	if _, err := j.RoundTrip(request(t, j, http.MethodPost, "/messages", `{"max_tokens":5000}`).WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if used := j.Used(); used.Tokens() < 5000 || used.Estimated != 1 {
		t.Errorf("the API may have begun: %+v", used)
	}
}

func TestCheckAPI(t *testing.T) {
	secret := vault.NewSecret([]byte(key))
	for _, c := range []struct {
		api API
		ok  bool
	}{
		{API{URL: "https://api.example.com/v1", Key: secret}, true},
		{API{URL: "http://127.0.0.1:8080", Key: secret}, true},
		{API{URL: "http://192.168.1.2:8080/v1"}, true},
		{API{URL: "http://192.168.1.2:8080/v1", Key: secret}, false},
		{API{URL: "https://user:pass@api.example.com"}, false},
		{API{URL: "https://api.example.com/v1?key=1"}, false},
		{API{URL: "ftp://api.example.com"}, false},
		{API{URL: "api.example.com"}, false},
		{API{URL: "https://api.example.com", JobTokens: -1}, false},
	} {
		if err := c.api.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.api, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", API{Key: secret}, API{Key: secret}, API{Key: secret}); strings.Contains(text, key) {
		t.Error(text)
	}
}
