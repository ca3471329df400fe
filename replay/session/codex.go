package session

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
	"guild/replay"
)

// codexLine is one event of "codex exec --json", in the form of threads and items.
type codexLine struct {
	Type  string         `json:"type"`
	Item  jsontext.Value `json:"item"`
	Usage *codexUsage    `json:"usage"` // of turn.completed

	Message string `json:"message"` // of error

	Msg    jsontext.Value `json:"msg"`    // of the older form
	Model  string         `json:"model"`  // of the older form's first line, which has no type
	Prompt string         `json:"prompt"` // of its second one
}

// codexUsage counts the tokens of a whole thread. Input includes the cached tokens.
type codexUsage struct {
	Input  *int64 `json:"input_tokens"`
	Output *int64 `json:"output_tokens"`
}

func (u *codexUsage) said() []said {
	if u == nil || u.Input == nil && u.Output == nil {
		return nil
	}
	return []said{used{input: u.Input, output: u.Output}}
}

// readCodex reads a line of either form. The older form has its event in msg.
func readCodex(canonical []byte) ([]said, error) {
	l, err := decode[codexLine](canonical)
	if err != nil {
		return nil, err
	}
	if l.Msg.Kind() == '{' {
		return readCodexMsg(l.Msg)
	}
	switch l.Type {
	case "item.started", "item.updated", "item.completed":
		return readCodexItem(l.Item, strings.TrimPrefix(l.Type, "item."))
	case "turn.completed":
		return append(l.Usage.said(), ended{status: replay.Success}), nil
	case "turn.failed": // an error line before it has the reason
		return []said{ended{status: replay.Failed}}, nil
	case "error":
		return []said{note{text: l.Message, trouble: true}}, nil
	case "thread.started", "turn.started":
		return nil, nil
	case "": // the first two lines of the older form
		if l.Model != "" || l.Prompt != "" {
			return []said{used{model: l.Model}}, nil
		}
	}
	return nil, errUnknown
}

// codexItem is one item of a thread, such as a command or a message.
type codexItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	OldType string `json:"item_type"` // in the first versions of this form
	Status  string `json:"status"`
	Text    string `json:"text"`    // of agent_message and reasoning
	Message string `json:"message"` // of error

	Command  string `json:"command"` // of command_execution
	Output   string `json:"aggregated_output"`
	ExitCode *int   `json:"exit_code"`

	Server    string         `json:"server"` // of mcp_tool_call
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
	Result    jsontext.Value `json:"result"`
	Error     jsontext.Value `json:"error"`

	Changes []struct {
		Path string `json:"path"`
	} `json:"changes"` // of file_change

	Agents jsontext.Value `json:"agents_states"` // of collab_tool_call: states of sub-agents

	Items jsontext.Value `json:"items"` // of todo_list
}

// readCodexItem reads an item that is started, updated or completed.
func readCodexItem(raw jsontext.Value, stage string) ([]said, error) {
	if raw.Kind() != '{' {
		return nil, ErrInvalid
	}
	i, err := decode[codexItem](raw)
	if err != nil {
		return nil, err
	}
	switch i.Type = cmp.Or(i.Type, i.OldType); i.Type {
	case "":
		return nil, ErrInvalid
	case "agent_message", "assistant_message", "error":
		if stage != "completed" {
			return nil, nil
		}
		return []said{note{text: i.Text + i.Message, trouble: i.Type == "error"}}, nil
	case "reasoning":
		return nil, nil
	case "todo_list":
		if stage == "completed" { // repeats the last update
			return nil, nil
		}
		params, err := canon.Marshal(map[string]jsontext.Value{"items": orNull(i.Items)})
		return []said{listed{call{tool: i.Type, params: params}}}, err
	}
	if stage == "updated" { // partial; the completed item has everything
		return nil, nil
	}
	c, err := i.call(raw)
	if err != nil || stage == "started" {
		return []said{c}, err
	}
	r, err := i.result(c.params)
	if err != nil {
		return nil, err
	}
	return []said{unlessOpen{c}, r}, nil
}

