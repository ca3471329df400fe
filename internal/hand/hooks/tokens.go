package hooks

import (
	"bytes"
	"encoding/json"
	"errors"

	"guild/nook"
)

// usage counts tokens, in the words of the APIs of Anthropic and OpenAI. Anthropic's input_tokens leaves out the other two kinds
// of input; OpenAI's includes what was cached.
type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	Stored     int64 `json:"cache_creation_input_tokens"`
	Cached     int64 `json:"cache_read_input_tokens"`
}

func (u usage) tokens() int64 {
	return sum(u.Prompt, u.Completion, u.Input, u.Output, u.Stored, u.Cached)
}

// modelUsage counts the tokens of one model, in the words of Claude Code's last line.
type modelUsage struct {
	Input  int64 `json:"inputTokens"`
	Output int64 `json:"outputTokens"`
	Stored int64 `json:"cacheCreationInputTokens"`
	Cached int64 `json:"cacheReadInputTokens"`
}

// sum adds numbers of tokens. Negative ones count as 0, and the result is at most what an event can have.
func sum(all ...int64) int64 {
	var n int64
	for _, each := range all {
		n = min(n+min(max(0, each), nook.MaxTokens), nook.MaxTokens)
	}
	return n
}

// maxOutput limits the part of a command's output that is searched for tokens at once, in bytes: one line, or all of it.
const maxOutput = 4 << 20

// counter is an io.Writer that finds the tokens that a command reports in its output: the last line of Claude Code
// (--output-format json or stream-json), the turns of "codex exec --json", and answers of OpenAI's APIs as JSON. It keeps one
// line, or the whole output while that is one JSON value.
type counter struct {
	line, all         []byte
	skipLine, skipAll bool

	total int64 // of the whole run, as the agents report it; the last one counts
	added int64 // of answers, each for itself
}

// Write implements io.Writer. It never fails.
func (c *counter) Write(p []byte) (int, error) {
	n := len(p)
	if c.skipAll = c.skipAll || len(c.all)+len(p) > maxOutput; c.skipAll {
		c.all = nil
	} else {
		c.all = append(c.all, p...)
	}
	for {
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		if c.skipLine = c.skipLine || len(c.line)+len(part) > maxOutput; !c.skipLine {
			c.line = append(c.line, part...)
		}
		if !whole {
			return n, nil
		}
		c.read(c.line)
		c.line, c.skipLine, p = c.line[:0], false, rest
	}
}

// tokens returns what was found. Call it once, after the last Write.
func (c *counter) tokens() int64 {
	c.read(c.line)
	if c.total == 0 && c.added == 0 && bytes.Contains(bytes.TrimSpace(c.all), []byte("\n")) {
		c.read(c.all) // one JSON value on several lines
	}
	if c.total > 0 {
		return c.total
	}
	return c.added
}

// report is a line that may report tokens.
type report struct {
	Type     string                `json:"type"`
	Object   string                `json:"object"`
	Usage    *usage                `json:"usage"`
	Models   map[string]modelUsage `json:"modelUsage"`
	Response *struct {
		Usage *usage `json:"usage"`
	} `json:"response"`
}

// read reads one JSON value: an object, or an array of them.
func (c *counter) read(text []byte) {
	text = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(text), []byte("data:"))) // of a stream of events
	if len(text) == 0 {
		return
	}
	var all []report
	switch text[0] {
	case '{':
		all = make([]report, 1)
		if !decoded(text, &all[0]) {
			return
		}
	case '[':
		if !decoded(text, &all) {
			return
		}
	}
	for _, r := range all {
		c.note(r)
	}
}

func (c *counter) note(r report) {
	switch {
	case r.Type == "result" && len(r.Models) > 0: // with sub-agents
		c.total = 0
		for _, m := range r.Models {
			c.total = sum(c.total, m.Input, m.Output, m.Stored, m.Cached)
		}
	case r.Type == "result" && r.Usage != nil, r.Type == "turn.completed" && r.Usage != nil:
		c.total = r.Usage.tokens()
	case r.Type == "response.completed" && r.Response != nil && r.Response.Usage != nil:
		c.added = sum(c.added, r.Response.Usage.tokens())
	case r.Usage != nil && (r.Object != "" || r.Type == "" || r.Type == "message"):
		c.added = sum(c.added, r.Usage.tokens())
	}
}

// decoded decodes what it can of a JSON value, and reports whether it is JSON. A member of another type than expected is
// somebody else's.
func decoded(text []byte, into any) bool {
	err := json.Unmarshal(text, into)
	_, other := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || other
}
