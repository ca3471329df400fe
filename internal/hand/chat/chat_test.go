package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"guild/internal/hand/chat"
	"guild/internal/hand/model"
	"guild/nutshell/vault"
)

const apiKey = "test-key-0123-abcd"

// turn is one scripted answer of the API: a text, calls, or raw bytes.
type turn struct {
	text   string
	calls  []call
	status int    // of HTTP; 200 if zero
	raw    string // instead of an answer
	serve  http.HandlerFunc
}

type call struct{ tool, arguments string }

// api is a scripted API on loopback.
type api struct {
	*httptest.Server
	mu    sync.Mutex
	asked []request
	turns func(n int) turn // the n-th answer, from 0 on
}

// request is a request that the API received.
type request struct {
	Model    string
	Messages []struct {
		Role, Content string
		CallID        string `json:"tool_call_id"`
	}
	Tools []struct{ Function struct{ Name string } }
	key   string
	path  string
}

func serve(t *testing.T, turns func(n int) turn) *api {
	t.Helper()
	a := &api{turns: turns}
	a.Server = httptest.NewServer(http.HandlerFunc(a.answer))
	t.Cleanup(a.CloseClientConnections)
	t.Cleanup(a.Close)
	return a
}

// script returns the turns of a list, the last one again and again.
func script(turns ...turn) func(int) turn {
	return func(n int) turn { return turns[min(n, len(turns)-1)] }
}

func (a *api) answer(w http.ResponseWriter, r *http.Request) {
	var asked request
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked.key, asked.path = r.Header.Get("Authorization"), r.URL.Path
	a.mu.Lock()
	a.asked = append(a.asked, asked)
	turn := a.turns(len(a.asked) - 1)
	a.mu.Unlock()
	switch {
	case turn.serve != nil:
		turn.serve(w, r)
		return
	case turn.status != 0:
		http.Error(w, turn.raw, turn.status)
		return
	case turn.raw != "":
		io.WriteString(w, turn.raw)
		return
	}
	calls := []map[string]any{}
	for i, c := range turn.calls {
		calls = append(calls, map[string]any{
			"id": fmt.Sprintf("c%d-%d", len(a.asked), i), "type": "function", "function": map[string]string{"name": c.tool, "arguments": c.arguments},
		})
	}
	json.NewEncoder(w).Encode(map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": turn.text, "tool_calls": calls}}},
		"usage":   map[string]int{"prompt_tokens": 100, "completion_tokens": 10},
	})
}

// outputs lists the outputs of tools that the API was told in its last request.
func (a *api) outputs() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) == 0 {
		return nil
	}
	for _, m := range a.asked[len(a.asked)-1].Messages {
		if m.Role == "tool" {
			all = append(all, m.Content)
		}
	}
	return all
}

// job is a task in a temporary directory.
type job struct {
	chat.Task
	top     string
	said    []string
	records []string
}

