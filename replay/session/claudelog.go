package session

import (
	"github.com/go-json-experiment/json/jsontext"

	"guild/replay"
)

// claudeLogLine is one line of a log in ~/.claude/projects. Its messages are those of the event stream, with other members
// around them.
type claudeLogLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Message struct {
		ID      string         `json:"id"`
		Model   string         `json:"model"`
		Content jsontext.Value `json:"content"`
		Stop    string         `json:"stop_reason"`
		Usage   *claudeUsage   `json:"usage"`
	} `json:"message"`
	Agent    string `json:"agentId"` // of a sub-agent
	Meta     bool   `json:"isMeta"`  // the program's own words in the name of the user
	APIError bool   `json:"isApiErrorMessage"`

	Cost   *float64               `json:"totalCostUSD"` // of cost-state
	Models map[string]claudeModel `json:"modelUsage"`
}

// readClaudeLog reads a line of such a log.
func readClaudeLog(canonical []byte) ([]said, error) {
	l, err := decode[claudeLogLine](canonical)
	if err != nil {
		return nil, err
	}
	switch l.Type {
	case "assistant", "user":
		return l.message()
	case "cost-state":
		sum := claudeLine{Cost: l.Cost, Models: l.Models}
		all, err := sum.result()
		return all[1:], err // without the end
	case "system":
		if l.Subtype == "api_error" {
			return []said{ended{status: replay.Failed}}, nil
		}
		return nil, nil // about the program itself
	case "summary", "ai-title", "custom-title", "agent-name", "tag", "mode", "permission-mode", "last-prompt", "queue-operation", "progress",
		"attachment", "file-history-snapshot", "tools-used", "pr-link", "atis-latch",
		"api-request", "api-request-shape", "api-request-blob": // what was sent, and titles
		return nil, nil
	}
	return nil, errUnknown
}

// message reads a message, and what it says about the state of the session.
func (l claudeLogLine) message() ([]said, error) {
	line := claudeLine{Type: l.Type, Parent: l.Agent}
	line.Message.Model, line.Message.Content = l.Message.Model, l.Message.Content
	if l.APIError {
		line.Error = "API"
	}
	all, err := line.message()
	if u := l.Message.Usage; u != nil && l.Type == "assistant" {
		all = append(all, spent{message: l.Message.ID, input: u.Input + u.Written + u.Read, output: u.Output})
	}
	switch {
	case l.Meta:
	case l.APIError:
		all = append(all, ended{status: replay.Failed})
	case l.Type == "assistant" && l.Message.Stop != "" && l.Message.Stop != "tool_use" && l.Message.Stop != "pause_turn":
		all = append(all, ended{status: replay.Success})
	default:
		all = append(all, ended{status: replay.Cancelled})
	}
	return all, err
}
