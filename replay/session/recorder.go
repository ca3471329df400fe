package session

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"guild"
	"guild/canon"
	"guild/replay"
)

// errUnknown marks a well-formed line of which the whole or a part is not understood.
var errUnknown = errors.New("of no type that is known")

// errDropped marks a line beyond the limits of a session.
var errDropped = errors.New("beyond the limits of a session")

// Config describes the session.
type Config struct {
	Producer       string // name@version, for the header
	SessionID      string
	PolicyBundleID string // hash of the conditions under which the worker runs
	BehaviourID    string // hash of the behaviour of the agent that works; empty without one
	Created        time.Time

	Hide func(text string) string // removes secrets from what is kept; can be nil
}

// Recorder records one run. Its methods are safe for concurrent use.
//
// A line of a worker can be wrong in any way, so Line returns no error: the Recorder counts faulty lines in its Report
// and continues. It also limits everything that it keeps, because a worker can write without end.
type Recorder struct {
	c  Config
	mu sync.Mutex

	events     []replay.Event
	bytes      int             // of params and previews in events
	calls      int             // recorded calls
	named      int             // number in the last id that name made
	ids        map[string]bool // ids of calls; each is unique
	open       map[key]*open   // calls without a result
	latest     string          // the worker's id of its latest call
	effects    Effects
	read       int64 // bytes of the parsed lines
	report     Report
	provenance Provenance
	spent      map[string]Tokens // by message; see spent
	confidence replay.Float
	status     replay.Status // as the worker reports it; empty if it did not
}

// key identifies an open call by its id. Calls by the worker and by the Recorder's own caller have separate ids.
type key struct {
	own bool
	id  string
}

// open is a call without a result. Of output that arrives in parts it keeps only the hash state and the beginning, so
// that an output of any length needs little memory.
type open struct {
	id    string // in the trajectory
	at    time.Time
	parts hash.Hash // hash of the output parts so far; nil before the first part
	head  string    // the beginning of the output, at most maxHead bytes

	effects []string
}

// New starts a session.
func New(c Config) *Recorder {
	at := replay.Time(c.Created)
	return &Recorder{
		c: c, ids: map[string]bool{}, open: map[key]*open{}, effects: Effects{},
		events: []replay.Event{
			replay.ReplayHeader{Version: 1, Producer: c.Producer, CreatedAt: at},
			replay.SessionStart{SessionID: c.SessionID, PolicyBundleID: c.PolicyBundleID, BehaviourID: c.BehaviourID, T: at},
		},
	}
}

// said is one part of a line: a call, a result, a note and so on. tell records it.
type said interface {
	tell(r *Recorder, at time.Time) error
}

// Line records one line, without its line end, received at time at. It counts faults. It returns the first note of the
// line that may be shown to the customer, or "".
func (r *Recorder) Line(at time.Time, f Format, line []byte) (text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.line(at, f.reader(), f != Guild, line)
}

// line records one line of an agent, or of another worker, with the function that parses its canonical form.
func (r *Recorder) line(at time.Time, read func([]byte) ([]said, error), agent bool, line []byte) (text string) {
	r.report.Lines++
	r.report.Bytes += int64(len(line))
	if r.read += int64(len(line)); r.read > MaxRead || r.report.Lines > MaxLines {
		r.report.Dropped++
		return ""
	}
	var all []said
	canonical, err := objectLine(line, agent)
	if err == nil {
		all, err = read(canonical)
	}
	for _, one := range all {
		if n, ok := one.(note); ok && text == "" && !n.trouble {
			text = r.shown(n.text)
		}
		err = errors.Join(err, one.tell(r, at))
	}
	switch { // a faulty line is counted once
	case err == nil:
	case errors.Is(err, errDropped):
		r.report.Dropped++
	case errors.Is(err, errUnknown):
		r.report.Unknown++
	default:
		r.report.Malformed++
		if r.report.First == "" {
			r.report.First = guild.Cut(r.shown(guild.Clean(err.Error())), 200)
		}
	}
	return text
}

// lost counts a line that was too long to keep.
func (r *Recorder) lost(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Lines++
	r.report.TooLong++
	r.report.Bytes += bytes
}

