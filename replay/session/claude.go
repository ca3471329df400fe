package session

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/replay"
)

// claudeLine is one event of "claude -p --output-format stream-json --verbose".
type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Model   string `json:"model"` // of system/init
	Message struct {
		Model   string         `json:"model"`
		Content jsontext.Value `json:"content"` // a text, or blocks
	} `json:"message"`
	Parent string `json:"parent_tool_use_id"` // id of the call that started the sub-agent of this message

	Attempt int    `json:"attempt"` // of system/api_retry
	Most    int    `json:"max_retries"`
	Code    int    `json:"error_status"`
	Error   string `json:"error"` // also of a message that reports an API error

	IsError bool                   `json:"is_error"` // of result
	Reason  string                 `json:"terminal_reason"`
	Errors  []string               `json:"errors"`
	Cost    *float64               `json:"total_cost_usd"`
	Usage   *claudeUsage           `json:"usage"`      // without sub-agents
	Models  map[string]claudeModel `json:"modelUsage"` // all models, with sub-agents
}

// claudeUsage counts the tokens of messages. Input does not include the cached tokens.
type claudeUsage struct {
	Input   int64 `json:"input_tokens"`
	Written int64 `json:"cache_creation_input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

// claudeModel counts the tokens of one model.
type claudeModel struct {
	Input   int64 `json:"inputTokens"`
	Written int64 `json:"cacheCreationInputTokens"`
	Read    int64 `json:"cacheReadInputTokens"`
	Output  int64 `json:"outputTokens"`
}

// claudeBlock is one block of a message.
type claudeBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`

	ID    string         `json:"id"` // of tool_use
	Name  string         `json:"name"`
	Input jsontext.Value `json:"input"`

	ToolUseID string         `json:"tool_use_id"` // of tool_result
	Content   jsontext.Value `json:"content"`
	IsError   bool           `json:"is_error"`
}

func readClaude(canonical []byte) ([]said, error) {
	l, err := decode[claudeLine](canonical)
	if err != nil {
		return nil, err
	}
	switch l.Type {
	case "system": // about the program itself
		switch l.Subtype {
		case "init":
			return []said{used{model: l.Model}}, nil
		case "api_retry":
			text := fmt.Sprintf("attempt %d of %d failed: %d %s", l.Attempt, l.Most+1, l.Code, l.Error)
			return []said{note{text: text, trouble: true}}, nil
		case "status", "thinking_tokens", "compact_boundary", "hook_started", "hook_progress", "hook_response",
			"task_started", "task_progress", "task_updated", "task_notification": // a task is also a call, which has its own lines
			return nil, nil
		}
	case "assistant", "user":
		return l.message()
	case "result":
		return l.result()
	case "stream_event", "rate_limit_event", "tool_progress", "keep_alive": // partial copies of other lines, and keep-alives
		return nil, nil
	}
	return nil, errUnknown
}

// result reads the last line.
func (l claudeLine) result() (all []said, err error) {
	for _, text := range l.Errors {
		all = append(all, note{text: text, trouble: true})
	}
	e := ended{status: replay.Success}
	switch {
	case strings.HasPrefix(l.Reason, "aborted"):
		e.status = replay.Cancelled
	case l.IsError || l.Subtype != "" && l.Subtype != "success":
		e.status = replay.Failed
	}
	all = append(all, e)
	var u claudeUsage
	switch {
	case len(l.Models) > 0:
		for _, m := range l.Models {
			u = claudeUsage{Input: u.Input + m.Input, Written: u.Written + m.Written, Read: u.Read + m.Read, Output: u.Output + m.Output}
		}
	case l.Usage != nil:
		u = *l.Usage
	default:
		return all, nil
	}
	input := u.Input + u.Written + u.Read
	sum := used{input: &input, output: &u.Output}
	if l.Cost != nil { // in millionths of a US dollar; used.tell refuses the -1 of an invalid price
		micro := int64(-1)
		if *l.Cost >= 0 && *l.Cost < 1e9 {
			micro = int64(math.Round(*l.Cost * 1e6))
		}
		sum.cost = &micro
	}
	return append(all, sum), nil
}

