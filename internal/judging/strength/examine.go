// Package strength finds what the tests of a criterion prove about a delivery, by running them again without it.
//
// Record keeps what an examiner and the subject say to each other while the tests run. An Examination then answers the
// examiner itself: as recorded, with one answer changed, or with one delivered name that lies. What fails then shows
// what the tests look at. docs/adr/0031 has the reasons and the protocol.
package strength

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"guild"
)

// Limits of an examination.
const (
	mostRuns     = 4000 // of single tests
	triesPerName = 12   // changed answers of one name in one test
)

// Examination finds the strength of tests from the recording of a run in which they passed.
type Examination struct {
	script *script
	tests  map[string]*examined
	lies   []*lie
	alive  map[string][]*lie // name → the lies that have passed every test so far
	told   map[string]bool   // name and lie → it was told in a test
	copies map[string]string // name → where all its answers are copied from
	runs   int
}

// examined is one test of an examination.
type examined struct {
	index   int
	played  bool // the recording was played unchanged
	repeats bool // and the test passed
	done    bool
	alone   bool // each trial needs a process of its own
	groups  []*group
	liars   []string // names to lie about
	current int      // next of groups, then of liars
	lie     int      // next of the lies about a name
}

// group has the answers to one name in one test that can show the same.
type group struct {
	name    string
	kind    kind
	changes []change
	next    int
	used    bool // a changed answer made the test fail
}

// New starts an examination of the tests that passed, by their ids.
func New(r *Recording, passed []string) *Examination {
	x := &Examination{script: r.understand(), tests: map[string]*examined{}, alive: map[string][]*lie{}, told: map[string]bool{}}
	x.lies, x.copies = lies(x.script), x.script.repeats()
	for i, id := range x.script.tests {
		if i > 0 && slices.Contains(passed, id) {
			x.tests[id] = x.prepare(i)
		}
	}
	return x
}

// Broken reports whether the recording cannot be played, so that nothing can be found.
func (x *Examination) Broken() bool { return x.script.broken != nil }

// prepare lists what can be tried with a test.
func (x *Examination) prepare(index int) *examined {
	t := &examined{index: index}
	type of struct {
		name string
		kind kind
	}
	found := map[of][]*exchange{}
	var order []of
	copies := map[string]bool{}
	for _, e := range x.script.exchanges {
		if e.test != index {
			continue
		}
		if top := root(e.name) + "()"; e.op == "call" && e.name == top && !slices.Contains(t.liars, top) {
			t.liars = append(t.liars, top)
		}
		if same := x.script.copied(e); same != nil && !copies[e.name] {
			copies[e.name] = true
			t.groups = append(t.groups, &group{name: e.name, kind: operator, changes: same})
		}
		k := of{e.name, e.kind}
		if k.kind == structure || len(e.changes()) == 0 {
			continue
		}
		if found[k] == nil {
			order = append(order, k)
		}
		found[k] = append(found[k], e)
	}
	for _, k := range order {
		g := &group{name: k.name, kind: k.kind}
		for _, e := range spread(found[k], 4) {
			g.changes = append(g.changes, e.changes()...)
		}
		// Those of different exchanges take turns, and the first of each comes first.
		g.changes = spread(g.changes, triesPerName)
		t.groups = append(t.groups, g)
		if (k.kind == plain || k.kind == predicate) && !slices.Contains(t.liars, k.name) {
			t.liars = append(t.liars, k.name)
		}
	}
	for _, name := range slices.Clone(t.liars) {
		for _, pattern := range joint(name) {
			if !slices.Contains(t.liars, pattern) {
				t.liars = append(t.liars, pattern)
			}
		}
	}
	for _, name := range t.liars {
		if _, there := x.alive[name]; !there {
			x.alive[name] = x.lies
			if strings.HasPrefix(name, "*") {
				x.alive[name] = slices.DeleteFunc(slices.Clone(x.lies), func(l *lie) bool { return !l.joint })
			}
		}
	}
	return t
}

