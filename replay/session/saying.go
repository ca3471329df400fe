package session

import (
	"bytes"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
	"guild/replay"
)

// note is a text for readers of the record. The format has no event for it, so it is recorded as a call of the tool
// "note" with the text as output.
type note struct {
	text, step string
	trouble    bool // about the agent's account, quota or network; not for the customer
}

func (n note) tell(r *Recorder, at time.Time) error {
	text := guild.Clean(n.text)
	if text == "" {
		return nil
	}
	return aside(r, at, call{tool: "note", step: n.step}, Output{guild.Sum([]byte(text)), head([]byte(text))})
}

// aside records a call with its result at once. The worker's latest call stays the latest, so that a following result
// without an id still ends that call.
func aside(r *Recorder, at time.Time, c call, output Output) error {
	latest := r.latest
	defer func() { r.latest = latest }()
	if err := c.tell(r, at); err != nil {
		return err
	}
	return result{output: &output}.tell(r, at)
}

// planned is a plan in its canonical form. It is recorded completely, as the params of a call of the tool "plan", so
// that its hash can be checked. The hash is that of the recorded form, without secrets.
type planned struct{ document []byte }

// tell hashes the plan after redaction. The recorded plan then has the recorded hash, and the hash cannot be used to
// guess a secret in the plan.
func (p planned) tell(r *Recorder, at time.Time) error {
	plan, err := DecodePlan(p.document)
	if err == nil {
		err = plan.Validate()
	}
	if err != nil {
		return err
	}
	document, err := r.kept(p.document)
	if err == nil {
		document, err = replay.RedactJSON(document)
	}
	if err == nil {
		plan.Hash, err = canon.Hash(document)
	}
	if err != nil {
		return err
	}
	if err := aside(r, at, call{tool: "plan", params: document}, Output{Hash: plan.Hash}); err != nil {
		return err
	}
	return r.add(replay.PlanStart{PlanHash: plan.Hash.String(), StepCount: len(plan.Steps), T: replay.Time(at)}, 0)
}

// listed is a to-do list in its current state. It is recorded as a call of a tool without output.
type listed struct{ call }

func (l listed) tell(r *Recorder, at time.Time) error {
	return aside(r, at, l.call, Output{Hash: guild.Sum(nil)})
}

// begun is a plan of which the worker reports only the hash.
type begun struct{ replay.PlanStart }

func (b begun) tell(r *Recorder, at time.Time) error {
	h, err := guild.ParseHash(b.PlanHash)
	if err != nil || b.StepCount < 0 {
		return fmt.Errorf("PlanStart: %.80q with %d steps: %w", b.PlanHash, b.StepCount, ErrInvalid)
	}
	b.PlanHash, b.T = h.String(), replay.Time(at)
	return r.add(b.PlanStart, 0)
}

// stepped is the end of a step.
type stepped struct{ replay.StepComplete }

func (s stepped) tell(r *Recorder, at time.Time) error {
	s.StepID, s.T = guild.Clean(s.StepID), replay.Time(at)
	switch s.Status {
	case replay.Success, replay.Failed, replay.Skipped, replay.MaxIterationsReached:
	default:
		return fmt.Errorf("step %.40q: status %.40q: %w", r.shown(s.StepID), s.Status, ErrInvalid)
	}
	if s.StepID == "" || len(s.StepID) > MaxID || s.Iterations < 0 {
		return fmt.Errorf("step %.40q after %d iterations: %w", r.shown(s.StepID), s.Iterations, ErrInvalid)
	}
	s.StepID = r.clean(s.StepID)
	return r.add(s.StepComplete, len(s.StepID))
}

// checked is a check by the worker of its own work.
type checked struct{ replay.Verification }

