package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"guild/nook"
)

// threadID is a thread's id that can be in the name of a file.
var threadID = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// Codex reads a notification of Codex, the last argument of its notify command. The end of a turn is agent.completed with the
// turn's tokens, of the thread as work unit. Codex tells nothing else. home is CODEX_HOME, where Codex keeps its sessions.
func Codex(payload []byte, agentID, home string, now time.Time) ([]nook.Event, error) {
	var n struct {
		Type   string `json:"type"`
		Thread string `json:"thread-id"`
		Turn   string `json:"turn-id"`
	}
	if !decoded(payload, &n) {
		return nil, errors.New("the notification of Codex is not JSON")
	}
	if n.Type != "agent-turn-complete" {
		return nil, nil
	}
	tokens, err := codexTurn(home, n.Thread, n.Turn)
	success := true
	e := nook.Event{Type: nook.TypeCompleted, AgentID: agentID, WorkUnitID: n.Thread, Tokens: tokens, Success: &success, Timestamp: now.UnixMilli()}
	if n.Turn != "" {
		e.ID = derived("codex", n.Thread, n.Turn)
	}
	return []nook.Event{e}, err
}

// codexTurn sums the tokens of a turn. Codex counts those of the whole thread, so the turn has what came since its begin. The
// first versions of notify tell no thread, and their turns have no tokens.
func codexTurn(home, thread, turn string) (int64, error) {
	if !threadID.MatchString(thread) {
		return 0, nil
	}
	files, err := filepath.Glob(filepath.Join(globLiteral(home), "sessions", "*", "*", "*", "rollout-*-"+thread+".jsonl"))
	if err != nil || len(files) == 0 {
		return 0, err
	}
	var before, total int64
	found := false // the begin of this very turn
	err = lines(files[len(files)-1], func(line []byte) {
		if !bytes.Contains(line, []byte(`"event_msg"`)) {
			return
		}
		var l struct {
			Payload struct {
				Type string `json:"type"`
				Turn string `json:"turn_id"`
				Info *struct {
					Total *usage `json:"total_token_usage"`
				} `json:"info"`
			} `json:"payload"`
		}
		if !decoded(line, &l) {
			return
		}
		switch p := l.Payload; p.Type {
		case "task_started":
			if found = found || turn != "" && p.Turn == turn; found && p.Turn == turn {
				before = total
			}
		case "user_message": // of versions whose files have no task_started
			if !found {
				before = total
			}
		case "token_count":
			if p.Info != nil && p.Info.Total != nil {
				total = p.Info.Total.tokens()
			}
		}
	})
	return max(0, total-before), err
}

// globLiteral returns a path as a pattern that matches only itself.
func globLiteral(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// earlier begins the comment that keeps a notify that was there before ours, as a JSON string.
const earlier = marker + " keeps: "

// InstallCodex adds a notify command to the configuration of Codex, such as ~/.codex/config.toml, and reports whether it
// changed the file. All else stays as it is, byte for byte. A notify that is there is kept in a comment, and ours runs its
// command after it has reported.
func InstallCodex(path string, c Config) (bool, error) {
	return change(path, false, func(b []byte) ([]byte, error) {
		b, err := withoutCodex(b)
		if err != nil {
			return nil, err
		}
		was, err := parseTOML(b)
		if err != nil {
			return nil, err
		}
		command := append(slices.Clone(c.Program), "hook", "codex", c.AgentID)
		begin, end, found := notifyIn(b)
		kept := ""
		if _, set := was["notify"]; set != found {
			return nil, errors.New("notify is set in a form that cannot be changed safely: remove it first")
		}
		if found {
			var before struct {
				Notify []string `toml:"notify"`
			}
			if err := toml.Unmarshal(b, &before); err != nil {
				return nil, errors.New("notify is not an array of strings")
			}
			command = append(append(command, "--"), before.Notify...)
			quoted, err := json.Marshal(string(b[begin:end]))
			if err != nil {
				return nil, err
			}
			kept = earlier + string(quoted) + "\n"
		}
		line, err := json.Marshal(command) // which TOML reads the same way
		if err != nil {
			return nil, err
		}
		text := kept + "notify = " + string(line) + " " + marker
		if !found {
			text += "\n"
		}
		edited := cut(b, begin, end, []byte(text))
		return edited, onlyNotify(was, edited)
	})
}

// UninstallCodex removes the notify command of InstallCodex, puts back the one that was there before, and reports whether there
// was ours.
func UninstallCodex(path string) (bool, error) { return change(path, true, withoutCodex) }

// withoutCodex undoes InstallCodex. A notify that somebody else has put in the place of ours stays.
func withoutCodex(b []byte) ([]byte, error) {
	begin, end, found := notifyIn(b)
	if !found {
		return b, nil
	}
	rest, isOurs := bytes.CutPrefix(b[end:], []byte(" "+marker))
	if !isOurs {
		return b, nil
	}
	end = len(b) - len(rest)
	start := bytes.LastIndexByte(b[:max(0, begin-1)], '\n') + 1
	start += len(b[start:begin]) - len(bytes.TrimLeft(b[start:begin], " \t"))
	if text, isKept := bytes.CutPrefix(b[start:begin], []byte(earlier)); isKept {
		var before string
		if err := json.Unmarshal(text, &before); err != nil {
			return nil, fmt.Errorf("the comment with the earlier notify: %w", err)
		}
		return cut(b, start, end, []byte(before)), nil
	}
	if bytes.HasPrefix(rest, []byte("\n")) {
		end++
	}
	return cut(b, begin, end, nil), nil
}

func parseTOML(b []byte) (map[string]any, error) {
	var all map[string]any
	err := toml.Unmarshal(b, &all)
	return all, err
}

// onlyNotify checks that edited TOML differs from what it was in notify alone.
func onlyNotify(was map[string]any, edited []byte) error {
	is, err := parseTOML(edited)
	if err != nil {
		return err
	}
	delete(was, "notify")
	delete(is, "notify")
	if len(was)+len(is) > 0 && !reflect.DeepEqual(was, is) {
		return errors.New("the file cannot be changed safely")
	}
	return nil
}

// notifyIn returns where notify is set at the top level of a valid TOML document, from its name to the end of its value. If it is not
// set, begin and end are where it can be: at the beginning.
func notifyIn(b []byte) (begin, end int, found bool) {
	first := len(b) - len(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	in := unstable.Parser{KeepComments: true}
	for in.Reset(b[first:]); in.NextExpression(); {
		e := in.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			return first, first, false
		case unstable.KeyValue:
			key := e.Key()
			key.Next()
			if string(key.Node().Data) == "notify" && key.IsLast() && e.Value().Kind == unstable.Array {
				end := first + lastByte(e.Value(), key.Node())
				return first + int(key.Node().Raw.Offset), end + bytes.IndexByte(b[end:], ']') + 1, true
			}
		default: // a comment
		}
	}
	return first, first, false
}

// lastByte returns where the last string or comment in an array ends, or else the array's key. The parser does not know where
// the array itself ends.
func lastByte(array, key *unstable.Node) int {
	end := int(key.Raw.Offset + key.Raw.Length)
	for it := array.Children(); it.Next(); {
		end = max(end, lastByte(it.Node(), it.Node()))
	}
	return end
}

// cut returns the document with the text in place of a part of it.
func cut(doc []byte, begin, end int, text []byte) []byte {
	return slices.Concat(doc[:begin], text, doc[end:])
}
