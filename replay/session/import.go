package session

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/replay"
)

// Logged returns the formats of which Import reads the log.
func Logged() []Format { return []Format{ClaudeCode, Codex} }

// maxTypes limits the types that Import counts by name. Others count as "…".
const maxTypes = 50

// Import returns the session of which an agent has kept a log on disk: of Claude Code ~/.claude/projects/*/*.jsonl, of Codex
// ~/.codex/sessions/**/rollout-*.jsonl. The times, the session's id and, as the producer, the program's version are the
// log's. A status is Success only if the agent had the last word; of a session that was left in the middle it is Cancelled.
// Import counts by their type the lines of which a part was not understood. It applies the limits of a Recorder. The error
// is ErrInvalid if the file is no such log.
func Import(f Format, log []byte) (Session, map[string]int, error) {
	read := readClaudeLog
	switch f {
	case ClaudeCode:
	case Codex:
		read = readCodexLog
	default:
		return Session{}, nil, fmt.Errorf("logs of %.40q: %w", f, ErrInvalid)
	}
	head, err := headOf(f, log)
	if err != nil {
		return Session{}, nil, err
	}
	r := New(Config{
		Producer: string(f) + "@" + cmp.Or(replay.RedactText(head.program), "unknown"), SessionID: replay.RedactText(head.id), PolicyBundleID: "imported",
		Created: head.at,
	})
	r.status = replay.Cancelled
	at, unknown := head.at, map[string]int{}
	for line := range bytes.Lines(log) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(line) > MaxLine {
			r.lost(int64(len(line)))
			continue
		}
		var l logLine
		json.Unmarshal(line, &l, jsontext.AllowDuplicateNames(true)) // what is faulty is counted when the line is recorded
		if t := l.time(); t.After(at) {                              // lines can be slightly out of order
			at = t
		}
		before := r.report.Unknown
		r.line(at, read, true, line)
		if r.report.Unknown > before {
			name := r.shown(guild.Clean(l.name()))
			if _, known := unknown[name]; !known && len(unknown) >= maxTypes {
				name = "…"
			}
			unknown[name]++
		}
	}
	return r.End(at, replay.Success), unknown, nil
}

// logLine has the members of a line that do not depend on its type.
type logLine struct {
	Timestamp string `json:"timestamp"`
	Type      string `json:"type"`
	Session   string `json:"sessionId"` // of Claude Code
	Version   string `json:"version"`
	Payload   struct {
		Type    string `json:"type"`
		ID      string `json:"id"` // of Codex's session_meta
		Version string `json:"cli_version"`
		Item    struct {
			Type string `json:"type"`
		} `json:"item"`
	} `json:"payload"`
}

// time returns the line's time, zero if it has none.
func (l logLine) time() time.Time {
	t, err := time.Parse(time.RFC3339Nano, l.Timestamp)
	if err != nil || t.Year() < 2000 || t.Year() > 9000 {
		return time.Time{}
	}
	return t.UTC()
}

// name returns the type of the line and of what is in it.
func (l logLine) name() string {
	parts := []string{cmp.Or(l.Type, "without a type")}
	for _, part := range []string{l.Payload.Type, l.Payload.Item.Type} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return guild.Cut(strings.Join(parts, "/"), 80)
}

// logHead has the members of a log that identify its session.
type logHead struct {
	id, program string
	at          time.Time // of the first line that has one
}

// headOf finds the session's id, the program's version and the first time.
func headOf(f Format, log []byte) (h logHead, err error) {
	for line := range bytes.Lines(log) {
		if len(line) > MaxLine {
			continue
		}
		var l logLine
		json.Unmarshal(line, &l, jsontext.AllowDuplicateNames(true))
		id, version := l.Session, l.Version
		if f == Codex {
			id, version = "", ""
			if l.Type == "session_meta" {
				id, version = l.Payload.ID, l.Payload.Version
			}
		}
		h.id, h.program = cmp.Or(h.id, named(id)), cmp.Or(h.program, named(version))
		if h.at.IsZero() {
			h.at = l.time()
		}
		if h.id != "" && h.program != "" && !h.at.IsZero() {
			return h, nil
		}
	}
	if h.id == "" || h.at.IsZero() {
		return h, fmt.Errorf("no session of %s with an id and a time: %w", f, ErrInvalid)
	}
	return h, nil
}

// named returns an id or a version if it can be one.
func named(text string) string {
	if len(text) > MaxID || guild.Clean(text) != text {
		return ""
	}
	return text
}

// spent is the usage of one message. Claude Code repeats it on each line of the message, and the last one is complete.
type spent struct {
	message       string
	input, output int64
}

func (s spent) tell(r *Recorder, at time.Time) error {
	if s.input < 0 || s.output < 0 || len(s.message) > MaxID {
		return fmt.Errorf("the usage of message %.40q: %w", r.shown(s.message), ErrInvalid)
	}
	if r.spent == nil {
		r.spent = map[string]Tokens{}
	}
	sum := Tokens{s.input, s.output}
	if t := r.provenance.Tokens; t != nil {
		before := r.spent[s.message]
		sum = Tokens{t.Input - before.Input + s.input, t.Output - before.Output + s.output}
	}
	if sum.Input < 0 || sum.Output < 0 {
		return fmt.Errorf("the usage of message %.40q: %w", r.shown(s.message), ErrInvalid)
	}
	r.spent[s.message] = Tokens{s.input, s.output}
	r.provenance.Tokens = &sum
	return nil
}

// nested is a call that a program made in the course of another call, with its result. If the agent made the call itself,
// then it is recorded already.
type nested struct {
	call
	result
}

func (n nested) tell(r *Recorder, at time.Time) error {
	if r.ids[n.call.id] {
		return nil
	}
	latest := r.latest
	defer func() { r.latest = latest }()
	if r.open[key{id: latest}] != nil {
		n.call.step = latest
	}
	if err := n.call.tell(r, at); err != nil {
		return err
	}
	return n.result.tell(r, at)
}

// completed is the end of a turn, which an error before it has made a failure.
type completed struct{}

func (completed) tell(r *Recorder, _ time.Time) error {
	if r.status != replay.Failed {
		r.status = replay.Success
	}
	return nil
}