func (c checked) tell(r *Recorder, at time.Time) error {
	if len(c.Commands) != len(c.ExitCodes) || len(c.Commands) > maxListed {
		return fmt.Errorf("verification: %d exit codes for %d commands: %w", len(c.ExitCodes), len(c.Commands), ErrInvalid)
	}
	if c.Delta < -replay.MaxDelta || c.Delta > replay.MaxDelta {
		return fmt.Errorf("verification: delta %d: %w", c.Delta, ErrInvalid)
	}
	e, size := replay.Verification{Commands: []string{}, ExitCodes: c.ExitCodes, Delta: c.Delta, T: replay.Time(at)}, 0
	if e.ExitCodes == nil {
		e.ExitCodes = []int{}
	}
	for _, command := range c.Commands {
		command = guild.Cut(r.shown(guild.Clean(command)), MaxNote)
		e.Commands, size = append(e.Commands, command), size+len(command)
	}
	return r.add(e, size)
}

// used is the model and the usage so far. It replaces what was reported before.
type used struct {
	model         string
	input, output *int64
	cost          *int64 // total so far, in millionths of a US dollar
}

func (u used) tell(r *Recorder, _ time.Time) error {
	if u.input != nil && *u.input < 0 || u.output != nil && *u.output < 0 || len(u.model) > MaxID {
		return fmt.Errorf("model %.40q or its tokens: %w", r.shown(guild.Clean(u.model)), ErrInvalid)
	}
	if u.cost != nil && *u.cost < 0 {
		return fmt.Errorf("negative cost: %w", ErrInvalid)
	}
	if u.model != "" {
		r.provenance.Model = r.clean(guild.Clean(u.model))
	}
	if u.cost != nil {
		r.provenance.CostMicroUSD = *u.cost
	}
	if u.input == nil && u.output == nil {
		return nil
	}
	t := Tokens{}
	if r.provenance.Tokens != nil {
		t = *r.provenance.Tokens
	}
	if u.input != nil {
		t.Input = *u.input
	}
	if u.output != nil {
		t.Output = *u.output
	}
	r.provenance.Tokens = &t
	return nil
}

// ended is the worker's report about its end: its confidence and its status.
type ended struct {
	confidence *replay.Float
	status     replay.Status // empty if unknown
}

func (e ended) tell(r *Recorder, _ time.Time) error {
	if c := e.confidence; c != nil {
		if *c < 0 || *c > 1 {
			return fmt.Errorf("confidence %v is not in 0..1: %w", float64(*c), ErrInvalid)
		}
		r.confidence = *c
	}
	switch e.status {
	case "":
	case replay.Success, replay.Failed, replay.Cancelled, replay.Timeout:
		r.status = e.status
	default:
		return fmt.Errorf("status %.40q of a session: %w", e.status, ErrInvalid)
	}
	return nil
}

// outputOf returns the output of a JSON value: a string as its text, anything else in its canonical form.
func outputOf(canonical jsontext.Value) (Output, error) {
	if len(canonical) > 0 && canonical[0] == '"' {
		text, err := jsontext.AppendUnquote(nil, canonical)
		return Output{guild.Sum(text), head(text)}, err
	}
	return Output{guild.Sum(canonical), head(canonical)}, nil
}

// head returns enough of a text to make its preview.
func head(text []byte) string { return string(text[:min(len(text), maxHead)]) }

// mapStrings applies change to every string in a JSON value, also to the names of members, and returns the canonical
// form. If two names of an object become equal, that is an error.
func mapStrings(value []byte, change func(string) string) ([]byte, error) {
	in, b := jsontext.NewDecoder(bytes.NewReader(value)), bytes.Buffer{}
	out := jsontext.NewEncoder(&b)
	for {
		token, err := in.ReadToken()
		if err != nil {
			break // the value was parsed before, so this is its end
		}
		if token.Kind() == '"' {
			token = jsontext.String(change(token.String()))
		}
		if err := out.WriteToken(token); err != nil {
			return nil, err
		}
	}
	return canon.Canonical(b.Bytes())
}

// unlessOpen is a call that may already have been recorded when it started.
type unlessOpen struct{ call }

func (u unlessOpen) tell(r *Recorder, at time.Time) error {
	if r.open[key{id: u.id}] != nil && u.id != "" {
		return nil
	}
	return u.call.tell(r, at)
}