// Call records a call by the Recorder's own caller, such as the worker's command. Pass the returned id to Result.
func (r *Recorder) Call(at time.Time, tool string, params any) (id string, err error) {
	raw, err := canon.Marshal(params)
	if err != nil {
		return "", fmt.Errorf("session: %s: %w", tool, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return tool, call{id: tool, own: true, tool: tool, params: raw}.tell(r, at)
}

// Result ends a call that Call started.
func (r *Recorder) Result(at time.Time, id string, output Output, exit *int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return result{id: id, own: true, output: &output, exit: exit}.tell(r, at)
}

// Output is the output of a call.
type Output struct {
	Hash guild.Hash // of the whole output
	Head string     // the beginning; longer than a preview, so that a secret at the end of the preview is seen completely
}

// End ends the session and returns its record. If status is Success, the status that the worker reported replaces it;
// a worker cannot turn a failure into a success.
func (r *Recorder) End(at time.Time, status replay.Status) Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The caller's status is Success only after a delivery. A worker can report that it has failed, but it cannot turn a
	// missing delivery into a success.
	if status == replay.Success && r.status != "" {
		status = r.status
	}
	start := r.c.Created
	events := append(r.events[:len(r.events):len(r.events)], replay.SessionEnd{
		Status: status, Confidence: r.confidence, TotalToolCalls: r.calls,
		TotalLatencyMs: max(0, at.Sub(start).Milliseconds()), T: replay.Time(at),
	})
	return Session{Events: events, Effects: maps.Clone(r.effects), Report: r.report, Provenance: r.provenance}
}

// Calls returns the number of recorded calls.
func (r *Recorder) Calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// clean removes from a text the secrets of the job and everything that is a secret by its name or shape.
func (r *Recorder) clean(text string) string {
	if r.c.Hide != nil {
		text = r.c.Hide(text)
	}
	return replay.RedactText(text)
}

// maxHead limits the bytes of a text that are searched for secrets to make its preview. If the text is longer, the
// last margin bytes of them are not shown. So a secret shorter than margin that starts before the margin is seen, and
// replaced, completely.
const (
	maxHead = 4*replay.MaxPreview + margin
	margin  = 2 << 10
)

// shown returns the preview of a text that can be long, without secrets.
func (r *Recorder) shown(text string) string {
	return r.beginning(text, len(text) >= 4*replay.MaxPreview)
}

// beginning does the same for a text that can be cut off inside a secret.
func (r *Recorder) beginning(text string, cut bool) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxHead)], "�")
	clean := r.clean(text)
	if cut {
		clean = common(clean, r.clean(guild.Cut(text, len(text)-min(margin, len(text)/2))))
	}
	return replay.Preview(clean)
}

// common returns the common beginning of two texts. A secret that was cut in half is visible only in the shorter text;
// in the longer one it was replaced. So the common beginning does not contain it.
func common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return guild.Cut(a, n)
}

// published returns the hash and the preview of an output for the record. The hash is that of the whole original
// output, with one exception: if the output is here completely and contains a secret, the hash is that of the redacted
// text. The preview shows everything but the secret, so a short secret could be found by trial from the original hash.
func (r *Recorder) published(o Output) (h guild.Hash, preview string) {
	if len(o.Head) <= 4*replay.MaxPreview && guild.Sum([]byte(o.Head)) == o.Hash {
		clean := r.clean(o.Head)
		if clean != o.Head {
			o.Hash = guild.Sum([]byte(clean))
		}
		return o.Hash, replay.Preview(clean)
	}
	cut := guild.Sum([]byte(o.Head)) != o.Hash && utf8.RuneCountInString(o.Head) >= replay.MaxPreview
	return o.Hash, r.beginning(o.Head, cut)
}

// add appends an event of the given number of bytes, unless a limit is reached.
func (r *Recorder) add(e replay.Event, bytes int) error {
	if len(r.events) >= MaxEvents || r.bytes+bytes > MaxBytes {
		return errDropped
	}
	r.bytes += bytes
	return r.keep(e)
}

// keep appends an event after replay.Redact.
func (r *Recorder) keep(e replay.Event) error {
	e, err := replay.Redact(e)
	if err == nil {
		r.events = append(r.events, e)
	}
	return err
}

// name returns the id of a call in the trajectory: the worker's id if it is free, valid and not a secret, otherwise a
// new one.
func (r *Recorder) name(id string) string {
	if id == "" || r.ids[id] || len(id) > MaxID || guild.Clean(id) != id || r.clean(id) != id {
		r.named = max(r.named, r.calls)
		for id = ""; id == "" || r.ids[id]; { // the worker can have used some of these
			r.named++
			id = fmt.Sprintf("tc_%03d", r.named)
		}
	}
	return id
}

// call is the start of a call.
type call struct {
	id     string // a new id is made if empty
	own    bool   // by the Recorder's own caller, not by the worker
	tool   string
	step   string
	params []byte // a canonical object; empty means {}

	effects []string
}

