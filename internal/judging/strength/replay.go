package strength

import (
	"io"
	"maps"
	"strconv"
)

// replay answers an examiner in place of the subject: as recorded, but for one change or one lie.
type replay struct {
	script *script
	conn   io.ReadWriter
	state
	open    map[int64]*running // number of our request → what waits for its answer
	number  int64              // of our last request
	last    int64              // the largest number of ours; none is used twice
	gone    []int64            // numbers that the process of the examiner's has let go of
	trial   trial
	told    bool // the lie was told
	strayed bool // something was asked that was never recorded
}

// state has the numbers that both sides know, and the answers that are left. A trial begins with a copy of it.
type state struct {
	test    int                    // index of the running test
	queues  map[string][]*exchange // test and key → what is left of the recorded answers
	names   map[int64]int64        // a number of the subject's in the recording → in this run
	back    map[int64]int64        // and the other way round
	known   map[int64]bool         // the examiner's numbers in this run
	aliases map[int64]int64        // a number of the examiner's in the recording → in this run
	calls   [][]any                // arguments of earlier calls
	tokens  map[string]any         // token → what was given for it
}

func (s state) clone() state {
	s.queues, s.known, s.aliases = maps.Clone(s.queues), maps.Clone(s.known), maps.Clone(s.aliases)
	s.names, s.back = maps.Clone(s.names), maps.Clone(s.back)
	s.tokens = maps.Clone(s.tokens)
	s.calls = s.calls[:len(s.calls):len(s.calls)]
	return s
}

// begin starts a trial.
func (r *replay) begin(from state, tried trial) {
	r.state, r.trial, r.strayed, r.told = from.clone(), tried, false, false
	for _, n := range r.gone {
		r.forget(n)
	}
	clear(r.open)
}

// trial is one run of a test with a change or a lie. The zero value tries whether the recording can be played at all.
type trial struct {
	change *change
	lie    *lie
	about  string // the name that the lie answers for, "*" for all
}

// running is an exchange that waits for the examiner to answer a callback.
type running struct {
	at     *exchange
	step   int
	number int64 // of the examiner's request
	thread int64
}

func newReplay(s *script, conn io.ReadWriter) *replay {
	r := &replay{script: s, conn: conn, open: map[int64]*running{}}
	r.last = s.last
	r.state = state{
		queues: map[string][]*exchange{}, names: map[int64]int64{}, back: map[int64]int64{}, known: map[int64]bool{},
		aliases: map[int64]int64{}, tokens: map[string]any{},
	}
	for _, x := range s.exchanges {
		k := queue(x.test, x.key)
		r.queues[k] = append(r.queues[k], x)
	}
	return r
}

func queue(test int, key string) string { return strconv.Itoa(test) + key }

// take serves one frame of the examiner's that is not a mark.
func (r *replay) take(f frame) error {
	r.learn(f)
	if f.kind != request {
		w := r.open[f.number]
		if w == nil {
			return nil // of a run that is over
		}
		delete(r.open, f.number)
		w.step++
		return r.advance(w)
	}
	was := f // as it was in the recording
	was.args, _ = r.originals(f.args).([]any)
	k := queue(r.test, key(was))
	left := r.queues[k]
	if same := r.script.attributes[key(was)]; len(left) == 0 && same != nil {
		left = []*exchange{same} // it was asked for in another test
	}
	var recorded *exchange
	if len(left) > 0 {
		recorded = left[0]
	}
	if l := r.trial.lie; l != nil && l.covers(r.trial.about, f, r.script.nameOf(was), recorded) {
		to := l.tell(r, f)
		r.told = r.told || !l.empty || len(containers(f)) > 0
		if len(left) > 1 {
			r.queues[k] = left[1:]
		}
		r.remember(f)
		return r.reply(f, to)
	}
	r.remember(f)
	if len(left) == 0 && describes(f) {
		return r.reply(f, says("?"))
	}
	if len(left) == 0 {
		return r.over(f.number) // what was never recorded cannot be answered
	}
	x := left[0]
	if f.op != "get" || len(left) > 1 { // an attribute stays as it was last
		r.queues[k] = left[1:]
	}
	r.align(x.args, f.args)
	return r.advance(&running{at: x, number: f.number, thread: f.thread})
}

// describes reports whether a request only asks for words about an object, as test libraries do to say why a test fails.
func describes(f frame) bool {
	name, _ := at(f.args, 0).(string)
	if f.op == "get" {
		name, _ = at(f.args, 1).(string)
	}
	switch name {
	case "__repr__", "__str__", "__format__", "__name__", "__qualname__", "__doc__", "__module__":
		return f.op == "op" || f.op == "get"
	}
	return false
}

// originals returns arguments with the subject's numbers of the recording.
func (r *replay) originals(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = r.originals(x)
		}
		return list
	case map[string]any:
		if n, defines, ok := numbered(v); ok && !defines {
			if was, there := r.back[n]; there {
				return known(was)
			}
			return v
		}
		m := make(map[string]any, len(v))
		for name, x := range v {
			m[name] = r.originals(x)
		}
		return m
	default:
		return v
	}
}

// remember keeps the arguments of a call, for lies that use those of an earlier one.
func (r *replay) remember(f frame) {
	if given := arguments(f); given != nil {
		r.calls = append(r.calls, given)
	}
}

// arguments returns what a call passes, nil for other requests and if it passes nothing.
func arguments(f frame) []any {
	var given []any
	switch f.op {
	case "call":
		given, _ = at(f.args, 1).([]any)
	case "method":
		given, _ = at(f.args, 2).([]any)
	case "op":
		given = f.args[min(2, len(f.args)):]
	}
	if len(given) == 0 {
		return nil
	}
	return given
}

