package session

import (
	"github.com/go-json-experiment/json/jsontext"

	"guild/replay"
)

// claudeLine is one event of "claude -p --output-format stream-json --verbose".
type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Model   string `json:"model"` // of system/init
	Message struct {
		Content jsontext.Value `json:"content"` // a text, or blocks
	} `json:"message"`

	IsError bool `json:"is_error"` // of result
	Usage   *struct {
		Input   int64 `json:"input_tokens"`
		Written int64 `json:"cache_creation_input_tokens"`
		Read    int64 `json:"cache_read_input_tokens"`
		Output  int64 `json:"output_tokens"`
	} `json:"usage"`
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
	case "system":
		if l.Subtype == "init" && l.Model != "" {
			return []said{used{model: l.Model}}, nil
		}
	case "assistant", "user":
		return readClaudeMessage(l.Type, l.Message.Content)
	case "result":
		e := ended{status: replay.Success}
		if l.IsError || l.Subtype != "" && l.Subtype != "success" {
			e.status = replay.Failed
		}
		all := []said{e}
		if u := l.Usage; u != nil {
			input := u.Input + u.Written + u.Read // input_tokens are those that were not cached
			all = append(all, used{input: &input, output: &u.Output})
		}
		return all, nil
	}
	return nil, errUnknown
}

func readClaudeMessage(from string, content jsontext.Value) (all []said, err error) {
	if content.Kind() != '[' {
		return nil, errUnknown // what the user has said
	}
	blocks, err := decode[[]claudeBlock](content)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			if from == "assistant" {
				all = append(all, note{b.Text})
			}
		case "tool_use", "server_tool_use":
			params, err := object(b.Input)
			if err != nil {
				return all, err
			}
			all = append(all, call{id: b.ID, tool: b.Name, params: params, effects: claudeEffects(b.Name, b.Input)})
		case "tool_result", "web_search_tool_result":
			output, err := claudeOutput(b.Content)
			if err != nil {
				return all, err
			}
			r := result{id: b.ToolUseID, output: &output}
			if b.IsError {
				r.utility = -1
			}
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil, errUnknown
	}
	return all, nil
}

// claudeOutput is the text of a result that is one text, however it is wrapped, and the canonical form of any other.
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

// claudeEffects are the files that a tool changes by its params.
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