// next returns what to try with a test, false if there is nothing more.
func (x *Examination) next(t *examined) (trial, bool) {
	if t == nil || t.done || x.runs >= mostRuns || x.script.broken != nil {
		return trial{}, false
	}
	if !t.played {
		return trial{}, true
	}
	if !t.repeats {
		return trial{}, false
	}
	for ; t.current < len(t.groups); t.current++ {
		g := t.groups[t.current]
		if !g.used && g.next < len(g.changes) {
			g.next++
			return trial{change: &g.changes[g.next-1]}, true
		}
	}
	for ; t.current < len(t.groups)+len(t.liars); t.current++ {
		name := t.liars[t.current-len(t.groups)]
		for t.lie < len(x.lies) && t.matters(name) {
			l := x.lies[t.lie]
			t.lie++
			if slices.Contains(x.alive[name], l) {
				return trial{lie: l, about: name}, true
			}
		}
		t.lie = 0
	}
	t.done = true
	return trial{}, false
}

// matters reports whether a test looks at an answer of a name: a lie about others shows nothing.
func (t *examined) matters(name string) bool {
	return slices.ContainsFunc(t.groups, func(g *group) bool {
		if !g.used || g.kind != plain && g.kind != predicate {
			return false
		}
		if end, joint := strings.CutPrefix(name, "*"); joint {
			return strings.HasSuffix(g.name, end)
		}
		return g.name == name || root(g.name)+"()" == name
	})
}

// learn takes how a test has ended in a trial. What strayed shows nothing; a lie does not survive that.
func (x *Examination) learn(t *examined, tried trial, passed, strayed, told bool) {
	x.runs++
	switch {
	case tried.change != nil:
		g := t.groups[t.current]
		// A claim that changes what is asked next has been believed.
		if !passed && (!strayed || g.kind == operator || g.kind == predicate) {
			g.used = true
		}
	case tried.lie != nil:
		x.told[tried.about+"\x00"+tried.lie.says] = x.told[tried.about+"\x00"+tried.lie.says] || told
		if !passed || strayed {
			x.alive[tried.about] = slices.DeleteFunc(slices.Clone(x.alive[tried.about]), func(l *lie) bool { return l == tried.lie })
		}
	default:
		t.played, t.repeats = true, passed && !strayed
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
	before, alive, told := *t, maps.Clone(x.alive), maps.Clone(x.told)
	groups := make([]group, len(t.groups))
	for i, g := range t.groups {
		groups[i] = *g
	}
	return batch{test: t, from: from, undo: func() {
		*t, x.alive, x.told = before, alive, told
		for i, g := range groups {
			*t.groups[i] = g
		}
		t.alone = true
	}}
}

// more returns whether a batch goes on, after it has begun the next trial.
func (x *Examination) more(b *batch, r *replay) bool {
	if b.checking || b.test.alone {
		return false
	}
	tried, ok := x.next(b.test)
	b.checking, b.busy = !ok, true
	r.begin(b.from, tried)
	return true
}

// Serve answers an examiner that runs the tests once more, until it closes the connection. Before each test the examiner
// asks whether to run it in a process of its own, and that process asks whether to run it again.
func (x *Examination) Serve(conn io.ReadWriter) error {
	r := newReplay(x.script, conn)
	var t *examined
	var b batch
	begun := 0
	for {
		raw, err := readFrame(conn)
		if err != nil {
			return nil // the examiner has ended, however that came; its own report says so
		}
		f, err := parse(raw)
		if err != nil {
			return fmt.Errorf("the examiner: %w", err)
		}
		id, _ := at(f.args, 0).(string)
		value := false
		switch {
		case f.kind != request:
			err = r.take(f)
		case f.op == opTest:
			t = x.tests[id]
			if i := slices.Index(x.script.tests[begun+1:], id); i >= 0 {
				begun += i + 1
			}
			r.test, r.trial = begun, trial{}
		case f.op == opAgain:
			var tried trial
			if tried, value = x.next(t); value {
				b = x.begin(t, r.state)
				b.busy, r.gone = true, nil
				r.begin(b.from, tried)
			}
		case f.op == opDone:
			passed, _ := at(f.args, 1).(bool)
			clean, _ := at(f.args, 2).(bool)
			b.busy = false
			switch {
			case !b.checking:
				x.learn(t, r.trial, passed, r.strayed || !clean, r.told)
			case !passed || r.strayed || !clean:
				b.undo()
			}
		case f.op == opMore:
			value = x.more(&b, r)
		case f.op == opDied:
			if b.busy && !b.checking {
				x.learn(t, r.trial, false, true, r.told)
			}
			b.busy, r.gone = false, nil
			r.begin(b.from, trial{})
		default:
			err = r.take(f)
		}
		if f.kind == request && (f.op == opTest || f.op == opAgain || f.op == opDone || f.op == opMore || f.op == opDied) {
			err = r.reply(f, frame{kind: answer, value: value})
		}
		if err != nil {
			return nil
		}
	}
}

// Proof says what a test rests on.
type Proof struct {
	Strength guild.Strength
	Because  string // why it is not strong

	repeats       bool     // it passes when it is answered as recorded
	looked, shows []string // names of modules whose answers it looks at, and that it shows to be right
}

// Result has the proof of each test, and the names that a lie can answer for.
type Result struct {
	Tests    map[string]Proof
	Unproven []string // names that a lie can answer for, each with the lie
	broken   error
}

// Result returns what was found.
func (x *Examination) Result() Result {
	res := Result{Tests: map[string]Proof{}, broken: x.script.broken}
	for _, name := range slices.Sorted(maps.Keys(x.alive)) {
		if says, ok := x.unproven(name); ok && x.looks(name) {
			res.Unproven = append(res.Unproven, name+": "+says)
		}
	}
	for id, t := range x.tests {
		res.Tests[id] = x.prove(t)
	}
	return res
}

// left returns the lies that pass for a name.
func (x *Examination) left(name string) []*lie {
	return slices.DeleteFunc(slices.Clone(x.alive[name]), func(l *lie) bool { return !x.told[name+"\x00"+l.says] })
}

// unproven returns the first lie that passes for a name, if there is one.
func (x *Examination) unproven(name string) (says string, ok bool) {
	if left := x.left(name); len(left) > 0 {
		return left[0].says, true
	}
	if says, ok = x.copies[name]; ok {
		return says, true
	}
	for _, pattern := range joint(name) {
		if left := x.left(pattern); len(left) > 0 {
			return left[0].says + ", as all such names", true
		}
	}
	return "", false
}

// joint returns the patterns of names that lie together: all, and those that end in the same way.
func joint(name string) []string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return []string{"*", "*" + name[i:]}
	}
	return []string{"*"}
}

