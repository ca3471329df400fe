package session

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/replay"
)

// opencodeLine is one event of "opencode run --format json". A call of a tool is printed when it has ended.
type opencodeLine struct {
	Type string `json:"type"`
	Part struct {
		Tool  string `json:"tool"`
		ID    string `json:"callID"`
		Text  string `json:"text"`
		State struct {
			Status   string         `json:"status"` // completed or error
			Input    jsontext.Value `json:"input"`
			Output   jsontext.Value `json:"output"`
			Error    jsontext.Value `json:"error"`
			Metadata struct {
				Exit *int `json:"exit"`
			} `json:"metadata"`
		} `json:"state"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
}

func readOpencode(canonical []byte) ([]said, error) {
	l, err := decode[opencodeLine](canonical)
	if err != nil {
		return nil, err
	}
	switch l.Type {
	case "text":
		return []said{note{text: l.Part.Text}}, nil
	case "tool_use":
		return l.call()
	case "error":
		text := strings.TrimSpace(l.Error.Name + ": " + l.Error.Data.Message)
		return []said{note{text: text, trouble: true}, ended{status: replay.Failed}}, nil
	case "step_start", "step_finish", "reasoning": // the tokens of each step alone; and thoughts
		return nil, nil
	}
	return nil, errUnknown
}

// call returns a call with its result.
func (l opencodeLine) call() ([]said, error) {
	state := l.Part.State
	params, err := object(state.Input)
	if err != nil {
		return nil, err
	}
	c := call{id: l.Part.ID, tool: l.Part.Tool, params: params}
	if l.Part.Tool == "todowrite" {
		return []said{listed{call{tool: c.tool, params: params}}}, nil
	}
	text := state.Output
	if state.Status == "error" {
		text = state.Error
	}
	output, err := outputOf(orNull(text))
	if err != nil {
		return nil, err
	}
	r := result{id: l.Part.ID, output: &output, exit: state.Metadata.Exit}
	failed := state.Status == "error" || r.exit != nil && *r.exit != 0
	if failed {
		r.utility = -1
		return []said{c, r}, nil
	}
	r.effects = opencodeEffects(l.Part.Tool, state.Input)
	return []said{c, r}, nil
}

// opencodeEffects returns the file that a call changes, taken from its params.
func opencodeEffects(tool string, input jsontext.Value) []string {
	if tool != "write" && tool != "edit" {
		return nil
	}
	in, err := decode[struct {
		File string `json:"filePath"`
	}](input)
	if err != nil || in.File == "" {
		return nil
	}
	return []string{"file:" + in.File}
}