// call returns the item as a call of a tool.
func (i codexItem) call(raw jsontext.Value) (call, error) {
	c := call{id: i.ID, tool: i.Type}
	var err error
	switch i.Type {
	case "command_execution":
		c.params, err = canon.Marshal(map[string]string{"command": i.Command})
	case "mcp_tool_call":
		c.tool = strings.Trim(i.Server+"."+i.Tool, ".")
		c.params, err = object(i.Arguments)
	default: // all members except ids and states
		c.tool = cmp.Or(i.Tool, i.Type)
		var members map[string]jsontext.Value
		if members, err = decode[map[string]jsontext.Value](raw); err != nil {
			return c, err
		}
		for _, name := range []string{"id", "type", "item_type", "tool", "status", "agents_states"} {
			delete(members, name)
		}
		c.params, err = canon.Marshal(members)
	}
	return c, err
}

// result returns the result of the item. If no member holds the output, the output is the whole item.
func (i codexItem) result(item jsontext.Value) (r result, err error) {
	r.id, r.exit = i.ID, i.ExitCode
	var output Output
	switch {
	case i.Type == "command_execution":
		output = textOutput(i.Output)
	case i.Type == "file_change":
		output = textOutput(i.Status)
	case i.Type == "collab_tool_call" && len(i.Agents) > 0:
		output, err = outputOf(i.Agents)
	case i.Type == "mcp_tool_call" && i.Error.Kind() == '{':
		output, err = outputOf(i.Error)
	case i.Type == "mcp_tool_call" && len(i.Result) > 0:
		output, err = outputOf(i.Result)
	default:
		output, err = outputOf(item)
	}
	r.output = &output
	if i.Status == "failed" || i.Status == "declined" {
		r.utility = -1
		return r, err
	}
	for _, c := range i.Changes {
		r.effects = append(r.effects, "file:"+c.Path)
	}
	return r, err
}

// codexMsg is an event of the older form.
type codexMsg struct {
	Type    string `json:"type"`
	CallID  string `json:"call_id"`
	Message string `json:"message"` // of agent_message and error
	Model   string `json:"model"`   // of session_configured

	Command  []string `json:"command"` // of exec_command_begin
	Cwd      string   `json:"cwd"`
	Stdout   string   `json:"stdout"` // of exec_command_end and patch_apply_end
	Stderr   string   `json:"stderr"`
	Output   string   `json:"aggregated_output"`
	ExitCode *int     `json:"exit_code"`

	Changes map[string]jsontext.Value `json:"changes"` // of patch_apply_begin
	Success *bool                     `json:"success"`

	Invocation *codexInvocation `json:"invocation"` // of mcp_tool_call_begin
	codexInvocation
	Result jsontext.Value `json:"result"` // {"Ok": …} or {"Err": …}

	Query string `json:"query"` // of web_search_end

	Explanation jsontext.Value `json:"explanation"` // of plan_update
	Plan        jsontext.Value `json:"plan"`

	codexUsage
	Info *struct {
		Total *codexUsage `json:"total_token_usage"`
	} `json:"info"` // of token_count
}

type codexInvocation struct {
	Server    string         `json:"server"`
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
}