// keeps reports whether a name is an attribute of an object that was made from a name of a module, and can only be
// answered for by repeating what the object was made with. There is nothing to compute in it, so nothing to show.
func (x *Examination) keeps(name string) bool {
	attribute, ok := strings.CutPrefix(name, root(name)+"().")
	left := x.left(name)
	_, copied := x.copies[name]
	return ok && !strings.ContainsAny(attribute, ".(") && (copied || len(left) > 0) &&
		!slices.ContainsFunc(left, func(l *lie) bool { return !l.keeps })
}

// looks reports whether a test looks at an answer of a name, or of what it returned.
func (x *Examination) looks(name string) bool {
	for _, t := range x.tests {
		for _, g := range t.groups {
			if g.used && (g.name == name || strings.HasPrefix(g.name, name) && strings.HasSuffix(name, "()")) {
				return true
			}
		}
	}
	return false
}

// prove decides about one test.
func (x *Examination) prove(t *examined) Proof {
	switch {
	case x.script.broken != nil:
		return Proof{Strength: guild.Weak, Because: x.script.broken.Error()}
	case !t.played && x.runs < mostRuns:
		return Proof{Strength: guild.Weak, Because: "it could not be run again"}
	case !t.played:
		return Proof{Strength: guild.Weak, Because: fmt.Sprintf("not examined: %d runs were not enough", mostRuns)}
	case !t.repeats:
		return Proof{Strength: guild.Weak, Because: "it does not end in the same way when the same answers are given again"}
	}
	p := Proof{Strength: guild.Strong, repeats: true}
	var lied, claimed, kept string
	for _, g := range t.groups {
		if !g.used {
			continue
		}
		top := root(g.name)
		if g.kind == plain && x.keeps(g.name) || x.script.raises[g.name] {
			kept = g.name
			continue
		}
		p.looked = append(p.looked, top)
		unproven := func(name string) bool {
			_, ok := x.unproven(name)
			return ok
		}
		switch {
		case g.kind == operator || g.kind == shown:
			claimed = g.name
		case unproven(top+"()") || unproven(top):
			lied = top
		case g.kind == predicate:
			if unproven(g.name) {
				claimed = g.name
			}
		case !unproven(g.name):
			p.shows = append(p.shows, top)
		}
	}
	p.looked, p.shows = compact(p.looked), compact(p.shows)
	switch {
	case len(p.looked) == 0 && kept != "":
		p.Strength, p.Because = guild.Weak, "it only reads back what it has passed, or expects an exception whatever it passes: "+kept
	case len(p.looked) == 0:
		p.Strength, p.Because = guild.Weak, "it passes whatever the delivery answers"
	case lied != "" && len(p.shows) == 0:
		p.Strength, p.Because = guild.Weak, fmt.Sprintf("%s can lie: %s", lied, x.excuse(lied))
	case len(p.shows) == 0 && claimed != "":
		p.Strength, p.Because = guild.Weak, "the delivery decides it: "+claimed
	case len(p.shows) == 0:
		p.Strength, p.Because = guild.Weak, "a lie passes for every answer that it looks at"
	case lied != "":
		p.Strength, p.Because = guild.Mixed, fmt.Sprintf("%s can lie: %s", lied, x.excuse(lied))
	case claimed != "":
		p.Strength, p.Because = guild.Mixed, "the delivery decides a part of it: "+claimed
	}
	return p
}

