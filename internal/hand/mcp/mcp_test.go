package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"guild/internal/hand/chat"
	"guild/internal/hand/mcp"
)

// server is an MCP server with tools that return their name and their arguments.
func server(tools ...string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for _, name := range tools {
		add(s, name, object, func(arguments json.RawMessage) (*sdk.CallToolResult, error) {
			return says(name + " " + string(arguments)), nil
		})
	}
	return s
}

var object = map[string]any{"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}}

func add(s *sdk.Server, name string, schema any, do func(arguments json.RawMessage) (*sdk.CallToolResult, error)) {
	s.AddTool(&sdk.Tool{Name: name, Description: "does " + name, InputSchema: schema}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return do(r.Params.Arguments)
	})
}

func says(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// command serves s as a command would, over its standard input and output.
func command(name string, s *sdk.Server) mcp.Server {
	return mcp.Server{Name: name, Command: name, Run: func(ctx context.Context, in io.Reader, out io.Writer) error {
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}}) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done(): // as if it was killed
			return nil
		}
	}}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// open opens the servers for a test and returns their tools by name, and what is logged.
func open(t *testing.T, allowed []string, servers ...mcp.Server) (tools map[string]chat.Tool, log *bytes.Buffer, err error) {
	t.Helper()
	log = &bytes.Buffer{}
	all, err := mcp.Open(t.Context(), slog.New(slog.NewTextHandler(log, nil)), servers, allowed)
	if err != nil {
		return nil, log, err
	}
	t.Cleanup(all.Close)
	tools = map[string]chat.Tool{}
	for _, tool := range all.Offered() {
		tools[tool.Name] = tool
	}
	return tools, log, nil
}

func mustOpen(t *testing.T, allowed []string, servers ...mcp.Server) (map[string]chat.Tool, *bytes.Buffer) {
	t.Helper()
	tools, log, err := open(t, allowed, servers...)
	if err != nil {
		t.Fatal(err)
	}
	return tools, log
}

func TestServerToolNames(t *testing.T) {
	tools, log := mustOpen(t, nil, command("files", server("read", "find.all")), command("bank", server("read")))
	for name, want := range map[string]string{"files-read": "read", "files-find_all": "find.all", "bank-read": "read"} {
		tool, ok := tools[name]
		if !ok {
			t.Errorf("%s is not offered", name)
			continue
		}
		output, err := tool.Call(t.Context(), json.RawMessage(`{"path":"x"}`))
		if err != nil || output != want+` {"path":"x"}` || tool.Description != "does "+want || !strings.Contains(string(tool.Parameters), `"path"`) {
			t.Errorf("%s answers %q, %v; it is %q with %s", name, output, err, tool.Description, tool.Parameters)
		}
	}
	if len(tools) != 3 || log.Len() > 0 {
		t.Errorf("%d tools; logged %s", len(tools), log)
	}
}

func TestToolIsOfferedOnlyIfNamed(t *testing.T) {
	for allowed, want := range map[string]string{
		"files-read": "files-read", "files/read": "files-read", "read": "bank-read files-read", "bank/write run": "bank-write", "run": "", "files": "", "Read": "",
	} {
		tools, _ := mustOpen(t, strings.Fields(allowed), command("files", server("read", "write")), command("bank", server("read", "write")))
		var names []string
		for name := range tools {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q allows %q, want %q", allowed, got, want)
		}
	}
	if tools, _ := mustOpen(t, []string{}, command("files", server("read"))); len(tools) > 0 {
		t.Errorf("no tools are named, and there are %d", len(tools))
	}
}

func TestToolsThatCannotBeOfferedAreLogged(t *testing.T) {
	long := strings.Repeat("n", 65)
	huge := server("good")
	add(huge, "huge", map[string]any{"type": "object", "description": strings.Repeat("x", 20<<10)}, nil)
	tools, log := mustOpen(t, nil, command("a", server("b-c", long, "x.y", "x_y")), command("a-b", server("c")), command("h", huge))
	if len(tools) != 3 || tools["a-b-c"].Call == nil || tools["a-x_y"].Call == nil || tools["h-good"].Call == nil {
		t.Errorf("offered %v", tools)
	}
	for _, want := range []string{"has more than 64 bytes", "another tool has the name a-x_y", "another tool has the name a-b-c", "more than 16384"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log: %s", want, log)
		}
	}
}

// oversized is a server whose schemas have five megabytes.
func oversized() *sdk.Server {
	s := server()
	add(s, "huge", map[string]any{"type": "object", "description": strings.Repeat("x", 5<<20)}, nil)
	return s
}

