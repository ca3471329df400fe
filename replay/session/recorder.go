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

// errUnknown says that a line is well-formed, and that nobody here knows what it, or a part of it, says.
var errUnknown = errors.New("of no type that is known")

// errDropped says that a line is beyond the limits of a session.
var errDropped = errors.New("beyond the limits of a session")

// Config says whose session it is.
type Config struct {
	Producer       string // name@version, as the header has it
	SessionID      string
	PolicyBundleID string // what the worker is run by
	Created        time.Time

	Hide func(text string) string // takes secrets out of what is kept; nil takes nothing
}

// Recorder makes the record of one run. Its methods may be called concurrently.
type Recorder struct {
	c  Config
	mu sync.Mutex

	events     []replay.Event
	bytes      int             // of params and previews in events
	calls      int             // that were recorded
	named      int             // number of the last call that got its id here
	ids        map[string]bool // of calls, so that none stands twice
	open       map[key]*open   // calls without a result
	latest     string          // the worker's id of its last call
	effects    Effects
	read       int64 // bytes of the lines that were looked at
	report     Report
	provenance Provenance
	confidence replay.Float
	status     replay.Status // of the worker's own words; empty if it has said nothing
}

// key is the id that somebody gave a call: the worker, or who runs it.
type key struct {
	own bool
	id  string
}

// open is a call without a result.
type open struct {
	id    string // in the trajectory
	at    time.Time
	parts hash.Hash // of its output so far; nil before the first part
	head  string    // the beginning of that, of maxHead bytes at most

	effects []string
}

// New begins a session.
func New(c Config) *Recorder {
	at := replay.Time(c.Created)
	return &Recorder{
		c: c, ids: map[string]bool{}, open: map[key]*open{}, effects: Effects{},
		events: []replay.Event{
			replay.ReplayHeader{Version: 1, Producer: c.Producer, CreatedAt: at},
			replay.SessionStart{SessionID: c.SessionID, PolicyBundleID: c.PolicyBundleID, T: at},
		},
	}
}

// said is one thing that a line says.
type said interface {
	tell(r *Recorder, at time.Time) error
}

// Line takes one line, without its end, that came at a time. What is wrong with it is counted. It returns the note in
// it, if there is one for others, for whoever follows the run.
func (r *Recorder) Line(at time.Time, f Format, line []byte) (text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Lines++
	r.report.Bytes += int64(len(line))
	if r.read += int64(len(line)); r.read > MaxRead || r.report.Lines > MaxLines {
		r.report.Dropped++
		return ""
	}
	all, err := f.read(line)
	for _, one := range all {
		if n, ok := one.(note); ok && text == "" && !n.trouble {
			text = r.shown(n.text)
		}
		err = errors.Join(err, one.tell(r, at))
	}
	r.count(err)
	return text
}

