package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
	"guild/replay"
)

// Format is a format in which a worker reports what it does.
type Format string

// The formats: guild's own, and the event streams of agents.
const (
	Guild      Format = "guild"
	ClaudeCode Format = "claude-code" // claude -p --output-format stream-json --verbose
	Codex      Format = "codex"       // codex exec --json
	Opencode   Format = "opencode"    // opencode run --format json
)

// Formats returns all formats.
func Formats() []Format { return []Format{Guild, ClaudeCode, Codex, Opencode} }

// reader returns the function that parses a canonical line. A line can have several parts. If only some of them are
// valid, the function returns these with an error.
func (f Format) reader() func(canonical []byte) ([]said, error) {
	switch f {
	case ClaudeCode:
		return readClaude
	case Codex:
		return readCodex
	case Opencode:
		return readOpencode
	}
	return readGuild
}

// objectLine returns the canonical form of a line, which must be an object. Agents may send duplicate members.
func objectLine(line []byte, agent bool) ([]byte, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errUnknown
	}
	canonical, err := canon.Canonical(line) // refuses JSON that two parsers could read differently
	if agent && errors.Is(err, canon.ErrDuplicate) {
		canonical, err = firstOnes(line) // Codex sends duplicate members
	}
	if err != nil {
		return nil, err
	}
	if canonical[0] != '{' {
		return nil, fmt.Errorf("not an object: %w", ErrInvalid)
	}
	return canonical, nil
}

// firstOnes returns the canonical form of an object. Of duplicate members it keeps the first.
func firstOnes(line []byte) ([]byte, error) {
	in, b := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true)), bytes.Buffer{}
	out := jsontext.NewEncoder(&b) // refuses a duplicate name without changing its state
	for {
		kind, length := in.StackIndex(in.StackDepth())
		name := kind == '{' && length%2 == 0 // the next token is the name of a member
		token, err := in.ReadToken()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = out.WriteToken(token)
		}
		if name && errors.Is(err, jsontext.ErrDuplicateName) {
			err = in.SkipValue()
		}
		if err != nil {
			return nil, err
		}
	}
	return canon.Canonical(b.Bytes())
}

// guildLine is a line of guild's own format. Its members determine its meaning.
type guildLine struct {
	Event string `json:"event"`

	ID      string         `json:"id"`
	Tool    string         `json:"tool"`
	Params  jsontext.Value `json:"params"`
	Step    string         `json:"step"`
	Effects []string       `json:"side_effects"`

	Output     jsontext.Value `json:"output"`
	OutputHash *guild.Hash    `json:"output_hash"`
	OutputPart *string        `json:"output_part"`
	Done       bool           `json:"done"`
	ExitCode   *int           `json:"exit_code"`
	Utility    *replay.Float  `json:"step_utility"`
	LatencyMs  *int64         `json:"latency_ms"`

	Status     replay.Status `json:"status"`
	Iterations int           `json:"iterations"`

	Plan         jsontext.Value `json:"plan"`
	Verification *struct {
		Commands  []string `json:"commands"`
		ExitCodes []int    `json:"exit_codes"`
		Delta     int      `json:"verification_delta"`
	} `json:"verification"`

	Note       *string       `json:"note"`
	Confidence *replay.Float `json:"confidence"`
	Model      string        `json:"model"`
	Tokens     *struct {
		Input  *int64 `json:"input"`
		Output *int64 `json:"output"`
	} `json:"tokens"`
	Cost *int64 `json:"cost_micro_usd"`
}

// readGuild reads a line of guild's own form ("guild help trace").
func readGuild(canonical []byte) ([]said, error) {
	var l guildLine
	if err := json.Unmarshal(canonical, &l); err != nil {
		return nil, err
	}
	if l.Event != "" {
		return readEvent(l.Event, canonical)
	}
	all, err := l.tool()
	if err != nil {
		return nil, err
	}
	if l.Plan != nil {
		all = append(all, planned{l.Plan})
	}
	if l.Step != "" && l.Tool == "" && l.Status != "" {
		all = append(all, stepped{replay.StepComplete{StepID: l.Step, Status: l.Status, Iterations: max(l.Iterations, 1)}})
	}
	if v := l.Verification; v != nil {
		all = append(all, checked{replay.Verification{Commands: v.Commands, ExitCodes: v.ExitCodes, Delta: v.Delta}})
	}
	if l.Note != nil {
		all = append(all, note{text: *l.Note})
	}
	if l.Confidence != nil {
		all = append(all, ended{confidence: l.Confidence})
	}
	if l.Model != "" || l.Tokens != nil || l.Cost != nil {
		u := used{model: l.Model, cost: l.Cost}
		if l.Tokens != nil {
			u.input, u.output = l.Tokens.Input, l.Tokens.Output
		}
		all = append(all, u)
	}
	if len(all) == 0 {
		return nil, errUnknown
	}
	return all, nil
}