// excuse returns the first lie that passes for a name of a module.
func (x *Examination) excuse(top string) string {
	for _, name := range []string{top + "()", top} {
		if says, ok := x.unproven(name); ok {
			return says
		}
	}
	return ""
}

func compact(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// With returns the result with that of a run that shows more of some tests, such as one in which the examiner compares
// objects itself. A test that does not pass there, or not twice, keeps its proof.
func (r Result) With(more Result) Result {
	better := Result{Tests: maps.Clone(r.Tests), broken: r.broken}
	for id, p := range more.Tests {
		if p.repeats && p.rank() >= r.Tests[id].rank() {
			better.Tests[id] = p
		}
	}
	for _, name := range r.Unproven {
		if slices.Contains(more.Unproven, name) {
			better.Unproven = append(better.Unproven, name)
		}
	}
	return better
}

// rank orders proofs by strength.
func (p Proof) rank() int {
	return slices.Index([]guild.Strength{guild.Weak, guild.Mixed, guild.Strong}, p.Strength)
}

// Carried returns the strength of a criterion from those of its tests that passed and count: strong if each delivered
// name that they look at is shown to be right by a strong one, mixed if some are.
func (r Result) Carried(ids []string) (guild.Strength, string) {
	var shown, looked []string
	strong, mixed := 0, 0
	for _, id := range ids {
		p := r.Tests[id]
		looked = append(looked, p.looked...)
		switch p.Strength {
		case guild.Strong:
			strong++
			shown = append(shown, p.shows...)
		case guild.Mixed:
			mixed++
		}
	}
	looked = slices.DeleteFunc(compact(looked), func(name string) bool { return slices.Contains(shown, name) })
	counts := fmt.Sprintf("%d of %d tests are strong", strong, len(ids))
	switch {
	case strong > 0 && len(looked) == 0:
		return guild.Strong, counts
	case strong > 0:
		return guild.Mixed, counts + ", and none of them shows " + strings.Join(looked, ", ")
	case mixed > 0:
		return guild.Mixed, counts
	case r.broken != nil:
		return guild.Weak, r.broken.Error()
	default:
		return guild.Weak, counts
	}
}