// count counts what was wrong with a line, as the worst of it.
func (r *Recorder) count(err error) {
	switch {
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
}

// lost counts a line of so many bytes that nobody kept.
func (r *Recorder) lost(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Lines++
	r.report.TooLong++
	r.report.Bytes += bytes
}

// Call begins a call of the caller's own, as that of the worker's command. Its params are hashed with the others. It
// returns the id that Result takes.
func (r *Recorder) Call(at time.Time, tool string, params any) (id string, err error) {
	raw, err := canon.Marshal(params)
	if err != nil {
		return "", fmt.Errorf("session: %s: %w", tool, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return tool, call{id: tool, own: true, tool: tool, params: raw}.tell(r, at)
}

// Result ends a call that Call began.
func (r *Recorder) Result(at time.Time, id string, output Output, exit *int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return result{id: id, own: true, output: &output, exit: exit}.tell(r, at)
}

// Output is what came of a call.
type Output struct {
	Hash guild.Hash // of all of it
	Head string     // its beginning; of a long one more than a preview, for a secret at its end may be cut in half
}

// End ends the session and returns its record. What the worker says of its own success counts where the caller says
// Success: it does not undo a failure.
func (r *Recorder) End(at time.Time, status replay.Status) Session {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// Calls is how many calls were recorded.
func (r *Recorder) Calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func (r *Recorder) hide(text string) string {
	if r.c.Hide == nil {
		return text
	}
	return r.c.Hide(text)
}

// clean is a text without the secrets that came with the job, and without what is known for one by its name or shape.
func (r *Recorder) clean(text string) string { return replay.RedactText(r.hide(text)) }

// maxHead is how much of a text is looked at for its preview, in bytes, and margin how much of that is not shown where
// more followed: a secret that is shorter, and begins before the margin, was seen whole.
const (
	maxHead = 4*replay.MaxPreview + margin
	margin  = 2 << 10
)

// shown is what may be seen of a text that may be long: its preview, without secrets.
func (r *Recorder) shown(text string) string {
	return r.beginning(text, len(text) >= 4*replay.MaxPreview)
}

// beginning is shown of a text that may be cut off somewhere in a secret.
func (r *Recorder) beginning(text string, cut bool) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxHead)], "�")
	clean := r.clean(text)
	if cut {
		clean = common(clean, r.clean(guild.Cut(text, len(text)-min(margin, len(text)/2))))
	}
	return replay.Preview(clean)
}

// common is what two texts begin with. A secret that was cut in half stands in the shorter text only: in the longer one
// it was replaced.
func common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return guild.Cut(a, n)
}

// published is an output as the record has it. The hash of an output is that of all of it, as it was; but of one that
// is here whole, and had a secret in it, it is that of what is left: the preview shows all but the secret, and a short
// one could be found by trying which has this hash.
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

// add appends an event that costs so many bytes, where there is room.
func (r *Recorder) add(e replay.Event, bytes int) error {
	if len(r.events) >= MaxEvents || r.bytes+bytes > MaxBytes {
		return errDropped
	}
	r.bytes += bytes
	return r.keep(e)
}

// keep appends an event without the secrets that are known by their names and shapes.
func (r *Recorder) keep(e replay.Event) error {
	e, err := replay.Redact(e)
	if err == nil {
		r.events = append(r.events, e)
	}
	return err
}

// name makes the id that a call has in the trajectory: the worker's, if it is free and can be shown.
func (r *Recorder) name(id string) string {
	if id == "" || r.ids[id] || len(id) > MaxID || guild.Clean(id) != id || r.clean(id) != id {
		r.named = max(r.named, r.calls)
		for id = ""; id == "" || r.ids[id]; { // a worker may have taken some
			r.named++
			id = fmt.Sprintf("tc_%03d", r.named)
		}
	}
	return id
}

// call is a call that begins.
type call struct {
	id     string // a new one if empty
	own    bool   // not the worker's
	tool   string
	step   string
	params []byte // a canonical object; empty is {}

	effects []string
}

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

// kept is params as they are kept: without secrets, and named by their hash where they are too long for a line.
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

// part is one more part of the output of a call.
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

// of finds an open call: the latest one where the worker names none.
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

// result ends a call.
type result struct {
	id      string
	own     bool
	output  *Output // nil where parts were told, or nothing
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
		e.Preview = "" // a call that was recorded gets its result whatever it costs
	}
	if err := r.keep(e); err != nil {
		return err
	}
	if t.utility >= 0 { // what has failed has changed nothing that is known of
		r.affect(o.id, append(o.effects, t.effects...))
	}
	return nil
}

// affect notes what a call has changed.
func (r *Recorder) affect(id string, effects []string) {
	for _, effect := range effects {
		effect = guild.Cut(r.shown(guild.Clean(effect)), MaxID)
		if len(r.effects[id]) < maxListed && r.bytes < MaxBytes {
			r.effects[id] = append(r.effects[id], effect)
			r.bytes += len(effect)
		}
	}
}
