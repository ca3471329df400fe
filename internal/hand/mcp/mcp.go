// Package mcp gives a model the tools of MCP servers (Model Context Protocol), through the official Go SDK. A server is a command
// of the owner, which speaks over its standard input and output, or is reached at a URL (streamable HTTP). It is used for one job.
//
// A server may be broken, and its texts may be hostile. The number of its tools, the size of its messages, and the time for an
// answer are bounded. A server may ask for nothing: it gets no directories, no answers of a model and no input of a person. The
// package decides nothing about jobs and starts no process; its caller runs commands in a sandbox.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"guild"
	"guild/internal/hand/chat"
)

// Limits of the servers of one job.
const (
	maxMessage     = 4 << 20   // bytes of one message of a server
	maxListed      = 1000      // tools that one server lists
	maxOffered     = 100       // tools of all servers that are offered
	maxDescribed   = 256 << 10 // bytes of their descriptions and schemas
	maxSchema      = 16 << 10  // bytes of the schema of one tool
	maxDescription = 2000      // bytes of the description of one tool; the rest is cut off
	maxToolName    = 64        // bytes, as the API has it
	maxFault       = 2000      // bytes of an error of a server

	startTime = time.Minute     // for a server to start and list its tools
	callTime  = 2 * time.Minute // for the answer to a call
	closeTime = 2 * time.Second // for a server to end when its job has ended
)

// ServerError reports a server that cannot be used in a job. Its text is for the customer; Unwrap returns the cause, for the owner.
type ServerError struct {
	Server string // its name
	cause  error
}

// Error implements error.
func (e *ServerError) Error() string { return "a tool of the worker cannot be used" }

// Unwrap returns the cause.
func (e *ServerError) Unwrap() error { return e.cause }

// Tools are the tools of the servers of one job.
type Tools struct {
	log       *slog.Logger
	sessions  []*session
	offered   []chat.Tool
	described int // bytes
}

// Open starts the servers of a job and lists their tools. Of these the model gets those that allowed names, or all if it is nil: by
// "SERVER-TOOL", as the model knows them, by "SERVER/TOOL", or by "TOOL". A tool that cannot be offered is logged. The error is a
// *ServerError if a server does not work. ctx is that of the job. Close ends the servers.
func Open(ctx context.Context, log *slog.Logger, servers []Server, allowed []string) (*Tools, error) {
	t := &Tools{log: log}
	for _, server := range servers {
		s := connect(ctx, server)
		t.sessions = append(t.sessions, s)
		if err := t.list(ctx, s, allowed); err != nil {
			t.Close()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, &ServerError{server.Name, fmt.Errorf("the MCP server %s: %w", server.Name, err)}
		}
	}
	return t, nil
}

// Offered returns the tools that the model gets.
func (t *Tools) Offered() []chat.Tool { return t.offered }

// Close ends the servers. All processes of commands have ended when it returns.
func (t *Tools) Close() {
	for _, s := range t.sessions {
		s.close()
	}
}

