package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"guild/internal/hand/chat"
	"guild/internal/hand/model"
	"guild/internal/node"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// toolCall is a call of a tool by a scripted model.
type toolCall struct{ tool, arguments string }

// scripted serves a model that calls one tool in each answer, and keeps what it is told.
func scripted(t *testing.T, calls ...toolCall) (url string, told *[]string) {
	told = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		*told = nil
		for _, m := range asked.Messages {
			if m.Role == "tool" {
				*told = append(*told, m.Content)
			}
		}
		c := calls[min(len(*told), len(calls)-1)]
		json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{
			"tool_calls": []any{map[string]any{"id": "c", "type": "function", "function": map[string]string{"name": c.tool, "arguments": c.arguments}}},
		}}}})
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1", told
}

// A model whose commands leave links and pipes reaches nothing through them, finds no key and no network, and delivers only its
// files.
func TestHostileModelStaysInsideItsSandbox(t *testing.T) {
	const secret = "test-key-0123-abcd"
	url, told := scripted(t,
		toolCall{"run", `{"command":"cd ../delivery && ln -s /etc/passwd passwd && ln -s ../../../.. up && mkfifo pipe && echo ok >ok.txt"}`},
		toolCall{"read", `{"path":"delivery/passwd"}`},
		toolCall{"list", `{"path":"delivery"}`},
		toolCall{"write", `{"path":"delivery/up/written","content":"x"}`},
		toolCall{"read", `{"path":"delivery/ok.txt"}`},
		toolCall{"read", `{"path":"delivery/pipe"}`},
		toolCall{"run", `{"command":"cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; env; ls /root /home ~/.config 2>&1; id -u"}`},
		toolCall{"run", `{"command":"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 80), 2)' 2>&1 | tail -1; getent hosts example.com; echo end"}`},
		toolCall{"run", `{"command":"rm passwd up pipe; cd ../delivery; rm passwd up pipe; kill -9 -1; echo no"}`},
		toolCall{"run", `{"command":"cd ../delivery; rm -f passwd up pipe"}`},
		toolCall{"finish", `{"summary":"done"}`},
	)
	w := node.Worker{Task: "python", Limit: time.Minute, Chat: &chat.Model{
		API: model.API{URL: url, Key: vault.NewSecret([]byte(secret))}, Name: "m",
		Brief: func(context.Context, fs.FS) (string, error) { return "Do it.", nil },
	}}
	var packed bytes.Buffer
	_, err := nutshell.Pack(t.Context(), fstest.MapFS{"nutshell.json": {Data: []byte(
		`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Do it"}}`)}}, &packed, nutshell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	trial, err := node.Try(t.Context(), node.Config{Dir: t.TempDir()}, w, packed.Bytes(), func(string) {})
	if err != nil {
		t.Fatalf("%v; told %q", err, *told)
	}
	for i, want := range []string{"exit code 0", "error: ", "delivery/ok.txt", "error: ", "ok\n", "error: it is not a regular file", "exit code ", "Connection refused"} {
		if i < len(*told) && !strings.Contains((*told)[i], want) {
			t.Errorf("call %d: %q, want %q", i, (*told)[i], want)
		}
	}
	all := strings.Join(*told, "\n") + string(trial.Replay) + string(trial.Receipt)
	for _, leak := range []string{secret, "root:x:0", "example.com"} {
		if strings.Contains(strings.ReplaceAll(all, "hosts example.com", ""), leak) {
			t.Errorf("%q is in what the model was told or what is recorded: %s", leak, all)
		}
	}
	b, err := nutshell.Open(bytes.NewReader(trial.Delivery), int64(len(trial.Delivery)), nutshell.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range b.Files() {
		if rest, ok := strings.CutPrefix(f.Path, nutshell.ArtifactsDir+"/"); ok {
			names = append(names, rest)
		}
	}
	if !slices.Equal(names, []string{"ok.txt", "result.json"}) {
		t.Errorf("delivered %q", names)
	}
}
