package strength

import (
	"io"
	"maps"
)

// replay answers an examiner in place of the subject: as recorded, but for one change or one lie.
type replay struct {
	script *script
	conn   io.ReadWriter
	state
	open    map[int64]*running // number of our request → what waits for its answer
	number  int64              // of our last request
	trial   trial
	told    bool // the lie was told
	strayed bool // something was asked that was never recorded
}

// state is what the examiner and we both know. It is copied when the examiner forks.
type state struct {
	test    int                    // index of the running test
	queues  map[string][]*exchange // test and key → what is left of the recorded answers
	known   map[int64]bool         // numbers that the examiner can follow
	aliases map[int64]int64        // a number of the examiner's in the recording → in this run
	liars   map[int64]*liar        // objects that lie
	last    int64                  // the largest number of ours
	calls   [][]any                // arguments of earlier calls
	tokens  map[string]any         // token → what was given for it
}

func (s state) clone() state {
	s.queues, s.known, s.aliases = maps.Clone(s.queues), maps.Clone(s.known), maps.Clone(s.aliases)
	s.liars, s.tokens = maps.Clone(s.liars), maps.Clone(s.tokens)
	s.calls = s.calls[:len(s.calls):len(s.calls)]
	return s
}

// trial is what one run of a test tries. The zero value tries whether the recording can be played at all.
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
	r.state = state{
		queues: map[string][]*exchange{}, known: map[int64]bool{}, aliases: map[int64]int64{}, liars: map[int64]*liar{},
		last: s.last, tokens: map[string]any{},
	}
	for _, x := range s.exchanges {
		k := queue(x.test, x.key)
		r.queues[k] = append(r.queues[k], x)
	}
	return r
}

func queue(test int, key string) string { return string(rune(test)) + key }

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
	f.args, _ = r.originals(f.args).([]any)
	if n, _, ok := numbered(target(f)); ok && r.liars[n] != nil {
		return r.reply(f, r.liars[n].answer(r, f))
	}
	k := queue(r.test, key(f))
	left := r.queues[k]
	var recorded *exchange
	if len(left) > 0 {
		recorded = left[0]
	}
	if l := r.trial.lie; l != nil && l.covers(r.trial.about, f, r.script.nameOf(f), recorded) {
		to := l.tell(r, f)
		r.told = true
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

// originals returns arguments with objects in place of their copies.
func (r *replay) originals(v any) any {
	if r.trial.change == nil || len(r.script.copies) == 0 {
		return v
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = r.originals(v[i])
		}
	case map[string]any:
		if n, defines, ok := numbered(v); ok && !defines {
			if original, there := r.script.copies[n]; there {
				return known(original)
			}
		}
		for name := range v {
			v[name] = r.originals(v[name])
		}
	}
	return v
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
		return nil
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
			delete(r.known, n)
		}
	}
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

// now returns a recorded value as the examiner can read it now: what it has not seen is defined, what it has seen is
// only named. It reports false for what there is not in this run.
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
		switch {
		case !ok:
			return r.members(v)
		case n%2 != 0:
			n = r.alias(n)
			return known(n), r.known[n]
		case r.known[n]:
			if tag, _ := tagged(v); defines && tag == "E" {
				return r.again(v)
			}
			return known(n), true
		case !defines:
			definition := r.script.definitions[n]
			if definition == nil {
				return nil, false
			}
			return r.now(definition)
		}
		r.known[n] = true
		return r.members(v)
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

// again returns an exception with a new number: one that was raised does not come back.
func (r *replay) again(v map[string]any) (any, bool) {
	_, payload := tagged(v)
	parts, _ := payload.([]any)
	fresh := append([]any{literal(r.fresh())}, parts[1:]...)
	return r.now(map[string]any{"E": fresh})
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
		if n%2 != 0 {
			n = r.alias(n)
		}
		if !r.known[n] {
			continue
		}
		contents, ok := r.now(at(pair, 1))
		if !ok {
			return nil, false
		}
		updates = append(updates, []any{literal(n), contents})
	}
	if list != nil {
		extra["u"] = updates
	}
	if updates == nil {
		delete(extra, "u")
	}
	return extra, true
}
