package session

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/canon"
	"guild/replay"
)

// codexLine is one event of "codex exec --json", in the form of threads and items.
type codexLine struct {
	Type  string         `json:"type"`
	Item  jsontext.Value `json:"item"`
	Usage *codexUsage    `json:"usage"` // of turn.completed

	Msg   jsontext.Value `json:"msg"`   // of the older form
	Model string         `json:"model"` // of the older form's first line, which has no type
}

// codexUsage are the tokens of a whole thread. Those that were cached are among the input's.
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

func readCodex(canonical []byte) ([]said, error) {
	l, err := decode[codexLine](canonical)
	if err != nil {
		return nil, err
	}
	var all []said
	switch {
	case l.Msg.Kind() == '{':
		all, err = readCodexMsg(l.Msg)
	case l.Type == "item.started" || l.Type == "item.completed":
		all, err = readCodexItem(l.Item, l.Type == "item.completed")
	case l.Type == "turn.completed":
		all = append(l.Usage.said(), ended{status: replay.Success})
	case l.Type == "turn.failed":
		all = []said{ended{status: replay.Failed}}
	case l.Type == "" && l.Model != "":
		all = []said{used{model: l.Model}}
	}
	if err == nil && len(all) == 0 {
		err = errUnknown
	}
	return all, err
}

// codexItem is a thing that happens in a thread.
type codexItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	OldType string `json:"item_type"` // as the first versions of the form call it
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

	raw jsontext.Value
}

func readCodexItem(raw jsontext.Value, completed bool) ([]said, error) {
	if raw.Kind() != '{' {
		return nil, ErrInvalid
	}
	i, err := decode[codexItem](raw)
	if err != nil {
		return nil, err
	}
	i.raw = raw
	if i.Type == "" {
		i.Type = i.OldType
	}
	switch i.Type {
	case "":
		return nil, ErrInvalid
	case "agent_message", "assistant_message", "error":
		if !completed {
			return nil, nil
		}
		return []said{note{i.Text + i.Message}}, nil
	case "reasoning":
		return nil, nil
	}
	c, err := i.call()
	if err != nil || !completed {
		return []said{c}, err
	}
	r, err := i.result(c.params)
	if err != nil {
		return nil, err
	}
	return []said{unlessOpen{c}, r}, nil
}

// call is the item as the call of a tool.
func (i codexItem) call() (call, error) {
	c := call{id: i.ID, tool: i.Type}
	var err error
	switch i.Type {
	case "command_execution":
		c.params, err = canon.Marshal(map[string]string{"command": i.Command})
	case "mcp_tool_call":
		c.tool = strings.Trim(i.Server+"."+i.Tool, ".")
		c.params, err = object(i.Arguments)
	default: // whatever an item of this type has, beside what says where it stands
		var members map[string]jsontext.Value
		if members, err = decode[map[string]jsontext.Value](i.raw); err != nil {
			return c, err
		}
		for _, name := range []string{"id", "type", "item_type", "status"} {
			delete(members, name)
		}
		c.params, err = canon.Marshal(members)
	}
	return c, err
}

// result is the item as what came of that: where nothing else says it, the item itself.
func (i codexItem) result(item jsontext.Value) (r result, err error) {
	r.id, r.exit = i.ID, i.ExitCode
	var output Output
	switch {
	case i.Type == "command_execution":
		output = textOutput(i.Output)
	case i.Type == "mcp_tool_call" && i.Error.Kind() == '{':
		output, err = outputOf(i.Error)
	case i.Type == "mcp_tool_call" && len(i.Result) > 0:
		output, err = outputOf(i.Result)
	case i.Status != "":
		output = textOutput(i.Status)
	default:
		output, err = outputOf(item)
	}
	if r.output = &output; i.Status == "failed" || i.Status == "declined" {
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
	case "agent_message", "error", "stream_error":
		return []said{note{m.Message}}, nil
	case "session_configured":
		if m.Model != "" {
			return []said{used{model: m.Model}}, nil
		}
	case "token_count":
		if m.Info != nil {
			return m.Info.Total.said(), nil
		}
		return m.codexUsage.said(), nil
	case "task_complete":
		return []said{ended{status: replay.Success}}, nil
	case "turn_aborted":
		return []said{ended{status: replay.Cancelled}}, nil
	}
	return nil, nil
}

func (m codexMsg) begins(name string) (all []said, err error) {
	c := call{id: m.CallID, tool: name}
	switch name {
	case "exec_command":
		c.params, err = canon.Marshal(struct {
			Command []string `json:"command"`
			Cwd     string   `json:"cwd,omitempty"`
		}{m.Command, m.Cwd})
	case "patch_apply":
		paths := []string{}
		for path := range m.Changes {
			paths = append(paths, path)
			c.effects = append(c.effects, "file:"+path)
		}
		slices.Sort(paths)
		slices.Sort(c.effects)
		c.params, err = canon.Marshal(map[string]any{"changes": m.Changes})
	case "mcp_tool_call":
		in := m.codexInvocation
		if m.Invocation != nil {
			in = *m.Invocation
		}
		c.tool = strings.Trim(in.Server+"."+in.Tool, ".")
		c.params, err = object(in.Arguments)
	case "web_search":
		c.params, err = canon.Marshal(map[string]string{"query": m.Query})
	default:
		return nil, nil
	}
	return []said{c}, err
}

func (m codexMsg) ends(name string) ([]said, error) {
	r := result{id: m.CallID, exit: m.ExitCode}
	output, err := textOutput(m.Stdout+m.Stderr), error(nil)
	switch name {
	case "exec_command":
		if m.Output != "" {
			output = textOutput(m.Output)
		}
	case "patch_apply":
		if m.Success != nil && !*m.Success {
			r.utility = -1
		}
	case "mcp_tool_call":
		if len(m.Result) > 0 {
			output, err = outputOf(m.Result)
		}
	case "web_search":
		output = textOutput(m.Query)
	default:
		return nil, nil
	}
	r.output = &output
	return []said{r}, err
}

func textOutput(text string) Output {
	return Output{hashOf(text), head([]byte(text))}
}