// readCodexMsg reads an event of the older form. A call is two events with the suffixes _begin and _end.
func readCodexMsg(raw jsontext.Value) ([]said, error) {
	m, err := decode[codexMsg](raw)
	if err != nil {
		return nil, err
	}
	if name, ends := strings.CutSuffix(m.Type, "_end"); ends {
		return m.ends(name)
	}
	if name, begins := strings.CutSuffix(m.Type, "_begin"); begins {
		return m.begins(name)
	}
	switch m.Type {
	case "agent_message":
		return []said{note{text: m.Message}}, nil
	case "stream_error":
		return []said{note{text: m.Message, trouble: true}}, nil
	case "error":
		return []said{note{text: m.Message, trouble: true}, ended{status: replay.Failed}}, nil
	case "session_configured":
		return []said{used{model: m.Model}}, nil
	case "token_count":
		if m.Info != nil {
			return m.Info.Total.said(), nil
		}
		return m.codexUsage.said(), nil
	case "plan_update":
		params, err := canon.Marshal(map[string]jsontext.Value{"explanation": orNull(m.Explanation), "plan": orNull(m.Plan)})
		return []said{listed{call{tool: "update_plan", params: params}}}, err
	case "turn_aborted":
		return []said{ended{status: replay.Cancelled}}, nil
	case "agent_reasoning", "agent_reasoning_delta", "agent_reasoning_raw_content", "agent_reasoning_section_break",
		"agent_message_delta", "exec_command_output_delta", // partial copies of other lines, and thoughts
		"task_started", "task_complete", "user_message", "turn_diff": // task_complete also comes after an error
		return nil, nil
	}
	return nil, errUnknown
}

func orNull(v jsontext.Value) jsontext.Value {
	if len(v) == 0 {
		return jsontext.Value("null")
	}
	return v
}

// begins reads the start of a call.
func (m codexMsg) begins(name string) (all []said, err error) {
	c := call{id: m.CallID, tool: name}
	switch name {
	case "exec_command":
		c.params, err = canon.Marshal(struct {
			Command []string `json:"command"`
			Cwd     string   `json:"cwd,omitempty"`
		}{m.Command, m.Cwd})
	case "patch_apply":
		for path, change := range m.Changes {
			c.effects = append(c.effects, "file:"+path)
			if to := movedTo(change); to != "" {
				c.effects = append(c.effects, "file:"+to)
			}
		}
		slices.Sort(c.effects)
		c.params, err = canon.Marshal(map[string]any{"changes": m.Changes})
	case "mcp_tool_call":
		in := m.codexInvocation
		if m.Invocation != nil {
			in = *m.Invocation
		}
		c.tool = strings.Trim(in.Server+"."+in.Tool, ".")
		c.params, err = object(in.Arguments)
	case "web_search": // its end has the query
		return nil, nil
	default:
		return nil, errUnknown
	}
	return []said{c}, err
}

// movedTo returns the new path of a moved file, or "".
func movedTo(change jsontext.Value) string {
	c, err := decode[struct {
		Update struct {
			To string `json:"move_path"`
		} `json:"update"`
	}](change)
	if err != nil {
		return ""
	}
	return c.Update.To
}

// ends reads the end of a call, which becomes its result.
func (m codexMsg) ends(name string) ([]said, error) {
	r := result{id: m.CallID, exit: m.ExitCode}
	output, failed, err := textOutput(m.Stdout+m.Stderr), false, error(nil)
	switch name {
	case "exec_command":
		failed = m.ExitCode != nil && *m.ExitCode != 0
		if m.Output != "" {
			output = textOutput(m.Output)
		}
	case "patch_apply":
		failed = m.Success != nil && !*m.Success
	case "mcp_tool_call":
		failed = failedMCP(m.Result)
		if len(m.Result) > 0 {
			output, err = outputOf(m.Result)
		}
	case "web_search":
		params, err := canon.Marshal(map[string]string{"query": m.Query})
		output = textOutput(m.Query)
		r.output = &output
		return []said{unlessOpen{call{id: m.CallID, tool: name, params: params}}, r}, err
	default:
		return nil, errUnknown
	}
	r.output = &output
	if failed {
		r.utility = -1
	}
	return []said{r}, err
}

// failedMCP reports whether the result of a tool, {"Ok": …} or {"Err": …}, is an error.
func failedMCP(raw jsontext.Value) bool {
	r, err := decode[struct {
		Ok struct {
			IsError bool `json:"isError"`
		}
		Err jsontext.Value
	}](raw)
	return err == nil && (r.Ok.IsError || len(r.Err) > 0)
}

func textOutput(text string) Output {
	return Output{guild.Sum([]byte(text)), head([]byte(text))}
}
