// Package modeltest is a stub of the APIs of language models. It plays a conversation in which the model has the agent run
// shell commands, one after the other, with the tool that the agent offers for that, or calls tools by name, and then ends
// with a text.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Model plays the conversation. It is an http.Handler for POST …/messages, …/responses and …/chat/completions, streamed or
// not. The place in the conversation is the number of results that a request has, so several may be played at once.
type Model struct {
	Commands []string // for the agent's shell
	Calls    []Call   // instead of Commands; also of tools that the agent does not offer
	Text     string   // at the end

	Heard func(Request) // gets each request, one at a time; may be nil

	mu sync.Mutex
}

// Call is a call of a tool.
type Call struct {
	Tool      string
	Arguments string // JSON; for "exec", the tool of Codex, JavaScript
}

// Request is a request that the stub received.
type Request struct {
	Path   string
	Header http.Header
	Body   string
}

// tool is a tool that an agent offers. The APIs nest its name differently.
type tool struct {
	Type     string
	Name     string
	Function struct{ Name string }
	Tools    []tool // of a namespace
}

func (t tool) name() string {
	switch {
	case t.Name != "":
		return t.Name
	case t.Function.Name != "":
		return t.Function.Name
	}
	return t.Type
}

// asked is a request of any of the APIs.
type asked struct {
	Stream   bool
	Tools    []tool
	Messages []json.RawMessage
	Input    json.RawMessage // a text, or items, of which one may have the tools
}

// ServeHTTP implements http.Handler.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.Heard != nil {
		m.mu.Lock()
		m.Heard(Request{r.URL.Path, r.Header.Clone(), string(body)})
		m.mu.Unlock()
	}
	var a asked
	if json.Unmarshal(body, &a) != nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	var next *Call // nil for the text
	shell, done := a.shell(), a.results()
	switch {
	case done < len(m.Calls):
		next = &m.Calls[done]
	case shell != "" && done < len(m.Commands):
		next = &Call{shell, arguments(shell, m.Commands[done])}
	}
	write := &answer{ResponseWriter: w, stream: a.Stream, id: fmt.Sprintf("call_%d", done+1)}
	switch {
	case strings.HasSuffix(r.URL.Path, "/messages"):
		write.message(next, m.Text)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		write.response(next, m.Text)
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		write.completion(next, m.Text)
	default:
		http.NotFound(w, r)
	}
}

// codeMode is the tool of Codex that runs JavaScript, in which its other tools are functions.
const codeMode = "exec"

// shell returns the name of the agent's tool for commands, "" if it has none.
func (a asked) shell() string {
	all := a.Tools
	var items []struct{ Tools []tool }
	if json.Unmarshal(a.Input, &items) == nil {
		for _, item := range items {
			all = append(all, item.Tools...)
		}
	}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Tools...)
	}
	for _, known := range []string{"Bash", "bash", "exec_command", "shell_command", "shell", "local_shell", "run", codeMode} {
		if slices.ContainsFunc(all, func(t tool) bool { return t.name() == known }) {
			return known
		}
	}
	return ""
}

// results counts the results of tools in a request.
func (a asked) results() int {
	text := string(a.Input)
	for _, m := range a.Messages {
		text += string(m)
	}
	return strings.Count(text, `"type":"tool_result"`) + strings.Count(text, `call_output"`) + strings.Count(text, `"role":"tool"`)
}

// arguments returns the arguments of a shell tool.
func arguments(shell, command string) string {
	var args map[string]any
	switch shell {
	case codeMode:
		return fmt.Sprintf("text(await tools.exec_command(%s))", arguments("exec_command", command))
	case "exec_command":
		args = map[string]any{"cmd": command}
	case "shell":
		args = map[string]any{"command": []string{"/bin/sh", "-c", command}}
	default:
		args = map[string]any{"command": command, "description": "run it"}
	}
	b, _ := json.Marshal(args)
	return string(b)
}

type object = map[string]any

// answer writes one answer.
type answer struct {
	http.ResponseWriter
	stream bool
	id     string // of the call of a tool
}