// advance plays the next step of an exchange.
func (r *replay) advance(w *running) error {
	if w.step >= len(w.at.steps) {
		return r.over(w.number) // the delivery has never answered it
	}
	f := w.at.steps[w.step]
	if c := r.trial.change; c != nil && c.at == w.at && c.step == w.step {
		f = c.to
	}
	extra, ok := r.extra(f.extra)
	if !ok {
		return r.over(w.number)
	}
	if f.kind == request {
		args, ok := r.now(f.args)
		if !ok {
			return r.over(w.number)
		}
		r.number++
		r.open[r.number] = w
		list, _ := args.([]any)
		return r.send(frame{kind: request, number: r.number, thread: w.thread, op: f.op, args: list, extra: extra})
	}
	v, ok := r.now(f.value)
	if !ok {
		return r.over(w.number)
	}
	return r.send(frame{kind: f.kind, number: w.number, value: v, extra: extra})
}

func (r *replay) over(number int64) error {
	r.strayed = true
	return r.send(frame{kind: over, number: number})
}

func (r *replay) reply(f frame, to frame) error {
	to.number = f.number
	return r.send(to)
}

func (r *replay) send(f frame) error {
	raw, err := f.encode()
	if err != nil {
		return err
	}
	return writeFrame(r.conn, raw)
}

// learn notes what the examiner has numbered and what it has let go of.
func (r *replay) learn(f frame) {
	see := func(v any) {
		if n, defines, ok := numbered(v); ok && defines && n%2 != 0 {
			r.known[n] = true
		}
	}
	each(any(f.args), see)
	each(f.value, see)
	each(any(f.extra), see)
	gone, _ := f.extra["r"].([]any)
	for _, v := range gone {
		if n, ok := integer(v); ok {
			r.gone = append(r.gone, n)
			r.forget(n)
		}
	}
}

// forget takes a number out of the state, because the examiner has let go of it.
func (r *replay) forget(n int64) {
	delete(r.known, n)
	if was, there := r.back[n]; there && r.names[was] == n {
		delete(r.names, was)
	}
	delete(r.back, n)
}

// align finds what the examiner's numbers in the recording are in this run, from arguments at the same place.
func (r *replay) align(recorded, now any) {
	was, _, ok := numbered(recorded)
	is, _, both := numbered(now)
	if ok && both && was%2 != 0 && is%2 != 0 {
		r.aliases[was] = is
	}
	_, a := tagged(recorded)
	_, b := tagged(now)
	if a == nil {
		a = recorded
	}
	if b == nil {
		b = now
	}
	x, _ := a.([]any)
	y, _ := b.([]any)
	for i := range min(len(x), len(y)) {
		r.align(x[i], y[i])
	}
	m, _ := a.(map[string]any)
	n, _ := b.(map[string]any)
	for name, v := range m {
		if w, there := n[name]; there {
			r.align(v, w)
		}
	}
}

// now returns a recorded value as the examiner can read it in this run: what it has not seen is defined, with a new
// number, and what it has seen is only named. It reports false for what there is not in this run.
func (r *replay) now(v any) (any, bool) {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			var ok bool
			if list[i], ok = r.now(x); !ok {
				return nil, false
			}
		}
		return list, true
	case map[string]any:
		n, defines, ok := numbered(v)
		is, seen := r.names[n]
		tag, payload := tagged(v)
		switch {
		case !ok:
			return r.members(v)
		case n%2 != 0:
			n = r.alias(n)
			return known(n), r.known[n]
		case seen && (!defines || tag != "E"): // an exception that was raised does not come back
			return known(is), true
		case !defines && r.script.definitions[n] != nil:
			return r.now(r.script.definitions[n])
		case !defines:
			return nil, false
		}
		is = r.fresh()
		was := n
		if original, there := r.script.copies[n]; there {
			was = original
		}
		r.names[n], r.back[is] = is, was
		parts, _ := payload.([]any)
		rest, ok := r.now(parts[1:])
		list, _ := rest.([]any)
		return map[string]any{tag: append([]any{literal(is)}, list...)}, ok
	default:
		return v, true
	}
}

func (r *replay) members(v map[string]any) (any, bool) {
	m := make(map[string]any, len(v))
	for name, x := range v {
		var ok bool
		if m[name], ok = r.now(x); !ok {
			return nil, false
		}
	}
	return m, true
}

// fresh returns a new number of ours.
func (r *replay) fresh() int64 {
	r.last += 2
	return r.last
}

func (r *replay) alias(n int64) int64 {
	if is, there := r.aliases[n]; there {
		return is
	}
	return n
}

// extra returns what else comes with a frame, with numbers as they are now.
func (r *replay) extra(recorded map[string]any) (map[string]any, bool) {
	if len(recorded) == 0 {
		return nil, true
	}
	extra := maps.Clone(recorded)
	delete(extra, "t")
	list, _ := recorded["u"].([]any)
	var updates []any
	for _, v := range list {
		pair, _ := v.([]any)
		n, ok := integer(at(pair, 0))
		if !ok {
			return nil, false
		}
		is, seen := r.names[n]
		if n%2 != 0 {
			is = r.alias(n)
			seen = r.known[is]
		}
		if !seen {
			continue
		}
		contents, ok := r.now(at(pair, 1))
		if !ok {
			return nil, false
		}
		updates = append(updates, []any{literal(is), contents})
	}
	if list != nil {
		extra["u"] = updates
	}
	if updates == nil {
		delete(extra, "u")
	}
	return extra, true
}