// message reads the blocks of a message. A message with an unknown block counts as unknown, but its known blocks are
// still recorded.
func (l claudeLine) message() (all []said, err error) {
	content := l.Message.Content
	if content.Kind() == '"' && l.Type == "user" {
		return nil, nil // the user's own message
	}
	if content.Kind() != '[' {
		return nil, errUnknown
	}
	blocks, err := decode[[]claudeBlock](content)
	if err != nil {
		return nil, err
	}
	if m := l.Message.Model; l.Parent == "" && m != "" && m != "<synthetic>" { // the program's own message
		all = append(all, used{model: m})
	}
	var unknown error
	for _, b := range blocks {
		some, err := b.said(l)
		if errors.Is(err, errUnknown) {
			unknown, err = err, nil
		}
		all = append(all, some...)
		if err != nil {
			return all, err
		}
	}
	return all, unknown
}

// said reads one block of a message. Calls and notes of a sub-agent get the id of the call that started it as their
// step.
func (b claudeBlock) said(l claudeLine) ([]said, error) {
	switch {
	case b.Type == "text" && l.Type == "assistant":
		return []said{note{b.Text, l.Parent, l.Error != ""}}, nil
	case b.Type == "tool_use" || strings.HasSuffix(b.Type, "_tool_use"): // tools of servers have their own block types
		params, err := object(b.Input)
		if err != nil {
			return nil, err
		}
		return []said{call{id: b.ID, tool: b.Name, step: l.Parent, params: params, effects: claudeEffects(b.Name, b.Input)}}, nil
	case b.Type == "tool_result" || strings.HasSuffix(b.Type, "_tool_result"):
		output, err := claudeOutput(b.Content)
		if err != nil {
			return nil, err
		}
		r := result{id: b.ToolUseID, output: &output}
		if b.failed() {
			r.utility, r.exit = -1, claudeExit(output.Head)
		}
		return []said{r}, nil
	case b.Type == "thinking" || b.Type == "redacted_thinking" || l.Type == "user":
		return nil, nil
	}
	return nil, errUnknown
}

// failed reports whether the block is the result of a failed call.
func (b claudeBlock) failed() bool {
	if b.IsError || b.Content.Kind() != '{' {
		return b.IsError
	}
	content, err := decode[claudeBlock](b.Content)
	return err == nil && strings.HasSuffix(content.Type, "_error")
}

// claudeExit returns the exit code of a failed command, which is the first line of its output, or nil.
func claudeExit(output string) *int {
	rest, ok := strings.CutPrefix(output, "Exit code ")
	if !ok {
		return nil
	}
	digits, _, _ := strings.Cut(rest, "\n")
	code, err := strconv.Atoi(digits)
	if err != nil || code < 0 || code > 255 {
		return nil
	}
	return &code
}

// claudeOutput returns the output of a call. A single text, also in a block, is hashed as text; anything else in its
// canonical form.
func claudeOutput(content jsontext.Value) (Output, error) {
	if len(content) == 0 || content.Kind() == 'n' {
		return outputOf(jsontext.Value(`""`))
	}
	if content.Kind() == '[' {
		blocks, err := decode[[]struct {
			Type string         `json:"type"`
			Text jsontext.Value `json:"text"`
		}](content)
		if err == nil && len(blocks) == 1 && blocks[0].Type == "text" && blocks[0].Text.Kind() == '"' {
			return outputOf(blocks[0].Text)
		}
	}
	return outputOf(content)
}

// claudeEffects returns the files that a call changes, taken from its params.
func claudeEffects(tool string, input jsontext.Value) []string {
	switch tool {
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
	default:
		return nil
	}
	in, err := decode[struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}](input)
	switch {
	case err != nil:
		return nil
	case in.File != "":
		return []string{"file:" + in.File}
	case in.Notebook != "":
		return []string{"file:" + in.Notebook}
	}
	return nil
}