// event writes an event of a stream. The name may be empty.
func (w *answer) event(name string, data any) {
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	b, _ := json.Marshal(data)
	fmt.Fprintf(w, "data: %s\n\n", b)
}

// begin writes the header; it reports whether the answer is a stream.
func (w *answer) begin() bool {
	kind := "application/json"
	if w.stream {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	return w.stream
}

// message answers in Anthropic's form.
func (w *answer) message(next *Call, text string) {
	block, reason := object{"type": "text", "text": text}, "end_turn"
	if next != nil {
		block, reason = object{"type": "tool_use", "id": w.id, "name": next.Tool, "input": json.RawMessage(next.Arguments)}, "tool_use"
	}
	m := object{
		"id": "msg_" + w.id, "type": "message", "role": "assistant", "model": "stub", "content": []any{block}, "stop_reason": reason, "stop_sequence": nil,
		"usage": object{"input_tokens": 1000, "output_tokens": 50},
	}
	if !w.begin() {
		json.NewEncoder(w).Encode(m)
		return
	}
	m["content"], m["stop_reason"] = []any{}, nil
	m["usage"] = object{"input_tokens": 1000, "output_tokens": 1}
	w.event("message_start", object{"type": "message_start", "message": m})
	empty, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": text}
	if next != nil {
		empty = object{"type": "tool_use", "id": block["id"], "name": next.Tool, "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": next.Arguments}
	}
	w.event("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": empty})
	w.event("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta})
	w.event("content_block_stop", object{"type": "content_block_stop", "index": 0})
	w.event("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": 50}})
	w.event("message_stop", object{"type": "message_stop"})
}

// response answers in the form of OpenAI's responses.
func (w *answer) response(next *Call, text string) {
	item := object{"type": "message", "id": "item_1", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": text, "annotations": []any{}}}}
	if next != nil {
		item = object{"type": "function_call", "id": "item_1", "call_id": w.id, "name": next.Tool, "arguments": next.Arguments, "status": "completed"}
		if next.Tool == codeMode {
			item = object{"type": "custom_tool_call", "id": "item_1", "call_id": w.id, "name": codeMode, "namespace": "functions", "input": next.Arguments, "status": "completed"}
		}
	}
	whole := object{
		"id": "resp_1", "object": "response", "created_at": 1, "model": "stub", "status": "completed", "output": []any{item},
		"usage": object{"input_tokens": 1000, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 50, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 1050},
	}
	if !w.begin() {
		json.NewEncoder(w).Encode(whole)
		return
	}
	w.event("response.created", object{"type": "response.created", "response": object{"id": "resp_1", "created_at": 1, "model": "stub"}})
	w.event("response.output_item.added", object{"type": "response.output_item.added", "output_index": 0, "item": item})
	if next == nil {
		w.event("response.output_text.delta", object{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "item_1", "delta": text})
	}
	w.event("response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item})
	w.event("response.completed", object{"type": "response.completed", "response": whole})
}

// completion answers in the form of OpenAI's chat completions.
func (w *answer) completion(next *Call, text string) {
	message, reason := object{"role": "assistant", "content": text}, "stop"
	if next != nil {
		call := object{"index": 0, "id": w.id, "type": "function", "function": object{"name": next.Tool, "arguments": next.Arguments}}
		message, reason = object{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
	}
	usage := object{"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
	if !w.begin() {
		json.NewEncoder(w).Encode(object{"id": "c1", "object": "chat.completion", "created": 1, "model": "stub", "usage": usage,
			"choices": []any{object{"index": 0, "message": message, "finish_reason": reason}}})
		return
	}
	chunk := func(choices []any, usage any) {
		w.event("", object{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": choices, "usage": usage})
	}
	chunk([]any{object{"index": 0, "delta": message, "finish_reason": nil}}, nil)
	chunk([]any{object{"index": 0, "delta": object{}, "finish_reason": reason}}, nil)
	chunk([]any{}, usage)
	fmt.Fprint(w, "data: [DONE]\n\n")
}
