// Package strength finds what the tests of a criterion prove about a delivery, by running them again without it.
//
// Record keeps what an examiner and the subject say to each other while the tests run. An Examination then answers the
// examiner itself: as recorded, with one answer changed, or with one delivered name that lies. What fails then shows
// what the tests look at. docs/adr/0031 has the reasons and the protocol.
package strength

import (
	"maps"
	"slices"
	"strings"
)

// Limits of an examination.
const (
	mostRuns     = 4000 // of single tests, with a change or a lie
	triesPerName = 12   // changed answers of one name in one test
)

// Run is one recorded run of tests: of all of them, of one file, or of one package.
type Run struct {
	Recording *Recording
	Passed    []string // ids of the tests that passed
	Prefix    string   // of these ids, where the examiner knows only the rest
}

// Examination finds the strength of tests from the recordings of runs in which they passed.
type Examination struct {
	scripts  []*script
	tests    map[string]*examined
	lies     []*lie
	names    map[string]bool               // those that can be lied about
	killed   map[string]map[*lie]*examined // name → a lie that did not pass → the test that showed it
	told     map[string]bool               // name and lie → it was told in a test
	copies   map[string]string             // name → where all its answers are copied from
	besides  map[string]bool               // those of them that also did something else
	guessed  map[string]bool               // names that find what is expected by trying one thing after the other
	raises   map[string]bool               // names whose every answer is an exception
	wholes   map[string]bool               // names of functions that a module has under two, in all tests
	suited   map[attempt]bool              // of lies about names
	runs     int
	progress int  // what has been learned in rounds
	short    bool // the time of a process was not enough
	slow     int  // processes in whose time no test began
}

// examined is one test of an examination.
type examined struct {
	id      string
	script  *script
	index   int
	parts   []*examined // tests within it
	played  bool        // the recording was played unchanged
	repeats bool        // and the test passed
	done    bool
	alone   bool // each trial needs a process of its own
	dirty   bool // a trial was made since it last passed unchanged in the same process
	late    int  // how often a run without a change took too long
	times   int  // how often it has run in rounds
	groups  []*group
	liars   []string         // names to lie about
	current int              // next of groups, then of liars
	lie     int              // next of the lies about a name
	skip    map[attempt]bool // what ended the process
	kills   []attempt        // lies that it has shown to be some
}

// attempt names a trial.
type attempt struct {
	change *change
	lie    *lie
	about  string
}

// group has the answers to one name in one test that can show the same.
type group struct {
	name    string
	kind    kind
	about   string // the name whose answers it compares
	changes []change
	next    int
	used    bool // a changed answer made the test fail
	guess   bool // the answers were first handed to functions of the tests, one after the other
}

// New starts an examination of the tests that passed.
func New(l *Language, recorded ...Run) *Examination {
	x := &Examination{tests: map[string]*examined{}, names: map[string]bool{}, killed: map[string]map[*lie]*examined{}, told: map[string]bool{}, raises: map[string]bool{}, wholes: map[string]bool{}, suited: map[attempt]bool{}}
	owners := map[string]string{}
	var thrown, errs []any
	for _, r := range recorded {
		s := r.Recording.understand(l, owners)
		x.scripts = append(x.scripts, s)
		thrown = append(thrown, s.raised...)
		errs = append(errs, s.errors...)
		for name, always := range s.raises {
			if before, there := x.raises[name]; !there || before {
				x.raises[name] = always
			}
		}
	}
	x.lies = l.table(thrown[:min(len(thrown), mostErrors)], errs[:min(len(errs), mostErrors)])
	x.copies, x.besides = l.repeats(x.scripts)
	for _, s := range x.scripts {
		maps.Copy(x.copies, s.same)
	}
	for i, r := range recorded {
		s := x.scripts[i]
		at := map[int]*examined{}
		for index, id := range s.tests {
			if index > 0 && slices.Contains(r.Passed, r.Prefix+id) {
				at[index] = x.prepare(s, index, r.Prefix+id)
				x.tests[r.Prefix+id] = at[index]
			}
		}
		for index, around := range s.above {
			if at[index] != nil && at[around] != nil {
				at[around].parts = append(at[around].parts, at[index])
			}
		}
	}
	return x
}

// Broken reports whether no recording can be played, so that nothing can be found.
func (x *Examination) Broken() bool {
	return !slices.ContainsFunc(x.scripts, func(s *script) bool { return s.broken == nil })
}

