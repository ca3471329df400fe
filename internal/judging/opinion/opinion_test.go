package opinion_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"guild/internal/judging/opinion"
	"guild/internal/judging/opinion/opiniontest"
	"guild/internal/judging/sandbox/tiers"
)

// answering is the argument that makes the test binary act as the command.
const answering = "answer-in-mode"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == answering {
		question, err := io.ReadAll(os.Stdin)
		if err != nil || len(os.Environ()) != 1 {
			os.Exit(1)
		}
		fmt.Print(opiniontest.Answer(opiniontest.Mode(os.Args[2]), question))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestCommand(t *testing.T) {
	opiniontest.Test(t, func(t *testing.T, mode opiniontest.Mode) opinion.Opinion {
		return opinion.Command{Argv: []string{os.Args[0], answering, string(mode)}, Env: []string{"A=1"}}
	})
}

func TestCommandFailures(t *testing.T) {
	q := opinion.Question{Results: []json.RawMessage{[]byte(`1`), []byte(`2`)}}
	for name, c := range map[string]opinion.Command{
		"none":       {},
		"not there":  {Argv: []string{"/no/such/command"}},
		"exits":      {Argv: []string{"/bin/sh", "-c", `echo '{"choice": "A"}'; exit 3`}},
		"takes long": {Argv: []string{"/bin/sh", "-c", "sleep 600 & sleep 600"}, Patience: 50 * time.Millisecond},
	} {
		if got, err := c.Best(t.Context(), q); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCommandInSandbox(t *testing.T) {
	runner, _, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := opinion.Command{
		Argv: []string{"/bin/sh", "-c", `[ -e "$0" ] && exit 1; cat > q; grep -q '"a":"1"' q && echo '{"choice": "B"}' || echo '{"choice": "A"}'`, t.TempDir()},
		Env:  []string{"PATH=/usr/bin:/bin"}, Runner: runner,
	}
	got, err := c.Best(t.Context(), opinion.Question{Results: []json.RawMessage{[]byte(`1`), []byte(`2`)}})
	if err != nil || len(got.Best) != 1 || got.Best[0] != 1 {
		t.Errorf("%+v %v", got, err)
	}
	c.Argv = []string{"/bin/sh", "-c", "exit 7"}
	if got, err := c.Best(t.Context(), opinion.Question{Results: []json.RawMessage{[]byte(`1`), []byte(`2`)}}); err == nil {
		t.Errorf("%+v", got)
	}
}

const secret = "sk-do-not-tell"

// endpoint runs an OpenAI-compatible server and returns its URL. handle writes the body of an answer.
func endpoint(t *testing.T, handle func(w http.ResponseWriter, question []byte)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model       string
			Temperature *float64
			Messages    []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		if body.Model != "judge" || body.Temperature == nil || *body.Temperature != 0 || r.Header.Get("Authorization") != "Bearer "+secret {
			t.Errorf("%+v %v", body, r.Header)
		}
		if len(body.Messages) != 2 || body.Messages[0].Role != "system" || body.Messages[1].Role != "user" ||
			strings.ContainsAny(body.Messages[1].Content, "<>\u2028") {
			t.Errorf("%+v", body.Messages)
			return
		}
		handle(w, []byte(body.Messages[1].Content))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

// says writes a response with an answer.
func says(w http.ResponseWriter, content string) {
	json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
		"finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": content}}}})
}

func chat(url string) opinion.Chat {
	return opinion.Chat{URL: url, Model: "judge", Key: opinion.NewKey(secret)}
}

func TestChat(t *testing.T) {
	opiniontest.Test(t, func(t *testing.T, mode opiniontest.Mode) opinion.Opinion {
		return chat(endpoint(t, func(w http.ResponseWriter, question []byte) { says(w, opiniontest.Answer(mode, question)) }))
	})
}

func TestEndpointErrorsHideKey(t *testing.T) {
	q := opinion.Question{Results: []json.RawMessage{[]byte(`1`), []byte(`2`)}}
	for name, handle := range map[string]func(w http.ResponseWriter, question []byte){
		"refuses":     func(w http.ResponseWriter, _ []byte) { http.Error(w, "bad key "+secret, http.StatusUnauthorized) },
		"no JSON":     func(w http.ResponseWriter, _ []byte) { fmt.Fprint(w, "<html>") },
		"no choice":   func(w http.ResponseWriter, _ []byte) { fmt.Fprint(w, `{"choices": []}`) },
		"two choices": func(w http.ResponseWriter, _ []byte) { fmt.Fprint(w, `{"choices": [{}, {}]}`) },
		"cut": func(w http.ResponseWriter, _ []byte) {
			fmt.Fprint(w, `{"choices": [{"finish_reason": "length", "message": {"content": "{\"choice\": \"A\"}"}}]}`)
		},
		"sends us off": func(w http.ResponseWriter, _ []byte) {
			w.Header().Set("Location", "http://192.0.2.1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
	} {
		c, err := chat(endpoint(t, handle)).Best(t.Context(), q)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %+v %v", name, c, err)
		}
	}
}

func TestEndpointAddressCheck(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://host/v1": true, "http://127.0.0.1:8080/v1": true, "http://localhost/v1": true, "http://[::1]:1/v1": true,
		"http://192.0.2.1/v1": false, "https://user:password@host/v1": false, "https://host/v1?key=1": false, "": false, "file:///v1": false,
	} {
		if err := chat(url).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
	if err := (opinion.Chat{URL: "http://192.0.2.1/v1", Model: "m"}).Check(); err != nil {
		t.Errorf("without a key: %v", err)
	}
	if (opinion.Chat{URL: "https://host/v1"}).Check() == nil {
		t.Error("without a model")
	}
}

func TestKeyDoesNotPrint(t *testing.T) {
	c := chat("https://host/v1")
	for _, text := range []string{
		fmt.Sprint(c.Key), fmt.Sprintf("%v %+v %#v %s %q %x", c, c, c, c.Key, c.Key, c.Key), fmt.Sprintf("%v", &c),
		slog.AnyValue(c.Key).Resolve().String(),
	} {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
			t.Error(text)
		}
	}
	if raw, err := json.Marshal(map[string]opinion.Key{"key": c.Key}); err == nil {
		t.Errorf("%s", raw)
	}
	if _, err := c.Key.MarshalText(); err == nil || !opinion.NewKey("").IsZero() || c.Key.IsZero() {
		t.Error("a key is written as text, or not known to be none")
	}
}