// tell records the call. It registers the call as open only after the event was added, so that no result is recorded
// for a dropped call.
func (c call) tell(r *Recorder, at time.Time) error {
	tool, step := guild.Clean(c.tool), guild.Clean(c.step)
	if tool == "" || len(tool) > MaxID || len(step) > MaxID {
		return fmt.Errorf("a call of %.40q in step %.40q: %w", r.shown(tool), r.shown(step), ErrInvalid)
	}
	if len(r.open) >= MaxOpen {
		return fmt.Errorf("%d calls without a result: %w", len(r.open), errDropped)
	}
	params, err := r.kept(c.params)
	if err != nil {
		return err
	}
	id := r.name(c.id)
	if c.own {
		id = r.name("")
	}
	e := replay.ToolCall{ID: id, Tool: r.clean(tool), Params: params, StepID: r.clean(step), T: replay.Time(at)}
	if err := r.add(e, len(params)); err != nil {
		return err
	}
	r.calls++
	r.ids[id] = true
	if c.id == "" {
		c.id = id
	}
	if !c.own {
		r.latest = c.id
	}
	r.open[key{c.own, c.id}] = &open{id: id, at: at, effects: c.effects}
	return nil
}

// kept returns params without secrets, or only their hash and size if they are too long for a line.
func (r *Recorder) kept(params []byte) ([]byte, error) {
	if len(params) == 0 {
		return []byte("{}"), nil
	}
	if len(params) > MaxParams {
		h := guild.Sum(params)
		return fmt.Appendf(nil, `{"omitted":{"bytes":%d,"hash":%q}}`, len(params), h), nil
	}
	if r.c.Hide == nil {
		return params, nil
	}
	return mapStrings(params, r.c.Hide)
}

// part is a part of a call's output.
type part struct{ id, text string }

func (p part) tell(r *Recorder, _ time.Time) error {
	o, _, err := r.of(key{id: p.id})
	if err != nil {
		return err
	}
	if o.parts == nil {
		o.parts = sha256.New()
	}
	o.parts.Write([]byte(p.text))
	if len(o.head) < maxHead {
		o.head += p.text[:min(len(p.text), maxHead-len(o.head))]
	}
	return nil
}

// of returns an open call: the latest one if the worker names none.
func (r *Recorder) of(k key) (*open, key, error) {
	if k.id == "" {
		k.id = r.latest
	}
	o, ok := r.open[k]
	if !ok {
		return nil, k, fmt.Errorf("no call %.40q waits for a result: %w", r.shown(guild.Clean(k.id)), ErrInvalid)
	}
	return o, k, nil
}

// result is the end of a call.
type result struct {
	id      string
	own     bool
	output  *Output // nil if the output came in parts, or there is none
	exit    *int
	utility replay.Float // -1 to 1
	latency *int64       // ms; measured if nil
	effects []string
}

func (t result) tell(r *Recorder, at time.Time) error {
	o, k, err := r.of(key{t.own, t.id})
	if err != nil {
		return err
	}
	if t.utility < -1 || t.utility > 1 || t.latency != nil && (*t.latency < 0 || *t.latency > replay.MaxMs) {
		return fmt.Errorf("the result of %.40q: utility %v or its latency: %w", o.id, float64(t.utility), ErrInvalid)
	}
	delete(r.open, k)
	output := Output{Hash: guild.Sum(nil)}
	switch {
	case t.output != nil:
		output = *t.output
	case o.parts != nil:
		output = Output{guild.Hash(o.parts.Sum(nil)), o.head}
	}
	h, preview := r.published(output)
	e := replay.ToolResult{
		ID: o.id, OutputHash: h.String(), Preview: preview, ExitCode: t.exit,
		StepUtility: t.utility, LatencyMs: max(0, at.Sub(o.at).Milliseconds()), T: replay.Time(at),
	}
	if t.latency != nil {
		e.LatencyMs = *t.latency
	}
	if r.bytes += len(e.Preview); r.bytes > MaxBytes {
		e.Preview = "" // a recorded call always gets its result
	}
	if err := r.keep(e); err != nil {
		return err
	}
	if t.utility >= 0 { // a failed call is assumed to have changed nothing
		for _, effect := range append(o.effects, t.effects...) {
			effect = guild.Cut(r.shown(guild.Clean(effect)), MaxID)
			if len(r.effects[o.id]) < maxListed && r.bytes < MaxBytes {
				r.effects[o.id] = append(r.effects[o.id], effect)
				r.bytes += len(effect)
			}
		}
	}
	return nil
}
