package session

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/canon"
	"guild/replay"
)

// codexLogLine is one line of a rollout in ~/.codex/sessions.
type codexLogLine struct {
	Type    string         `json:"type"`
	Payload jsontext.Value `json:"payload"`
}

// readCodexLog reads a line of a rollout. What the model said and called is in response_item. Most of event_msg repeats it
// for the program's own screen.
func readCodexLog(canonical []byte) ([]said, error) {
	l, err := decode[codexLogLine](canonical)
	if err != nil {
		return nil, err
	}
	switch l.Type {
	case "response_item", "event_msg", "turn_context":
		if l.Payload.Kind() != '{' {
			return nil, ErrInvalid
		}
	}
	switch l.Type {
	case "response_item":
		return readResponseItem(l.Payload)
	case "event_msg":
		return readRolloutEvent(l.Payload)
	case "turn_context":
		context, err := decode[struct {
			Model string `json:"model"`
		}](l.Payload)
		return []said{used{model: context.Model}}, err
	case "session_meta", "session_state", "compacted", "world_state", "token_usage_record":
		return nil, nil
	}
	return nil, errUnknown
}

// responseItem is a message of the model, a call, or the result of a call.
type responseItem struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	CallID  string `json:"call_id"`
	Role    string `json:"role"` // of message
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`

	Name      string         `json:"name"`
	Namespace string         `json:"namespace"`
	Arguments jsontext.Value `json:"arguments"` // a text in JSON, or an object
	Input     string         `json:"input"`     // of custom_tool_call
	Action    jsontext.Value `json:"action"`    // of local_shell_call and web_search_call
	Prompt    string         `json:"revised_prompt"`

	Output jsontext.Value `json:"output"`
	Tools  jsontext.Value `json:"tools"` // of tool_search_output
}

func readResponseItem(payload jsontext.Value) ([]said, error) {
	kind, err := decode[struct {
		Type string `json:"type"`
	}](payload)
	if err != nil {
		return nil, err
	}
	switch kind.Type { // some of these have a content of another form
	case "reasoning", "ghost_snapshot", "compaction", "compaction_summary", "compaction_trigger", "context_compaction", "additional_tools", "configuration_update":
		return nil, nil
	}
	i, err := decode[responseItem](payload)
	if err != nil {
		return nil, err
	}
	switch i.Type {
	case "message":
		return i.message(), nil
	case "function_call", "custom_tool_call", "local_shell_call", "tool_search_call":
		c, err := i.call()
		return []said{c, ended{status: replay.Cancelled}}, err
	case "web_search_call", "image_generation_call": // run at the API; the image itself is not kept
		params, err := canon.Marshal(map[string]jsontext.Value{"action": orNull(i.Action)})
		if i.Type == "image_generation_call" {
			params, err = canon.Marshal(map[string]string{"prompt": i.Prompt})
		}
		return []said{listed{call{id: i.ID, tool: strings.TrimSuffix(i.Type, "_call"), params: params}}}, err
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output":
		r, err := i.result()
		return []said{r}, err
	}
	return nil, errUnknown
}

// message reads a message. Only those of the assistant are notes.
func (i responseItem) message() []said {
	switch i.Role {
	case "assistant":
		all := []said{ended{status: replay.Success}}
		for _, c := range i.Content {
			all = append(all, note{text: c.Text})
		}
		return all
	case "user":
		return []said{ended{status: replay.Cancelled}}
	}
	return nil
}

func (i responseItem) call() (c call, err error) {
	c = call{id: cmp.Or(i.CallID, i.ID), tool: cmp.Or(i.Name, strings.TrimSuffix(i.Type, "_call"))}
	arguments := i.Arguments
	switch {
	case i.Type == "custom_tool_call":
		c.params, err = canon.Marshal(map[string]string{"input": i.Input})
		if i.Name == "apply_patch" {
			c.effects = patched(i.Input)
		}
		return c, err
	case i.Type == "local_shell_call":
		arguments = i.Action
	case i.Namespace != "" && i.Namespace != "functions":
		c.tool = i.Namespace + "." + c.tool
	}
	if arguments.Kind() != '"' {
		c.params, err = object(arguments)
		return c, err
	}
	text, err := jsontext.AppendUnquote(nil, arguments)
	if err != nil {
		return c, err
	}
	c.params, err = objectLine(text, true)
	if err != nil { // a model can send anything
		c.params, err = canon.Marshal(map[string]string{"arguments": string(text)})
	}
	return c, err
}

// exited matches the exit code in what Codex tells the model about a command.
var exited = regexp.MustCompile(`^(?:Exit code: |(?:[^\n]*\n){0,3}Process exited with code )([0-9]{1,3})\n`)

// result reads the output of a call. Older programs have it as JSON with metadata.
func (i responseItem) result() (r result, err error) {
	value := i.Output
	if len(value) == 0 {
		value = orNull(i.Tools)
	}
	output, err := outputOf(value)
	r = result{id: i.CallID, output: &output}
	if err != nil {
		return r, err
	}
	if m := exited.FindStringSubmatch(output.Head); m != nil {
		if code, err := strconv.Atoi(m[1]); err == nil {
			r.exit = &code
		}
	} else if strings.HasPrefix(output.Head, `{"output":`) || strings.HasPrefix(output.Head, `{"metadata":`) {
		r.exit = metadataExit(value)
	}
	if r.exit != nil && *r.exit != 0 {
		r.utility = -1
	}
	return r, nil
}

// metadataExit returns the exit code in an output that is a text of JSON, or nil.
func metadataExit(output jsontext.Value) *int {
	if output.Kind() != '"' {
		return nil
	}
	text, err := jsontext.AppendUnquote(nil, output)
	if err != nil {
		return nil
	}
	o, err := decode[struct {
		Metadata struct {
			ExitCode *int `json:"exit_code"`
		} `json:"metadata"`
	}](text)
	if err != nil {
		return nil
	}
	return o.Metadata.ExitCode
}

// patched returns the files that a patch names.
func patched(patch string) (effects []string) {
	for line := range strings.Lines(patch) {
		for _, start := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), start); ok && len(effects) < maxListed {
				effects = append(effects, "file:"+name)
			}
		}
	}
	return effects
}

// readRolloutEvent reads an event for the program's screen.
func readRolloutEvent(payload jsontext.Value) ([]said, error) {
	e, err := decode[struct {
		Type string         `json:"type"`
		Item jsontext.Value `json:"item"`
	}](payload)
	if err != nil {
		return nil, err
	}
	switch e.Type {
	case "token_count", "stream_error", "error", "turn_aborted":
		return readCodexMsg(payload)
	case "task_complete", "turn_complete":
		return []said{completed{}}, nil
	case "item_completed":
		return readRolloutItem(e.Item)
	case "item_started", "task_started", "turn_started", "user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "thread_settings_applied",
		"context_compacted", "thread_rolled_back", "thread_name_updated", "turn_diff", "warning", "plan_update", "undo_completed",
		"entered_review_mode", "exited_review_mode":
		return nil, nil
	}
	if strings.HasSuffix(e.Type, "_begin") || strings.HasSuffix(e.Type, "_end") { // of calls in response_item
		return nil, nil
	}
	return nil, errUnknown
}

// rolloutItem is an action of the program. In the code mode, in which the model's one call is a script, only these are the
// calls of tools.
type rolloutItem struct {
	Type     string `json:"type"`
	ID       string `json:"id"`
	Status   string `json:"status"`
	Duration *struct {
		Seconds     int64 `json:"secs"`
		Nanoseconds int64 `json:"nanos"`
	} `json:"duration"`

	Command  jsontext.Value `json:"command"` // of CommandExecution
	Cwd      string         `json:"cwd"`
	Output   string         `json:"aggregated_output"`
	ExitCode *int           `json:"exit_code"`

	Server    string         `json:"server"` // of McpToolCall
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
	Result    jsontext.Value `json:"result"`

	Changes jsontext.Value `json:"changes"` // of FileChange
}

func readRolloutItem(item jsontext.Value) ([]said, error) {
	if item.Kind() != '{' {
		return nil, ErrInvalid
	}
	kind, err := decode[struct {
		Type string `json:"type"`
	}](item)
	if err != nil {
		return nil, err
	}
	switch kind.Type {
	case "UserMessage", "AgentMessage", "Reasoning", "Plan", "HookPrompt", "ContextCompaction", "WebSearch", "ImageGeneration", "ImageView",
		"EnteredReviewMode", "ExitedReviewMode":
		return nil, nil
	case "CommandExecution", "McpToolCall", "FileChange":
	default:
		return nil, errUnknown
	}
	i, err := decode[rolloutItem](item)
	if err != nil {
		return nil, err
	}
	c, output := call{id: i.ID}, Output{}
	switch i.Type {
	case "CommandExecution":
		c.tool = "command_execution"
		c.params, err = canon.Marshal(map[string]any{"command": orNull(i.Command), "cwd": i.Cwd})
		output = textOutput(i.Output)
	case "McpToolCall":
		c.tool = strings.Trim(i.Server+"."+i.Tool, ".")
		if c.params, err = object(i.Arguments); err == nil {
			output, err = outputOf(orNull(i.Result))
		}
	case "FileChange":
		c.tool = "file_change"
		c.params, err = canon.Marshal(map[string]jsontext.Value{"changes": orNull(i.Changes)})
		c.effects = changed(i.Changes)
		output = textOutput(i.Status)
	}
	r := result{id: i.ID, output: &output, exit: i.ExitCode}
	if i.Status == "failed" || i.Status == "declined" {
		r.utility = -1
	}
	if d := i.Duration; d != nil && d.Seconds >= 0 && d.Seconds <= replay.MaxMs/1000-1 && d.Nanoseconds >= 0 && d.Nanoseconds < 1e9 {
		ms := d.Seconds*1000 + d.Nanoseconds/1e6
		r.latency = &ms
	}
	return []said{nested{c, r}}, err
}

// changed returns the files of changes by their names.
func changed(changes jsontext.Value) (effects []string) {
	byName, err := decode[map[string]jsontext.Value](orNull(changes))
	if err != nil {
		return nil
	}
	for name := range byName {
		effects = append(effects, "file:"+name)
	}
	slices.Sort(effects)
	return effects
}