// list begins the session of a server and adds the tools that it lists.
func (t *Tools) list(ctx context.Context, s *session, allowed []string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	defer context.AfterFunc(ctx, s.kill)()
	// Without capabilities a server asks its client for nothing.
	client := mcp.NewClient(&mcp.Implementation{Name: "guild", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	var err error
	if s.client, err = client.Connect(ctx, s.transport, nil); err != nil {
		return s.fail(ctx, startTime, err)
	}
	var leftOut []string
	listed := 0
	for tool, err := range s.client.Tools(ctx, nil) {
		if err != nil {
			return s.fail(ctx, startTime, err)
		}
		listed++
		if listed > maxListed {
			return fmt.Errorf("it has more than %d tools", maxListed)
		}
		if !names(allowed, s.server.Name, tool.Name) {
			continue
		}
		if err := t.add(s, tool); err != nil {
			leftOut = append(leftOut, fmt.Sprintf("%.80q: %v", tool.Name, err))
		}
	}
	if n := len(leftOut); n > 0 {
		t.log.Warn("tools of an MCP server are not offered", "server", s.server.Name, "number", n, "first", leftOut[:min(n, 5)])
	}
	return nil
}

// names reports whether a tool is among the allowed ones.
func names(allowed []string, server, tool string) bool {
	return allowed == nil || slices.ContainsFunc(allowed, func(name string) bool {
		return name == toolName(server, tool) || name == server+"/"+tool || name == tool
	})
}

// toolName returns the name by which the model calls a tool.
func toolName(server, tool string) string {
	return server + "-" + unnameable.ReplaceAllString(tool, "_")
}

// add offers a tool of a server, or returns why it is not offered.
func (t *Tools) add(s *session, tool *mcp.Tool) error {
	name := toolName(s.server.Name, tool.Name)
	schema, err := json.Marshal(tool.InputSchema)
	size := len(schema) + min(len(tool.Description), maxDescription)
	switch {
	case len(name) > maxToolName:
		return fmt.Errorf("the name %.100q has more than %d bytes", name, maxToolName)
	case slices.ContainsFunc(t.offered, func(other chat.Tool) bool { return other.Name == name }):
		return fmt.Errorf("another tool has the name %s", name)
	case err != nil || !bytes.HasPrefix(schema, []byte("{")):
		return errors.New("the schema of its arguments is not an object")
	case len(schema) > maxSchema:
		return fmt.Errorf("the schema of its arguments has %d bytes, more than %d", len(schema), maxSchema)
	case len(t.offered) == maxOffered:
		return fmt.Errorf("there are %d tools already", maxOffered)
	case t.described+size > maxDescribed:
		return fmt.Errorf("the tools are described in more than %d bytes", maxDescribed)
	}
	t.described += size
	t.offered = append(t.offered, chat.Tool{
		Name: name, Description: guild.Cut(tool.Description, maxDescription), Parameters: schema,
		Call: func(ctx context.Context, arguments json.RawMessage) (string, error) {
			return t.call(ctx, s, tool.Name, arguments)
		},
	})
	return nil
}

// call calls a tool. The error is for the model. The cause of a server's failure is logged.
func (t *Tools) call(ctx context.Context, s *session, tool string, arguments json.RawMessage) (output string, err error) {
	if s.over {
		return "", fmt.Errorf("the server %s has ended", s.server.Name)
	}
	timed, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	defer context.AfterFunc(timed, s.kill)()
	result, err := s.client.CallTool(timed, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	refused, answered := errors.AsType[*jsonrpc.Error](err)
	switch {
	case answered && !errors.Is(err, mcp.ErrConnectionClosed):
		return "", errors.New(guild.Cut(refused.Message, maxFault))
	case err != nil:
		err = s.fail(timed, callTime, err)
		if ctx.Err() == nil {
			t.log.Warn("an MCP server failed", "server", s.server.Name, "tool", tool, "err", err)
		}
		return "", fmt.Errorf("the server %s failed: it ended, or its answer was late, malformed or longer than %d bytes", s.server.Name, maxMessage)
	case result.NeedsInput():
		return "", errors.New("the tool asks for input of a person, and no person can answer")
	case result.IsError:
		return "", errors.New(text(result))
	}
	return text(result), nil
}

// text returns the text of a result.
func text(r *mcp.CallToolResult) string {
	var all []string
	for _, content := range r.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			all = append(all, c.Text)
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				all = append(all, c.Resource.Text)
				continue
			}
			all = append(all, "[a resource that is no text]")
		default:
			all = append(all, "[content that is no text]")
		}
	}
	if len(all) == 0 && r.StructuredContent != nil {
		if value, err := json.Marshal(r.StructuredContent); err == nil {
			return string(value)
		}
	}
	return strings.Join(all, "\n")
}

// session is the session with one server.
type session struct {
	server    Server
	transport mcp.Transport
	client    *mcp.ClientSession // nil until it began
	over      bool               // the server failed; it is not asked again

	kill  context.CancelFunc // ends the command, or the requests
	ended chan struct{}      // closed when the command has ended; nil for a URL
	why   error              // it ended by itself; valid when ended is closed
	input io.Closer          // of the command; nil for a URL
}

// connect starts the command of a server, or prepares requests to its URL.
func connect(ctx context.Context, server Server) *session {
	ctx, kill := context.WithCancel(ctx)
	s := &session{server: server, kill: kill}
	if server.URL != "" {
		s.transport = &mcp.StreamableClientTransport{
			Endpoint: server.URL, DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: maxMessage,
			HTTPClient: &http.Client{
				Transport: &bounded{ctx: ctx, to: http.DefaultTransport}, Timeout: callTime,
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			},
		}
		return s
	}
	in, input := io.Pipe()
	output, out := io.Pipe()
	s.transport = &mcp.IOTransport{Reader: output, Writer: input, MaxLineLength: maxMessage}
	s.ended, s.input = make(chan struct{}), input
	go func() {
		defer close(s.ended)
		s.why = server.Run(ctx, in, out)
		in.Close()
		out.Close()
	}()
	return s
}

// fail ends the server and returns why it failed, without the query of its URL. ctx had this much time.
func (s *session) fail(ctx context.Context, limit time.Duration, err error) error {
	s.over = true
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", limit)
	}
	s.kill()
	if s.ended != nil {
		<-s.ended
	}
	text := errors.Join(s.why, err).Error()
	if query := s.server.Query(); query != "" {
		text = strings.ReplaceAll(text, query, "…")
	}
	return errors.New(guild.Cut(text, maxFault))
}

// close ends the session. A command first gets the time to end by itself.
func (s *session) close() {
	late := time.AfterFunc(closeTime, s.kill)
	defer late.Stop()
	if s.client != nil {
		s.client.Close()
	}
	if s.ended != nil {
		s.input.Close()
		<-s.ended
	}
	s.kill()
}
