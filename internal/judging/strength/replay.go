package strength

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
)

// A run of a test may ask for so much more than the recorded one: this often as much, and this many questions besides.
const (
	timesAsked = 4
	moreAsked  = 500
)

// nobody is the thread of a request that nobody waits for.
const nobody = -1

// replay answers an examiner in place of the subject: as recorded, but for one change or one lie.
type replay struct {
	script *script
	conn   io.ReadWriter
	state
	open     map[int64]*running // number of our request → what waits for its answer
	number   int64              // of our last request
	last     int64              // the largest number of ours; none is used twice
	gone     []int64            // numbers that the process of the examiner's has let go of
	held     []*running         // promises whose answer waits for that of others
	early    []*running         // callbacks with something that the examiner names in its answer to another
	trial    trial
	told     bool           // the lie was told
	hollows  map[int64]bool // objects of Go that a lie made
	makes    bool           // lies make objects of Go for pointers, too: there is no recording that has some
	recorded *exchange      // what is lied about
	asks     int            // questions of the running test
	strayed  bool           // something was asked that was never recorded
}

// state has the numbers that both sides know, and the answers that are left. A trial begins with a copy of it.
type state struct {
	test    int                    // index of the running test
	queues  map[string][]*exchange // test and key → what is left of the recorded answers
	names   map[int64]int64        // a number of the subject's in the recording → in this run
	back    map[int64]int64        // and the other way round
	known   map[int64]bool         // the examiner's numbers in this run
	aliases map[int64]int64        // a number of the examiner's in the recording → in this run
	theirs  map[int64]int64        // and the other way round
	played  map[*exchange]bool     // of what others wait for
	made    map[int64]frame        // promise → the request that it answers
	calls   []call                 // earlier calls
	tokens  map[string]any         // token → what was given for it
	counted int                    // how often a lie that counts was told
}

func (s state) clone() state {
	s.queues, s.known, s.aliases = maps.Clone(s.queues), maps.Clone(s.known), maps.Clone(s.aliases)
	s.names, s.back = maps.Clone(s.names), maps.Clone(s.back)
	s.theirs, s.played, s.made = maps.Clone(s.theirs), maps.Clone(s.played), maps.Clone(s.made)
	s.tokens = maps.Clone(s.tokens)
	s.calls = s.calls[:len(s.calls):len(s.calls)]
	return s
}

// call has the arguments of a call and, of Go, their types.
type call struct {
	given []any
	types []form
}

// begin starts a trial.
func (r *replay) begin(from state, tried trial) {
	r.state, r.trial, r.strayed, r.told, r.asks = from.clone(), tried, false, false, 0
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
	at    *exchange
	step  int
	late  bool      // it plays what comes after the answer
	first *exchange // it is played with the values of this one
	asked frame     // the examiner's request
}

func newReplay(s *script, conn io.ReadWriter) *replay {
	r := &replay{script: s, conn: conn, open: map[int64]*running{}, hollows: map[int64]bool{}}
	r.last = s.last
	r.reset()
	return r
}

// reset forgets all but which numbers were used: the examiner begins anew.
func (r *replay) reset() {
	r.state = state{
		queues: map[string][]*exchange{}, names: map[int64]int64{}, back: map[int64]int64{}, known: map[int64]bool{},
		aliases: map[int64]int64{}, theirs: map[int64]int64{}, tokens: map[string]any{}, played: map[*exchange]bool{}, made: map[int64]frame{},
	}
	for _, x := range r.script.exchanges {
		k := queue(x.test, x.key)
		r.queues[k] = append(r.queues[k], x)
	}
	clear(r.open)
	r.held, r.early, r.asks = nil, nil, 0
}