// numerous is a server with ten thousand tools.
func numerous() *sdk.Server {
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprint("tool", i))
	}
	return server(names...)
}

// overHTTP serves s over HTTP.
func overHTTP(t *testing.T, s *sdk.Server) mcp.Server {
	t.Helper()
	return at(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
}

func at(t *testing.T, h http.Handler) mcp.Server {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return mcp.Server{Name: "web", URL: web.URL + "/mcp"}
}

func TestServerThatCannotBeUsedFailsJob(t *testing.T) {
	gibberish := func(context.Context, io.Reader, io.Writer) error { return errors.New("exit code 3: no such file") }
	spam := func(ctx context.Context, _ io.Reader, out io.Writer) error {
		for {
			if _, err := out.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				return err
			}
		}
	}
	nested := func(_ context.Context, _ io.Reader, out io.Writer) error {
		_, err := out.Write(bytes.Repeat([]byte("["), 3<<20))
		return err
	}
	for name, c := range map[string]struct {
		server mcp.Server
		want   string
	}{
		"10,000 tools":          {command("x", numerous()), "the MCP server x: it has more than 1000 tools"},
		"schema of 5 MB":        {command("x", oversized()), "exceeded the configured maximum"},
		"ends at once":          {mcp.Server{Name: "x", Run: gibberish}, "exit code 3: no such file"},
		"output without end":    {mcp.Server{Name: "x", Run: spam}, "the MCP server x: "},
		"deeply nested":         {mcp.Server{Name: "x", Run: nested}, "the MCP server x: "},
		"10,000 tools, HTTP":    {overHTTP(t, numerous()), "it has more than 1000 tools"},
		"schema of 5 MB, HTTP":  {overHTTP(t, oversized()), "the MCP server web: "},
		"not MCP, HTTP":         {at(t, http.NotFoundHandler()), "Not Found"},
		"deeply nested, HTTP":   {at(t, answers("application/json", strings.Repeat("[", 3<<20))), "the MCP server web: "},
		"response without end":  {at(t, endless("application/json")), "more than 4194304 bytes"},
		"events without end":    {at(t, endless("text/event-stream")), "the MCP server web: "},
		"elsewhere by redirect": {at(t, http.RedirectHandler("http://127.0.0.1:1/", http.StatusTemporaryRedirect)), "Temporary Redirect"},
		"unreachable URL":       {mcp.Server{Name: "web", URL: "http://127.0.0.1:1/mcp?token=abc"}, "connection refused"},
		"long error, HTTP":      {at(t, refuses(strings.Repeat("x", 1<<20))), "the MCP server web: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := open(t, nil, c.server)
			failed, ok := errors.AsType[*mcp.ServerError](err)
			if !ok || !strings.Contains(failed.Unwrap().Error(), c.want) || failed.Error() != "a tool of the worker cannot be used" ||
				strings.Contains(failed.Unwrap().Error(), "abc") || len(failed.Unwrap().Error()) > 2100 {
				t.Errorf("%v, with the cause %.3000v; want %s", err, errors.Unwrap(err), c.want)
			}
		})
	}
}

func answers(form, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", form)
		io.WriteString(w, text)
	}
}