func newJob(t *testing.T) *job {
	t.Helper()
	j := &job{top: t.TempDir()}
	j.Bundle, j.Delivery = filepath.Join(j.top, "bundle"), filepath.Join(j.top, "delivery")
	for _, dir := range []string{j.Bundle, j.Delivery} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"bundle/in.txt": "some text\n", "secret.txt": "not for the model"} {
		if err := os.WriteFile(filepath.Join(j.top, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	j.Say = func(line string) { j.said = append(j.said, line) }
	j.Record = func(tool string, params map[string]string) func(string, int) {
		return func(output string, exit int) { j.records = append(j.records, fmt.Sprintf("%s %d", tool, exit)) }
	}
	j.Run = func(_ context.Context, command string, out io.Writer) (int, error) {
		fmt.Fprintf(out, "ran %s\n", command)
		return 3, nil
	}
	return j
}

func (j *job) delivered(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(j.Delivery, name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func (a *api) model() chat.Model {
	return chat.Model{API: model.API{URL: a.URL + "/v1", Key: vault.NewSecret([]byte(apiKey))}, Name: "m1", Brief: brief}
}

// brief names the files of a bundle.
func brief(_ context.Context, bundle fs.FS) (string, error) {
	names, err := fs.Glob(bundle, "*")
	return "Do it with " + strings.Join(names, ", ") + ".", err
}

var (
	writeHello = call{"write", `{"path":"delivery/hello.txt","content":"hello\n"}`}
	finish     = call{"finish", `{"summary":"It says hello."}`}
)

func TestModelDoesTaskWithTools(t *testing.T) {
	a := serve(t, script(
		turn{text: "I look.", calls: []call{{"list", `{"path":"bundle"}`}, {"read", `{"path":"bundle/in.txt"}`}}},
		turn{calls: []call{{"write", `{"path":"delivery/src/hello.txt","content":"hello\n"}`}, {"run", `{"command":"cat x"}`}}},
		turn{calls: []call{finish}},
	))
	j := newJob(t)
	outcome, err := a.model().Do(t.Context(), j.Task)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.delivered(t, "src/hello.txt"); got != "hello\n" {
		t.Errorf("delivered %q", got)
	}
	if got := j.delivered(t, "result.json"); !strings.Contains(got, `"summary":"It says hello."`) {
		t.Errorf("reported %s", got)
	}
	if want := []string{"bundle/in.txt  10 bytes", "some text\n", "written: 6 bytes", "exit code 3\nran cat x\n"}; !slices.Equal(a.outputs(), want) {
		t.Errorf("the model was told %q", a.outputs())
	}
	if want := []string{"I look.", "list bundle: 1 files", "read bundle/in.txt", "write delivery/src/hello.txt: 6 bytes", "run cat x: exit code 3"}; !slices.Equal(j.said, want) {
		t.Errorf("the customer was told %q", j.said)
	}
	if want := []string{"list 0", "read 0", "write 0", "run 3", "finish 0"}; !slices.Equal(j.records, want) {
		t.Errorf("recorded %q", j.records)
	}
	if outcome.Summary != "It says hello." || outcome.Tokens.Input != 300 || outcome.Tokens.Output != 30 {
		t.Errorf("%+v", outcome)
	}
	first := a.asked[0]
	if first.key != "Bearer "+apiKey || first.path != "/v1/chat/completions" || first.Model != "m1" || len(first.Tools) != 5 || first.Messages[1].Content != "Do it with in.txt." {
		t.Errorf("asked %+v", first)
	}
}

func TestModelHasItsAgentsToolsOnly(t *testing.T) {
	a := serve(t, script(
		turn{calls: []call{{"run", `{"command":"echo no"}`}, {"list", `{"path":"bundle"}`}, {"read", `{"path":"files/style.md"}`}, {"write", `{"path":"files/style.md","content":"x"}`}}},
		turn{calls: []call{writeHello, finish}},
	))
	j := newJob(t)
	j.Prompt, j.Tools, j.Files = "Be kind to $(id).", []string{"Read", "edit", "bank/pay"}, t.TempDir()
	if err := os.WriteFile(filepath.Join(j.Files, "style.md"), []byte("short\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := a.model().Do(t.Context(), j.Task); err != nil {
		t.Fatal(err)
	}
	if want := []string{"error: there is no such tool", "error: there is no such tool", "short\n", "error: it can only be read"}; !slices.Equal(a.outputs(), want) {
		t.Errorf("the model was told %q", a.outputs())
	}
	first := a.asked[0]
	var offered []string
	for _, tool := range first.Tools {
		offered = append(offered, tool.Function.Name)
	}
	if want := []string{"read", "write", "finish"}; !slices.Equal(offered, want) {
		t.Errorf("offered %q", offered)
	}
	if system := first.Messages[0].Content; !strings.HasSuffix(system, "\nBe kind to $(id).") || strings.Contains(system, "run starts") {
		t.Errorf("the system message is %s", system)
	}
}

func TestModelHasToolsOfTheCaller(t *testing.T) {
	a := serve(t, script(
		turn{calls: []call{{"bank-pay", `{"path":7}`}, {"bank-pay", `[]`}, {"bank-long", `{}`}, {"bank-fail", `{}`}}},
		turn{calls: []call{writeHello, finish}},
	))
	j := newJob(t)
	j.Tools = []string{"write"}
	tool := func(name string, do func(arguments string) (string, error)) chat.Tool {
		return chat.Tool{Name: name, Description: "Says " + name, Parameters: json.RawMessage(`{"type":"object"}`), Call: func(_ context.Context, arguments json.RawMessage) (string, error) {
			return do(string(arguments))
		}}
	}
	j.More = []chat.Tool{
		tool("bank-pay", func(arguments string) (string, error) { return "paid " + arguments, nil }),
		tool("bank-long", func(string) (string, error) { return strings.Repeat("x", 1<<20), nil }),
		tool("bank-fail", func(string) (string, error) { return "", fmt.Errorf("no money") }),
	}
	if _, err := a.model().Do(t.Context(), j.Task); err != nil {
		t.Fatal(err)
	}
	told := a.outputs()
	if len(told) != 4 || told[0] != `paid {"path":7}` || !strings.HasPrefix(told[1], "error: ") || len(told[2]) > 17<<10 || told[3] != "error: no money" {
		t.Errorf("the model was told %.200q", told)
	}
	if want := []string{"bank-pay 0", "invalid 1", "bank-long 0", "bank-fail 1", "write 0", "finish 0"}; !slices.Equal(j.records, want) {
		t.Errorf("recorded %q", j.records)
	}
	if want := []string{"bank-pay", "bank-long", "bank-fail: error", "write delivery/hello.txt: 6 bytes"}; !slices.Equal(j.said, want) {
		t.Errorf("the customer was told %q", j.said)
	}
	var offered []string
	for _, tool := range a.asked[0].Tools {
		offered = append(offered, tool.Function.Name)
	}
	if want := []string{"write", "finish", "bank-pay", "bank-long", "bank-fail"}; !slices.Equal(offered, want) {
		t.Errorf("offered %q", offered)
	}
}

// A model that was told by the task to get out of its directories gets nothing, and nothing is written there.
func TestPathsOutOfDirectoriesAreRefused(t *testing.T) {
	j := newJob(t)
	outside := filepath.Join(j.top, "secret.txt")
	for link, target := range map[string]string{"bundle/link": outside, "bundle/up": "..", "delivery/up": "..", "delivery/out.txt": outside} {
		if err := os.Symlink(target, filepath.Join(j.top, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(j.Bundle, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	var calls []call
	for _, path := range []string{
		"../secret.txt", "/etc/passwd", "bundle/../../secret.txt", "bundle/link", "bundle/up/secret.txt", "/box/../secret.txt", "", "secret.txt",
		"/box/bundle/up/secret.txt", "bundle/pipe", "delivery/out.txt", "delivery/up/secret.txt", "bundle/\x00", "//etc/passwd", "C:\\secret.txt", "vault/vault.json",
	} {
		for _, tool := range []string{"read", "write", "list"} {
			arguments, err := json.Marshal(map[string]string{"path": path, "content": "overwritten"})
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, call{tool, string(arguments)})
		}
	}
	a := serve(t, func(n int) turn {
		if n < len(calls) {
			return turn{calls: []call{calls[n], {"list", `{"path":"bundle"}`}}} // one of use, or the model would be stopped
		}
		return turn{calls: []call{writeHello, finish}}
	})
	if _, err := a.model().Do(t.Context(), j.Task); err != nil {
		t.Fatal(err)
	}
	for i, output := range a.outputs() {
		if i%2 == 0 && !strings.HasPrefix(output, "error: ") && output != "[no files]" && !strings.Contains(output, "left out") {
			t.Errorf("%v gives %q", calls[i/2], output)
		}
		if strings.Contains(output, "not for the model") || strings.Contains(output, j.top) {
			t.Errorf("%v shows %q", calls[i/2], output)
		}
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "not for the model" {
		t.Errorf("outside: %q, %v", text, err)
	}
}

func TestListIsBounded(t *testing.T) {
	a := serve(t, script(turn{calls: []call{{"list", `{"path":"delivery"}`}}}, turn{calls: []call{writeHello, finish}}))
	j := newJob(t)
	for i := range 10_001 {
		if err := os.Mkdir(filepath.Join(j.Delivery, fmt.Sprintf("empty-%05d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.model().Do(t.Context(), j.Task); err != nil {
		t.Fatal(err)
	}
	if want := "\n[only the first 0: list a folder in it]"; a.outputs()[0] != want {
		t.Errorf("the model was told %q", a.outputs()[0])
	}
}

func TestHostileAnswers(t *testing.T) {
	huge := strings.Repeat("x", 3<<20)
	for name, c := range map[string]struct {
		turns func(int) turn
		want  string
	}{
		"not JSON":             {script(turn{raw: "<html>"}), "the model's answer is malformed"},
		"no choices":           {script(turn{raw: `{"choices":[]}`}), "the model's answer is malformed"},
		"too long":             {script(turn{text: huge}), "the model's answer is too long"},
		"refuses":              {script(turn{status: 401, raw: "no such key " + apiKey}), "the model's API refused the request"},
		"arguments never JSON": {script(turn{calls: []call{{"write", `{"path": "deliv`}}}), "10 calls of the model in a row were of no use"},
		"unknown tools":        {script(turn{calls: []call{{"sudo", `{}`}}}), "10 calls of the model in a row were of no use"},
		"talks only":           {script(turn{text: "I am done."}), "the model stopped without an end"},
		"never ends":           {script(turn{calls: []call{{"list", `{"path":"bundle"}`}}}), "the model did not end within 20 turns"},
		"finishes with nothing": {script(turn{calls: []call{{"write", `{"path":"delivery/result.json","content":"{}"}`}}}, turn{calls: []call{finish}}),
			"10 calls of the model in a row were of no use"},
		"far too many calls": {script(turn{calls: slices.Repeat([]call{finish}, 1000)}), "the model's answer is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			a, j := serve(t, c.turns), newJob(t)
			m := a.model()
			m.Turns = 20
			_, err := m.Do(t.Context(), j.Task)
			if err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
			if told := strings.Join(j.said, "\n"); strings.Contains(told, apiKey) {
				t.Errorf("the customer was told %q", told)
			}
		})
	}
}

func TestTooLargeToolArgumentsAreRefused(t *testing.T) {
	big, err := json.Marshal(map[string]string{"path": "delivery/big", "content": strings.Repeat("x", 1<<20+1)})
	if err != nil {
		t.Fatal(err)
	}
	a, j := serve(t, script(turn{calls: []call{{"write", string(big)}}}, turn{calls: []call{writeHello, finish}})), newJob(t)
	if _, err := a.model().Do(t.Context(), j.Task); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(j.Delivery, "big")); err == nil || !strings.Contains(strings.Join(a.outputs(), ""), "more than 1048576 bytes") {
		t.Errorf("the model was told %q", a.outputs())
	}
}

func TestKeyGoesToNoOtherHost(t *testing.T) {
	other := serve(t, script(turn{calls: []call{finish}}))
	a, j := serve(t, script(turn{serve: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/v1/chat/completions", http.StatusTemporaryRedirect)
	}})), newJob(t)
	_, err := a.model().Do(t.Context(), j.Task)
	if err == nil || err.Error() != "the model's API refused the request" || len(other.asked) > 0 {
		t.Errorf("%v; the other host was asked %v", err, other.asked)
	}
}

func TestHangingApiEndsWithTheJob(t *testing.T) {
	a, j := serve(t, script(turn{serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})), newJob(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.model().Do(ctx, j.Task); err == nil {
		t.Error("a hanging API is no error")
	}
}

func TestBusyApiIsAskedAgain(t *testing.T) {
	a, j := serve(t, script(turn{status: 429, raw: "slow down"}, turn{calls: []call{writeHello, finish}})), newJob(t)
	if _, err := a.model().Do(t.Context(), j.Task); err != nil || len(a.asked) != 2 {
		t.Errorf("%v after %d requests", err, len(a.asked))
	}
	if !slices.Contains(j.said, "the model's API is busy: it is asked again in 2s") {
		t.Errorf("nobody hears of the wait: %q", j.said)
	}
}

func TestTokensOfOneJobAreLimited(t *testing.T) {
	a, j := serve(t, script(turn{calls: []call{{"list", `{"path":"bundle"}`}}})), newJob(t)
	m := a.model()
	m.API.JobTokens = 12_000
	_, err := m.Do(t.Context(), j.Task)
	if err == nil || err.Error() != "the work took more tokens than a job may" || len(a.asked) > 40 {
		t.Errorf("%v after %d requests", err, len(a.asked))
	}
}

// A long conversation is shortened at its beginning, and stays one that an API accepts.
func TestLongConversationIsShortened(t *testing.T) {
	j := newJob(t)
	if err := os.WriteFile(filepath.Join(j.Bundle, "long.txt"), []byte(strings.Repeat("line\n", 9_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	a := serve(t, func(n int) turn {
		if n < 40 {
			return turn{calls: []call{{"read", `{"path":"bundle/long.txt"}`}}}
		}
		return turn{calls: []call{writeHello, finish}}
	})
	if _, err := a.model().Do(t.Context(), j.Task); err != nil {
		t.Fatal(err)
	}
	outputs := a.outputs()
	size := len(strings.Join(outputs, ""))
	if size > 700<<10 || len(outputs) != 40 || !strings.Contains(outputs[0], "left out") || !strings.HasPrefix(outputs[39], "line\n") {
		t.Errorf("%d outputs of %d bytes, the first %.60q", len(outputs), size, outputs[0])
	}
}

func TestFailedSandboxEndsTask(t *testing.T) {
	a, j := serve(t, script(turn{calls: []call{{"run", `{"command":"true"}`}}})), newJob(t)
	j.Run = func(context.Context, string, io.Writer) (int, error) { return 0, fmt.Errorf("the sandbox: broken") }
	if _, err := a.model().Do(t.Context(), j.Task); err == nil || err.Error() != "the sandbox: broken" {
		t.Error(err)
	}
}