// again lets a test run once more in the same process: what was asked in it is answered again, with new numbers.
func (r *replay) again(test int) {
	for _, x := range r.script.asked[test] {
		r.queues[queue(test, x.key)] = nil
	}
	for _, x := range r.script.asked[test] {
		k := queue(test, x.key)
		r.queues[k] = append(r.queues[k], x)
		delete(r.played, x)
	}
	for _, n := range r.script.defined[test] {
		delete(r.names, n)
	}
	clear(r.tokens)
	r.asks = 0
	r.calls, r.held, r.early, r.counted = nil, nil, nil, 0
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
		r.align(w.steps()[w.step].value, f.value)
		w.step++
		if l := r.trial.lie; l != nil && l.items && w.first != nil && f.value == false && !w.late {
			w.step = len(w.at.steps) - 1 // the tests want no more
		}
		ready := append([]*running{w}, r.early...)
		r.early = nil
		for _, w := range ready {
			if err := r.advance(w); err != nil {
				return err
			}
		}
		return nil
	}
	r.asks++
	if r.asks > timesAsked*len(r.script.asked[r.test])+moreAsked {
		return r.over(f.number) // it goes round in circles
	}
	if r.isHollow(f.args) {
		return r.over(f.number)
	}
	was := f // as it was in the recording
	was.args, _ = r.originals(f.args).([]any)
	id := r.script.key(was)
	k := queue(r.test, id)
	left := r.queues[k]
	if same := r.script.attributes[id]; len(left) == 0 && same != nil {
		left = []*exchange{same} // it was asked for in another test
	}
	if r.script.lang.typed && len(left) == 0 {
		if same := r.script.repeated(r.test, id); same != nil {
			left = []*exchange{same}
		}
	}
	left = sameFirst(left, was)
	var recorded *exchange
	if len(left) > 0 {
		recorded = left[0]
	}
	next := func() {
		if len(left) > 0 && (f.op != "get" || len(left) > 1) { // an attribute stays as it was last
			r.queues[k] = left[1:]
		}
	}
	if f.op == "idle" {
		return errors.Join(r.release(true), r.reply(f, frame{kind: answer}))
	}
	lied := r.trial.lie != nil && r.trial.lie.covers(r.trial.about, was, r.script, recorded)
	plays := lied && r.trial.lie.plays && recorded != nil
	if l := r.trial.lie; lied && !l.plays {
		asked := f
		n, _, _ := numbered(target(f))
		if made, there := r.made[n]; f.op == "await" || there && r.script.settles(f) {
			asked = made
		}
		r.recorded = recorded
		if to, ok := l.tell(r, asked); ok {
			r.told = r.told || (!l.empty || len(r.kept(asked)) > 0) && !r.repeats(to)
			if len(left) > 1 {
				r.queues[k] = left[1:]
			}
			r.remember(f)
			r.played[recorded] = true
			return errors.Join(r.reply(f, to), r.release(false))
		}
	}
	r.remember(f)
	if recorded == nil {
		if to, ok := r.silence(f); ok {
			return r.reply(f, to)
		}
		return r.over(f.number) // what was never recorded cannot be answered
	}
	next()
	r.align(recorded.args, f.args)
	r.align(recorded.request.extra["p"], f.extra["p"])
	w := &running{at: recorded, asked: f}
	if plays {
		w.first = r.script.firstOf(r.trial.about)
		if r.trial.lie.items {
			w.first = r.script.firstCalling(recorded.name)
		}
		r.told = r.told || w.first != nil
	}
	if len(recorded.after) > 0 {
		r.held = append(r.held, w)
		return r.release(false)
	}
	return r.advance(w)
}

// mostCompared limits how far ahead the same arguments are looked for.
const mostCompared = 64

// sameFirst returns exchanges in their order, but first the one that was asked with the same arguments, if there is one: a test
// may go through a map or a set in another order each time.
func sameFirst(left []*exchange, f frame) []*exchange {
	if len(left) < 2 {
		return left
	}
	args := text(nameless(f.args))
	i := slices.IndexFunc(left[:min(len(left), mostCompared)], func(x *exchange) bool { return text(nameless(x.args)) == args })
	if i < 1 {
		return left
	}
	return slices.Concat(left[i:i+1], left[:i], left[i+1:])
}

// nameless returns a value without the examiner's numbers, which depend on the order in which it asks.
func nameless(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = nameless(x)
		}
		return list
	case map[string]any:
		tag, payload := tagged(v)
		if n, _, ok := numbered(v); ok && n%2 != 0 {
			parts, _ := payload.([]any)
			if tag == "x" || tag == "k" { // lent here, or before
				return "lent"
			}
			return map[string]any{tag: nameless(parts[min(1, len(parts)):])}
		}
		m := make(map[string]any, len(v))
		for name, x := range v {
			m[name] = nameless(x)
		}
		return m
	}
	return v
}

// release answers about the promises that waited for others, if these have been answered or all must be.
func (r *replay) release(all bool) error {
	for i := 0; i < len(r.held); i++ {
		w := r.held[i]
		if !all && slices.ContainsFunc(w.at.after, func(x *exchange) bool { return !r.played[x] }) {
			continue
		}
		r.held = slices.Delete(r.held, i, i+1)
		if err := r.advance(w); err != nil {
			return err
		}
		i = -1
	}
	return nil
}

