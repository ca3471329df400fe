package hooks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nook"
)

// claudeEvents are the events of Claude Code that have a hook. Older versions refuse settings with events that they do not
// know, so these are the ones that all versions since 1.0.85 have.
var claudeEvents = []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"}

// claudeReport is the JSON that Claude Code writes to the standard input of a hook.
type claudeReport struct {
	Event      string `json:"hook_event_name"`
	Session    string `json:"session_id"`
	Prompt     string `json:"prompt_id"`
	Transcript string `json:"transcript_path"`
	Source     string `json:"source"` // of SessionStart

	Tool  string `json:"tool_name"` // of PostToolUse
	Input struct {
		Command string `json:"command"`
	} `json:"tool_input"`
	Response struct {
		Stdout string `json:"stdout"`
	} `json:"tool_response"`
}

// pullURL finds the pull request in the output of "gh pr create".
var pullURL = regexp.MustCompile(`https://[0-9A-Za-z._/-]+/pull/[0-9]+`)

// ClaudeCode reads what Claude Code tells a hook. A session that starts is agent.started; a prompt makes the agent work; the use
// of a tool is a heartbeat; the end of a turn is agent.completed with the turn's tokens, of the session as work unit; the end
// of the session makes the agent idle. A tool that runs "gh pr create" also reports the pull request.
func ClaudeCode(payload []byte, agentID string, now time.Time) ([]nook.Event, error) {
	var r claudeReport
	if !decoded(payload, &r) {
		return nil, errors.New("the report of Claude Code is not JSON")
	}
	at := nook.Event{AgentID: agentID, Timestamp: now.UnixMilli()}
	switch r.Event {
	case "SessionStart":
		if r.Source == "compact" { // the same session goes on
			return nil, nil
		}
		at.Type, at.WorkUnitID = nook.TypeStarted, r.Session
	case "UserPromptSubmit":
		at.Type, at.State = nook.TypeState, string(nook.Working)
	case "PostToolUse":
		at.Type = nook.TypeHeartbeat
		if r.Tool == "Bash" && strings.Contains(r.Input.Command, "gh pr create") {
			if url := pullURL.FindString(r.Response.Stdout); url != "" {
				return []nook.Event{at, pullRequest(url, agentID, now)}, nil
			}
		}
	case "Stop":
		tokens, last, err := claudeTurn(r.Transcript)
		success := true
		at.ID = derived("claude", r.Session, r.Prompt, last)
		at.Type, at.WorkUnitID, at.Tokens, at.Success = nook.TypeCompleted, r.Session, tokens, &success
		return []nook.Event{at}, err
	case "SessionEnd":
		at.Type = nook.TypeIdle
	default:
		return nil, nil
	}
	return []nook.Event{at}, nil
}

// claudeLine is a line of a transcript.
type claudeLine struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	UUID      string `json:"uuid"`
	Request   string `json:"requestId"`
	Reference string `json:"requestRef"`
	IsMeta    bool   `json:"isMeta"`
	IsSummary bool   `json:"isCompactSummary"`
	IsSide    bool   `json:"isSidechain"` // of a sub-agent
	Message   struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
		Usage   *usage          `json:"usage"`
	} `json:"message"`
}

// begins reports whether a turn begins after the line: a person's prompt, or the end of the turn before.
func (l claudeLine) begins() bool {
	if l.Type == "system" && l.Subtype == "stop_hook_summary" {
		return true
	}
	return l.Type == "user" && !l.IsMeta && !l.IsSummary && !l.IsSide && len(l.Message.Content) > 0 &&
		!bytes.Contains(l.Message.Content, []byte(`"tool_result"`))
}

// ofTurn matches the lines that say something about a turn. The others may be most of a transcript.
var ofTurn = regexp.MustCompile(`"(assistant|user|stop_hook_summary)"`)

// claudeTurn sums the tokens of the last turn in a transcript, and returns the id of its last message. A message is on several
// lines, one for each of its blocks, of which the last has its usage. The tokens of sub-agents are not counted, as they have
// transcripts of their own.
func claudeTurn(path string) (tokens int64, last string, err error) {
	turn := map[string]int64{}
	ended := false // the next message is of another turn
	err = lines(path, func(line []byte) {
		var l claudeLine
		if !ofTurn.Match(line) || !decoded(line, &l) {
			return
		}
		if l.begins() {
			ended = true
		}
		if l.Type != "assistant" || l.Message.Usage == nil {
			return
		}
		if ended {
			clear(turn)
			ended = false
		}
		last = l.UUID
		turn[l.Message.ID+" "+l.Request+l.Reference] = l.Message.Usage.tokens()
	})
	for _, n := range turn {
		tokens = sum(tokens, n)
	}
	return tokens, last, err
}

// Limits of a transcript that is read.
const (
	maxTranscript = 256 << 20 // bytes, the last ones
	maxLine       = 16 << 20  // bytes; longer lines are skipped
)

// lines passes the lines of a regular file to take, which keeps none of them. Of a file over maxTranscript it reads the end.
func lines(path string, take func(line []byte)) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", path)
	}
	if skip := info.Size() - maxTranscript; skip > 0 {
		if _, err := f.Seek(skip, io.SeekStart); err != nil {
			return err
		}
	}
	in := bufio.NewReaderSize(io.LimitReader(f, maxTranscript), 64<<10)
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(long) <= maxLine {
			long = append(long, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(long) <= maxLine {
			take(long)
		}
		long = long[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// claudeCommand returns the command of the hooks. It runs the program in the background, so that Claude Code does not wait.
func claudeCommand(c Config) string {
	program := quoted(append(slices.Clone(c.Program), "hook", "claude-code", c.AgentID)...)
	return "exec 3<&0; (" + program + " <&3 >/dev/null 2>&1 &); exit 0 " + marker
}

// InstallClaudeCode adds hooks to the settings of Claude Code, such as ~/.claude/settings.json, and reports whether it changed
// them. All else in the file stays as it is, byte for byte. Hooks of an earlier InstallClaudeCode are replaced.
func InstallClaudeCode(path string, c Config) (bool, error) {
	command, err := jsontext.AppendQuote(nil, claudeCommand(c))
	if err != nil {
		return false, err
	}
	hook := fmt.Appendf(nil, `{"hooks": [{"type": "command", "command": %s, "timeout": 10}]}`, command)
	return change(path, false, func(b []byte) ([]byte, error) {
		b, err := withoutClaude(b)
		if err != nil {
			return nil, err
		}
		switch {
		case len(b) == 0:
			b = []byte("{}\n")
		case len(bytes.TrimSpace(b)) == 0:
			b = append([]byte("{}"), b...)
		}
		for _, name := range claudeEvents {
			if b, err = addTo(b, hook, "hooks", name); err != nil {
				return nil, err
			}
		}
		return b, nil
	})
}

// UninstallClaudeCode removes the hooks of InstallClaudeCode, and reports whether there were any. Arrays and objects that are
// empty then are removed, too, and so is the file.
func UninstallClaudeCode(path string) (bool, error) {
	return change(path, true, withoutClaude)
}

// withoutClaude removes our hooks. An entry to which somebody added another hook is theirs, and stays.
func withoutClaude(b []byte) ([]byte, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return b, nil
	}
	return removeFrom(b, func(entry []byte) bool {
		var e struct {
			Hooks []struct {
				Command string `json:"command"`
			} `json:"hooks"`
		}
		return decoded(entry, &e) && len(e.Hooks) == 1 && strings.HasSuffix(e.Hooks[0].Command, marker)
	}, "hooks")
}