// refuses answers each request with an error.
func refuses(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ ID json.RawMessage }
		json.NewDecoder(r.Body).Decode(&asked)
		answers("application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":%q}}`, asked.ID, message))(w, r)
	}
}

func endless(form string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", form)
		for {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
				return
			}
		}
	}
}

func TestAtMost100ToolsAreOffered(t *testing.T) {
	var names []string
	for i := range 150 {
		names = append(names, fmt.Sprint("tool", i))
	}
	tools, log := mustOpen(t, nil, command("x", server(names...)))
	if len(tools) != 100 || !strings.Contains(log.String(), "number=50") || log.Len() > 2000 {
		t.Errorf("%d tools; logged %s", len(tools), log)
	}
}

// A call that fails is an error for the model, which can go on with other tools.
func TestFailedCallIsErrorForModel(t *testing.T) {
	faulty := func() *sdk.Server {
		s := server("fine")
		add(s, "wrong", object, func(json.RawMessage) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: true, Content: says("no such account").Content}, nil
		})
		add(s, "refused", object, func(json.RawMessage) (*sdk.CallToolResult, error) {
			return nil, errors.New(strings.Repeat("refused ", 1<<10))
		})
		add(s, "picture", object, func(json.RawMessage) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: []byte("x"), MIMEType: "image/png"}}}, nil
		})
		add(s, "huge", object, func(json.RawMessage) (*sdk.CallToolResult, error) { return says(strings.Repeat("x", 5<<20)), nil })
		return s
	}
	for name, served := range map[string]mcp.Server{"command": command("s", faulty()), "HTTP": overHTTP(t, faulty())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools, log := mustOpen(t, nil, served)
			for _, c := range []struct{ tool, output, err string }{
				{"wrong", "", "no such account"},
				{"refused", "", "refused refused"},
				{"picture", "[content that is no text]", ""},
				{"fine", `fine {"path":"y"}`, ""},
				{"huge", "", "the server " + served.Name + " failed: it ended, or its answer was late, malformed or longer than 4194304 bytes"},
				{"fine", "", "the server " + served.Name + " has ended"},
			} {
				output, err := tools[served.Name+"-"+c.tool].Call(t.Context(), json.RawMessage(`{"path":"y"}`))
				if err == nil {
					err = errors.New("")
				}
				if output != c.output || !strings.HasPrefix(err.Error(), c.err) || c.err == "" && err.Error() != "" || len(err.Error()) > 2100 {
					t.Errorf("%s: %.100q, %.200v; want %q, %q", c.tool, output, err, c.output, c.err)
				}
			}
			if !strings.Contains(log.String(), "an MCP server failed") {
				t.Errorf("logged %s", log)
			}
		})
	}
}

func TestServerThatDoesNotAnswerIsEnded(t *testing.T) {
	silent := func(ctx context.Context, _ io.Reader, _ io.Writer) error { <-ctx.Done(); return nil }
	synctest.Test(t, func(t *testing.T) {
		_, _, err := open(t, nil, mcp.Server{Name: "x", Run: silent})
		if err == nil || !strings.Contains(errors.Unwrap(err).Error(), "no answer within 1m0s") {
			t.Errorf("%v: %v", err, errors.Unwrap(err))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		s := server("fine")
		add(s, "slow", object, func(json.RawMessage) (*sdk.CallToolResult, error) { <-release; return says(""), nil })
		tools, log := mustOpen(t, nil, command("x", s))
		_, err := tools["x-slow"].Call(t.Context(), json.RawMessage(`{}`))
		if err == nil || !strings.HasPrefix(err.Error(), "the server x failed") || !strings.Contains(log.String(), "no answer within 2m0s") {
			t.Errorf("%v; logged %s", err, log)
		}
	})
}

func TestHangingServerEndsWithItsJob(t *testing.T) {
	hangs := func(job context.CancelFunc) *sdk.Server {
		s := server()
		add(s, "hang", object, func(json.RawMessage) (*sdk.CallToolResult, error) { job(); <-t.Context().Done(); return says(""), nil })
		return s
	}
	for name, serve := range map[string]func(job context.CancelFunc) mcp.Server{
		"command": func(job context.CancelFunc) mcp.Server { return command("x", hangs(job)) },
		"HTTP":    func(job context.CancelFunc) mcp.Server { return overHTTP(t, hangs(job)) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tools, err := mcp.Open(ctx, slog.New(slog.DiscardHandler), []mcp.Server{serve(cancel)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tools.Close()
			if _, err := tools.Offered()[0].Call(ctx, json.RawMessage(`{}`)); err == nil {
				t.Error("it answered")
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	web := at(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	if _, err := mcp.Open(ctx, slog.New(slog.DiscardHandler), []mcp.Server{web}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNamesOfServers(t *testing.T) {
	for source, want := range map[string]string{
		"./server --flag": "server", "/opt/x/my.tool.sh a b": "my_tool", "git-mcp": "git-mcp",
		"https://host/mcp": "host", "https://mcp.example.com/git/mcp?key=1": "mcp_example_com_git", "http://127.0.0.1:3000/": "127_0_0_1_3000",
	} {
		all, err := mcp.Parse([]string{source})
		if err != nil || all[0].Name != want || all[0].Source() != source {
			t.Errorf("%s: %+v, %v; want %s", source, all, err, want)
		}
	}
	for want, sources := range map[string][]string{
		"are both named server":         {"./server --a", "/bin/server.sh"},
		"has no name":                   {""},
		"of 1 to 40 letters":            {strings.Repeat("n", 41)},
		"not one like https://host/mcp": {"ftp://host/mcp"},
		"has a user, a password":        {"https://u:secret@host/mcp"},
		"zero byte":                     {"a\x00b"},
	} {
		if _, err := mcp.Parse(sources); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %s", sources, err, want)
		}
	}
}