// silence answers what was never recorded, if it is only asked to say why a test fails.
func (r *replay) silence(f frame) (frame, bool) {
	name, _ := at(f.args, 0).(string)
	if r.script.lang.typed {
		// A test that fails calls and prints once more what it complains about.
		v, ok := answers(results(f), zero)
		return frame{kind: answer, value: v}, ok && f.op == "op" && hasTag("String Error GoString Format MarshalJSON MarshalText", name)
	}
	if r.script.lang == JavaScript {
		var v any
		n, _, _ := numbered(at(f.args, 0))
		if tag, _ := tagged(r.script.definitions[r.back[n]]); tag == "E" && f.op == "get" { // the runner looks at it
			return frame{kind: answer, value: undefined}, true
		}
		switch name {
		case "has":
			v = false
		case "keys":
			v = r.list()
		case "get":
			v = undefined
		case "toPrimitive":
			v = "?"
		}
		return frame{kind: answer, value: v}, f.op == "op"
	}
	if f.op == "get" {
		name, _ = at(f.args, 1).(string)
	}
	switch name {
	case "__repr__", "__str__", "__format__", "__name__", "__qualname__", "__doc__", "__module__":
		return frame{kind: answer, value: "?"}, f.op == "op" || f.op == "get"
	}
	return frame{}, false
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
			if was, there := r.theirs[n]; there {
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
	if given := r.script.arguments(f); given != nil {
		r.calls = append(r.calls, call{given, inputs(f)})
	}
}

// arguments returns what a call passes, nil for other requests and if it passes nothing.
func (s *script) arguments(f frame) []any {
	var given []any
	first := 1
	switch f.op {
	case "call", "new":
		given, _ = at(f.args, 1).([]any)
	case "method":
		given, _ = at(f.args, 2).([]any)
		first = 2
	case "op":
		given = f.args[min(2, len(f.args)):]
		if list, ok := at(f.args, 2).([]any); ok { // of Go
			given = list
		}
	}
	if named, ok := at(f.args, first+1).(map[string]any); ok && s.lang.named && f.op != "op" {
		given = slices.Clone(given)
		for _, name := range sortedKeys(named) {
			given = append(given, named[name])
		}
	}
	if len(given) == 0 {
		return nil
	}
	return given
}

// steps returns what is played.
func (w *running) steps() []*frame {
	if w.late {
		return w.at.late
	}
	return w.at.steps
}

// advance plays the next step of an exchange.
func (r *replay) advance(w *running) error {
	steps := w.steps()
	if w.step >= len(steps) {
		if w.late || w.at.op == "await" { // nothing comes, or a promise stays open
			return nil
		}
		return r.over(w.asked.number) // the delivery has never answered it
	}
	f := *steps[w.step]
	if c := r.trial.change; c != nil && c.at == w.at && c.step == w.step && !w.late {
		f = c.to
	}
	switch {
	case w.first != nil && !w.late && r.trial.lie.items:
		if f.kind == request && len(w.at.calls()) > 0 {
			f.args = slices.Clone(f.args)
			f.args[1] = w.first.calls()[0].args[1]
		}
	case w.first != nil && !w.late:
		f = r.script.like(w.at, w.step, w.first)
		if last := w.at.steps[w.step]; r.trial.lie.bare && last.kind == answer {
			f.value = last.value
		}
	}
	extra, ok := r.extra(f.extra)
	if !ok {
		return r.over(w.asked.number)
	}
	if f.kind == request {
		args, ok := r.now(f.args)
		if !ok && r.script.lang == JavaScript && (w.late || w.at.op == "await") && len(r.open) > 0 { // nobody is blocked meanwhile
			r.early = append(r.early, w)
			return nil
		}
		if !ok {
			return r.over(w.asked.number)
		}
		r.number++
		r.open[r.number] = w
		list, _ := args.([]any)
		return r.send(frame{kind: request, number: r.number, thread: w.asked.thread, op: f.op, args: list, extra: extra})
	}
	v, ok := r.now(f.value)
	if !ok {
		return r.over(w.asked.number)
	}
	if tag, _ := tagged(v); tag == "p" || r.script.promised[w.at.number()] {
		n, _, _ := numbered(v)
		r.made[n] = w.asked
	}
	r.played[w.at] = true
	if err := r.send(frame{kind: f.kind, number: w.asked.number, value: v, extra: extra}); err != nil {
		return err
	}
	if len(w.at.late) > 0 {
		if err := r.advance(&running{at: w.at, asked: frame{thread: nobody}, late: true}); err != nil {
			return err
		}
	}
	return r.release(false)
}

func (r *replay) over(number int64) error {
	r.strayed = true
	if number == 0 { // nobody waits
		return nil
	}
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
		r.aliases[was], r.theirs[is] = is, was
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

// recordedValue returns what was answered to what is lied about, with the numbers of the recording, nil if that was no answer.
func (r *replay) recordedValue() any {
	if r.recorded == nil || len(r.recorded.steps) == 0 || r.recorded.steps[len(r.recorded.steps)-1].kind != answer {
		return nil
	}
	return r.recorded.steps[len(r.recorded.steps)-1].value
}

// recordedAnswer returns the recorded answer to what is lied about, as it can be sent in this run. It reports false if the
// delivery did not answer, or raised an exception.
func (r *replay) recordedAnswer(asked frame) (any, bool) {
	if r.recorded == nil || len(r.recorded.steps) == 0 || r.recorded.steps[len(r.recorded.steps)-1].kind != answer {
		return nil, false
	}
	r.align(r.recorded.args, asked.args)
	return r.now(r.recorded.steps[len(r.recorded.steps)-1].value)
}