// prepare lists what can be tried with a test.
func (x *Examination) prepare(s *script, index int, id string) *examined {
	t := &examined{id: id, script: s, index: index, skip: map[attempt]bool{}}
	type of struct {
		name string
		kind kind
	}
	found := map[of][]*exchange{}
	var order []of
	copies := map[string]bool{}
	for _, e := range s.asked[index] {
		if top := root(e.name) + "()"; e.op == "call" && e.name == top && !slices.Contains(t.liars, top) {
			t.liars = append(t.liars, top)
		}
		if same := s.copied(e); same != nil && !copies[e.name] {
			copies[e.name] = true
			t.groups = append(t.groups, &group{name: e.name, kind: operator, changes: same})
		}
		if tried := e.guesses(s); tried != nil {
			t.groups = append(t.groups, &group{name: e.name, kind: operator, guess: true, changes: tried})
		}
		k := of{e.name, e.kind}
		if k.kind == structure || len(e.changes(s)) == 0 {
			continue
		}
		if found[k] == nil {
			order = append(order, k)
		}
		found[k] = append(found[k], e)
	}
	for _, k := range order {
		g := &group{name: k.name, kind: k.kind, about: found[k][0].about}
		some := slices.Clone(spread(found[k], 4))
		some[len(some)-1] = found[k][len(found[k])-1] // others may only lead to the last one
		for _, e := range some {
			g.changes = append(g.changes, e.changes(s)...)
		}
		// Those of different exchanges take turns, and the first of each comes first.
		g.changes = spread(g.changes, triesPerName)
		t.groups = append(t.groups, g)
		if k.kind.judged() && !slices.Contains(t.liars, k.name) {
			t.liars = append(t.liars, k.name)
		}
	}
	for _, name := range slices.Clone(t.liars) {
		if whole := s.wholes[name]; whole != "" && !slices.Contains(t.liars, whole) {
			t.liars = append(t.liars, whole)
			x.wholes[whole] = true
		}
		for _, pattern := range joint(name) {
			if !slices.Contains(t.liars, pattern) {
				t.liars = append(t.liars, pattern)
			}
		}
	}
	t.liars = slices.DeleteFunc(t.liars, s.singular)
	for _, name := range t.liars {
		x.names[name] = true
	}
	return t
}

// singular reports whether only one name fits a pattern of names, and all its answers are data. Lies about the pattern are
// those about the name then.
func (s *script) singular(pattern string) bool {
	end, joint := strings.CutPrefix(pattern, "*")
	if !joint || s.lang == Python {
		return false
	}
	only := ""
	for _, x := range s.exchanges {
		if !strings.HasSuffix(x.name, end) || x.kind == structure || s.promises(x) {
			continue
		}
		if only != "" && only != x.name || !s.evident(x) {
			return false
		}
		only = x.name
	}
	return true
}

// alive reports whether a lie about a name has passed every test so far. Only some lies are told of many names.
func (x *Examination) alive(name string, l *lie) bool {
	return x.names[name] && x.killed[name][l] == nil && (l.joint || !strings.HasPrefix(name, "*")) && (!l.bare || x.besides[name]) &&
		(!l.group || name == "*") && (!x.wholes[name] || l.again)
}

// next returns what to try next with a test, false if there is nothing more.
func (x *Examination) next(t *examined) (trial, bool) {
	if t == nil || t.done || x.runs >= mostRuns || t.script.broken != nil || t.script.unfit[t.index] != "" {
		return trial{}, false
	}
	if !t.played {
		return trial{}, true
	}
	if !t.repeats {
		return trial{}, false
	}
	for ; t.current < len(t.groups); t.current++ {
		for g := t.groups[t.current]; !g.used && g.next < len(g.changes); g.next++ {
			if c := &g.changes[g.next]; !t.skip[attempt{change: c}] {
				return trial{change: c}, true
			}
		}
	}
	for ; t.current < len(t.groups)+len(t.liars); t.current++ {
		name := t.liars[t.current-len(t.groups)]
		for ; t.lie < len(x.lies) && t.matters(name); t.lie++ {
			if l := x.lies[t.lie]; x.alive(name, l) && x.suits(name, l) && !t.skip[attempt{lie: l, about: name}] {
				return trial{lie: l, about: name}, true
			}
		}
		t.lie = 0
	}
	t.done = true
	return trial{}, false
}

// suits reports whether there is something for a lie about a name to do.
func (x *Examination) suits(name string, l *lie) bool {
	of := attempt{lie: l, about: name}
	suits, known := x.suited[of]
	if known || l.needs == nil {
		return suits || l.needs == nil
	}
	end, joint := strings.CutPrefix(name, "*")
	for _, s := range x.scripts {
		suits = suits || slices.ContainsFunc(s.exchanges, func(e *exchange) bool {
			if s.wholes[e.name] == name {
				whole := *e
				whole.name = name
				return l.needs(s, &whole)
			}
			return (e.name == name || joint && strings.HasSuffix(e.name, end)) && l.needs(s, e)
		})
	}
	x.suited[of] = suits
	return suits
}

// matters reports whether a test looks at an answer of a name: a lie about others shows nothing.
func (t *examined) matters(name string) bool {
	return slices.ContainsFunc(t.groups, func(g *group) bool {
		if !g.used || !g.kind.judged() {
			return false
		}
		if end, joint := strings.CutPrefix(name, "*"); joint {
			return strings.HasSuffix(g.name, end)
		}
		return g.name == name || root(g.name)+"()" == name || t.script.wholes[g.name] == name
	})
}