// tool reads the call and the result of a line.
func (l guildLine) tool() (all []said, err error) {
	if l.Tool != "" {
		params, err := object(l.Params)
		if err != nil {
			return nil, err
		}
		all = append(all, call{id: l.ID, tool: l.Tool, step: l.Step, params: params})
	}
	if l.OutputPart != nil {
		all = append(all, part{l.ID, *l.OutputPart})
	}
	if !l.Done && l.Output == nil && l.OutputHash == nil && l.ExitCode == nil {
		return all, nil
	}
	r := result{id: l.ID, exit: l.ExitCode, latency: l.LatencyMs, effects: l.Effects}
	if l.Utility != nil {
		r.utility = *l.Utility
	}
	var output Output
	if l.Output != nil {
		if output, err = outputOf(l.Output); err != nil {
			return nil, err
		}
		r.output = &output
	}
	if l.OutputHash != nil { // the worker has hashed the whole output and sends only its beginning
		output.Hash = *l.OutputHash
		r.output = &output
	}
	return append(all, r), nil
}

// object returns params if they are an object, or nil if there are none.
func object(params jsontext.Value) ([]byte, error) {
	if len(params) == 0 || params.Kind() == 'n' {
		return nil, nil
	}
	if params.Kind() != '{' {
		return nil, fmt.Errorf("params are not an object: %w", ErrInvalid)
	}
	return params, nil
}

// readEvent reads a line that is already an event of REPLAY.jsonl. The Recorder sets its times and the hash of its
// params again. A header and a SessionStart are unknown here, because guild writes its own.
func readEvent(name string, canonical []byte) ([]said, error) {
	switch name {
	case "ToolCall":
		e, err := decode[replay.ToolCall](canonical)
		if err != nil {
			return nil, err
		}
		params, err := object(jsontext.Value(e.Params))
		return []said{call{id: e.ID, tool: e.Tool, step: e.StepID, params: params}}, err
	case "ToolResult":
		e, err := decode[replay.ToolResult](canonical)
		if err != nil {
			return nil, err
		}
		h, err := guild.ParseHash(e.OutputHash)
		if err != nil {
			return nil, err
		}
		// latency_ms is read again as a pointer, because guild measures an absent latency and keeps a stated 0. side_effects
		// is not part of the format and only goes into the receipt.
		more, err := decode[struct {
			Effects   []string `json:"side_effects"`
			LatencyMs *int64   `json:"latency_ms"`
		}](canonical)
		return []said{result{
			id: e.ID, output: &Output{h, e.Preview}, exit: e.ExitCode, utility: e.StepUtility, latency: more.LatencyMs, effects: more.Effects,
		}}, err
	case "PlanStart":
		e, err := decode[replay.PlanStart](canonical)
		return []said{begun{e}}, err
	case "StepComplete":
		e, err := decode[replay.StepComplete](canonical)
		return []said{stepped{e}}, err
	case "Verification":
		e, err := decode[replay.Verification](canonical)
		return []said{checked{e}}, err
	case "SessionEnd":
		e, err := decode[replay.SessionEnd](canonical)
		return []said{ended{&e.Confidence, e.Status}}, err
	}
	return nil, errUnknown
}

func decode[T any](canonical []byte) (T, error) {
	var v T
	err := json.Unmarshal(canonical, &v)
	return v, err
}

// Lines is an io.Writer that splits a worker's output into lines and passes them to a Recorder. Write never fails, so
// that a faulty trace cannot stop the worker. Lines buffers at most one line of MaxLine bytes.
type Lines struct {
	To     *Recorder
	Format Format
	Now    func() time.Time
	Say    func(note string) // receives the notes; can be nil

	line []byte
	long int64 // bytes so far of a line over MaxLine; otherwise 0
}

// Write implements io.Writer.
func (l *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			l.hold(p)
			break
		}
		l.hold(p[:end])
		l.Flush()
		p = p[end+1:]
	}
	return n, nil
}

// hold appends p to the current line. Of a line over MaxLine only the length is kept.
func (l *Lines) hold(p []byte) {
	switch {
	case l.long > 0:
		l.long += int64(len(p))
	case len(l.line)+len(p) > MaxLine:
		l.long = int64(len(l.line) + len(p))
		l.line = nil
	default:
		l.line = append(l.line, p...)
	}
}

// Flush ends the current line. Call it once after the last Write, for output without a final line feed.
func (l *Lines) Flush() {
	line, long := bytes.TrimRight(l.line, "\r"), l.long
	l.line, l.long = l.line[:0], 0
	if cap(l.line) > 64<<10 {
		l.line = nil // frees the buffer after an unusually long line
	}
	switch {
	case long > 0:
		l.To.lost(long)
	case len(line) > 0:
		if text := l.To.Line(l.Now(), l.Format, line); text != "" && l.Say != nil {
			l.Say(text)
		}
	}
}
