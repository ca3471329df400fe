package node_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"guild/internal/hand/chat"
	"guild/internal/hand/mcp"
	"guild/internal/hand/model"
	"guild/internal/node"
	"guild/internal/step/work"
	"guild/nutshell/vault"
)

// mcpWorker returns a worker whose model makes the calls and has the tools of MCP servers, and what the model is told.
func mcpWorker(t *testing.T, sources []string, calls ...toolCall) (w node.Worker, told *[]string) {
	t.Helper()
	t.Setenv("API_KEY", "test-key-0123-abcd")
	t.Setenv("BANK_TOKEN", "bank-token-4567-efgh")
	url, told := scripted(t, calls...)
	servers, err := mcp.Parse(sources)
	if err != nil {
		t.Fatal(err)
	}
	return node.Worker{
		Task: "greeting", Limit: time.Minute, MCP: servers, Env: []string{"BANK_TOKEN", "WEB"}, Chat: &chat.Model{
			API: model.API{URL: url, Key: vault.NewSecret([]byte("test-key-0123-abcd"))}, Name: "m",
			Brief: func(context.Context, fs.FS) (string, error) { return "Do it.", nil },
		},
	}, told
}

// mcpProgram returns the command of the MCP server that this binary is.
func mcpProgram(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program + " mcp-server"
}

// adder serves an MCP server over HTTP with the one tool add, and returns its URL.
func adder(t *testing.T) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type numbers struct{ A, B int }
	sdk.AddTool(s, &sdk.Tool{Name: "add"}, func(_ context.Context, _ *sdk.CallToolRequest, n numbers) (*sdk.CallToolResult, map[string]int, error) {
		return nil, map[string]int{"sum": n.A + n.B}, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(web.Close)
	t.Setenv("WEB", web.Listener.Addr().String())
	return web.URL + "/calc/mcp"
}

func TestModelUsesToolsOfMCPServers(t *testing.T) {
	url := adder(t)
	web := strings.NewReplacer("http://", "", ".", "_", ":", "_", "/mcp", "", "/", "_").Replace(url)
	write, finish := toolCall{"write", `{"path":"delivery/hello.txt","content":"hello\n"}`}, toolCall{"finish", `{"summary":"done"}`}
	w, told := mcpWorker(t, []string{mcpProgram(t), url},
		toolCall{"node-look", `{}`}, toolCall{web + "-add", `{"A":3,"B":4}`}, toolCall{web + "-add", `{"A":"x"}`}, toolCall{"node-token", `{}`},
		toolCall{"node-flood", `{}`}, toolCall{"node-look", `{}`}, write, finish)
	trial, err := node.Try(t.Context(), node.Config{Dir: t.TempDir()}, w, greeting(t), func(string) {})
	if err != nil {
		t.Fatalf("%v; told %q; %s", err, *told, trial.Stderr)
	}
	for i, want := range []string{
		"it sees the bundle, the delivery", `{"sum":7}`, "error: ", "the token is bank-token-4567-efgh",
		"error: the server node failed: it ended, or its answer was late, malformed or longer than", "error: the server node has ended", "written",
	} {
		if i >= len(*told) || !strings.HasPrefix((*told)[i], want) || i == 0 && (*told)[i] != want {
			t.Errorf("call %d: told %.200q, want %q", i, (*told)[i:], want)
		}
	}
	record := string(trial.Replay)
	for _, want := range []string{`"tool":"node-look"`, `"tool":"` + web + `-add"`, `{\"sum\":7}`, "the token is [secret]"} {
		if !strings.Contains(record, want) {
			t.Errorf("%s is not in the record: %s", want, record)
		}
	}
	if strings.Contains(record+string(trial.Receipt), "4567-efgh") {
		t.Errorf("the token is in the record: %s", record)
	}
}

func TestBehaviourLimitsMCPTools(t *testing.T) {
	w, told := mcpWorker(t, []string{mcpProgram(t)},
		toolCall{"node-token", `{}`}, toolCall{"run", `{"command":"true"}`}, toolCall{"node-look", `{}`}, toolCall{"finish", `{"summary":"done"}`})
	w.Behave = behave(work.Behaviour{Prompt: "Look.", Tools: []string{"node/look", "read"}})
	if _, err := node.Try(t.Context(), node.Config{Dir: t.TempDir()}, w, greeting(t), func(string) {}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"error: there is no such tool", "error: there is no such tool", "it sees the bundle, the delivery"}; !slices.Equal(*told, want) {
		t.Errorf("told %q", *told)
	}
}

func TestMCPServerThatFails(t *testing.T) {
	finish := toolCall{"finish", `{"summary":"done"}`}
	for name, c := range map[string]struct {
		command string
		limit   time.Duration
		told    string // the model
		err     string // for the customer
		stderr  string // for the owner
	}{
		"ends in a call":  {"", time.Minute, "error: the server node failed: it ended", "10 calls of the model in a row were of no use", ""},
		"ends at once":    {" broken", time.Minute, "", "a tool of the worker cannot be used", "it ended with exit code 3: no such database"},
		"does not answer": {" silent", 2 * time.Second, "", "the worker ran over its 2s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, told := mcpWorker(t, []string{mcpProgram(t) + c.command}, toolCall{"node-die", `{}`}, finish)
			w.Limit = c.limit
			_, err := node.Try(t.Context(), node.Config{Dir: t.TempDir()}, w, greeting(t), func(string) {})
			var stderr string
			if failed, ok := errors.AsType[*work.FailedError](err); ok {
				stderr = failed.Stderr
			}
			if err == nil || err.Error() != c.err || !strings.Contains(stderr, c.stderr) {
				t.Errorf("%v, with %q for the owner; want %s, and %q", err, stderr, c.err, c.stderr)
			}
			if c.told != "" && (len(*told) == 0 || !strings.HasPrefix((*told)[0], c.told)) {
				t.Errorf("told %q", *told)
			}
		})
	}
	w, _ := mcpWorker(t, []string{"/no/such/server"}, finish)
	if _, err := node.Try(t.Context(), node.Config{Dir: t.TempDir()}, w, greeting(t), func(string) {}); err == nil ||
		!strings.Contains(err.Error(), "the MCP server server: the command \"/no/such/server\"") {
		t.Error(err)
	}
}