// learn takes how a test has ended in a trial. What strayed shows nothing; a lie does not survive that.
func (x *Examination) learn(t *examined, tried trial, passed, strayed, told bool) {
	switch {
	case tried.change != nil:
		x.runs++
		g := t.groups[t.current]
		g.next++
		// A claim that changes what is asked next has been believed.
		if !passed && (!strayed || g.kind != plain && g.kind != shown) {
			g.used = true
		}
	case tried.lie != nil:
		x.runs++
		t.lie++
		x.told[tried.about+"\x00"+tried.lie.says] = x.told[tried.about+"\x00"+tried.lie.says] || told
		if !passed || strayed {
			x.kill(t, tried)
		}
	default:
		t.played, t.repeats = true, passed && !strayed
	}
}

// kill notes that a lie does not pass.
func (x *Examination) kill(t *examined, tried trial) {
	of := x.killed[tried.about]
	if of == nil {
		of = map[*lie]*examined{}
		x.killed[tried.about] = of
	}
	if of[tried.lie] == nil {
		of[tried.lie] = t
		t.kills = append(t.kills, attempt{lie: tried.lie, about: tried.about})
	}
}

// snapshot returns a way to forget what has been found by a test since.
func (x *Examination) snapshot(t *examined) func() {
	before := *t
	groups := make([]group, len(t.groups))
	for i, g := range t.groups {
		groups[i] = *g
	}
	return func() {
		for _, k := range t.kills[len(before.kills):] {
			delete(x.killed[k.about], k.lie)
		}
		alone, skip, times, late := t.alone, t.skip, t.times, t.late
		*t = before
		t.alone, t.skip, t.times, t.late = alone, skip, times, late
		for i, g := range groups {
			*t.groups[i] = g
		}
	}
}

// batch is a series of trials of one test in one process of the examiner's.
type batch struct {
	test     *examined
	from     state // before each trial
	busy     bool  // a trial is under way
	checking bool  // the trial is the last one, which changes nothing
	undo     func()
}

// begin returns a batch, with a way to forget what it finds: if the test does not pass unchanged at the end of the batch,
// the trials have influenced one another.
func (x *Examination) begin(t *examined, from state) batch {
	return batch{test: t, from: from, undo: x.snapshot(t)}
}

// tardy notes that a run of a test without a change took too long. It is repeated once, with more time.
func (x *Examination) tardy(t *examined) {
	t.late++
	if t.late == 1 {
		x.progress++
	} else {
		t.played = true
	}
}

// more returns whether a batch goes on, after it has begun the next trial.
func (x *Examination) more(b *batch, r *replay) bool {
	if b.test == nil || b.checking || b.test.alone {
		return false
	}
	tried, ok := x.next(b.test)
	b.checking, b.busy = !ok, true
	r.begin(b.from, tried)
	return true
}

// Serve answers an examiner that runs the tests once more, until it closes the connection. Before each run
// of a test the examiner asks for permission. The answer is the number of milliseconds that the run may take; 0 forbids it.
func (x *Examination) Serve(by Examiner) error {
	s := x.scripts[0]
	r := newReplay(s, by.Conn)
	var t *examined
	var b batch
	begun := 0
	defer func() {
		if b.busy { // nobody knows whether the trials have influenced one another
			b.undo()
		}
		x.short = x.Left(0) && by.Short()
	}()
	return r.converse(func(n notice) (value any, over bool) {
		again := false
		switch n.op {
		case opTest:
			t = x.tests[n.id]
			if i := slices.Index(s.tests[begun+1:], n.id); i >= 0 {
				begun += i + 1
			}
			r.test, r.trial = begun, trial{}
		case opAgain:
			var tried trial
			if tried, again = x.next(t); again {
				b = x.begin(t, r.state)
				b.busy, r.gone = true, nil
				r.begin(b.from, tried)
			}
		case opDone:
			b.busy = false
			switch {
			case b.test == nil:
			case !b.checking:
				x.learn(b.test, r.trial, n.passed, r.strayed || n.unclean, r.told)
			case !n.passed || r.strayed || n.unclean:
				b.undo()
				b.test.alone = true
			}
		case opMore:
			again = x.more(&b, r)
		case opDied:
			switch {
			case !b.busy:
			case n.late && !b.checking && r.trial == (trial{}):
				b.undo()
				x.tardy(b.test)
			case !b.checking:
				x.learn(b.test, r.trial, false, true, r.told)
			}
			b.busy, r.gone = false, nil
			r.begin(b.from, trial{})
		}
		patience := literal(0)
		if again {
			patience = literal(s.patience(t.index, by.Patience, t.late > 0).Milliseconds())
		}
		return patience, false
	}, r.take)
}
