package strength

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"guild"
)

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
	res := Result{Tests: map[string]Proof{}}
	for _, s := range x.scripts {
		res.broken = cmp.Or(res.broken, s.broken)
	}
	for _, name := range slices.Sorted(maps.Keys(x.names)) {
		if says, ok := x.unproven(name); ok && x.looks(name) {
			res.Unproven = append(res.Unproven, display(name)+": "+says)
		}
	}
	x.guessed = x.guesses()
	for id, t := range x.tests {
		res.Tests[id] = x.prove(t)
	}
	return res
}

// passing returns the lies that pass for a name.
func (x *Examination) passing(name string) []*lie {
	return slices.DeleteFunc(slices.Clone(x.lies), func(l *lie) bool { return !x.alive(name, l) || !x.told[name+"\x00"+l.says] })
}

// unproven returns the first lie that passes for a name, if there is one.
func (x *Examination) unproven(name string) (says string, ok bool) {
	left := x.passing(name)
	if says, ok = x.copies[name]; ok && (!x.besides[name] || slices.ContainsFunc(left, func(l *lie) bool { return l.bare })) {
		return says, true
	}
	if len(left) > 0 {
		return left[0].says, true
	}
	for _, s := range x.scripts {
		if whole := s.wholes[name]; whole != "" && len(x.passing(whole)) > 0 {
			return x.passing(whole)[0].says, true
		}
	}
	for _, pattern := range joint(name) {
		if left := x.passing(pattern); len(left) > 0 {
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
	left := x.passing(name)
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

// compares reports whether what is asked with is an object of the delivery's, which it can tell from others.
func (g *group) compares() (found bool) {
	for _, c := range g.changes {
		found = found || withObject(c.at.args)
	}
	return found
}

// all returns the groups of a test and of the tests within it.
func (t *examined) all() []*group {
	groups := slices.Clone(t.groups)
	for _, p := range t.parts {
		groups = append(groups, p.all()...)
	}
	return groups
}

// unfinished returns why nothing is known of a test or of one within it, "" if all of it was tried.
func (x *Examination) unfinished(t *examined) string {
	why := t.script.unfit[t.index]
	switch {
	case t.script.broken != nil:
		why = t.script.broken.Error()
	case why != "":
		why = "not examined: " + why
	case t.late > 1 && !t.repeats:
		why = "not examined: the time was not enough, also not when it was repeated with more"
	case t.played && !t.repeats:
		why = "it does not end in the same way when the same answers are given again"
	case x.runs >= mostRuns && !t.done:
		why = fmt.Sprintf("not examined: %d runs were not enough", mostRuns)
	case !t.played && x.short:
		why = "not examined: the time was not enough"
	case !t.played:
		why = "it could not be run again"
	case t.dirty || !t.done:
		why = "not examined: the time was not enough"
	}
	for _, p := range t.parts {
		why = cmp.Or(why, x.unfinished(p))
	}
	return why
}

// prove decides about one test.
func (x *Examination) prove(t *examined) Proof {
	if why := x.unfinished(t); why != "" {
		return Proof{Strength: guild.Weak, Because: why, repeats: t.repeats}
	}
	p := Proof{Strength: guild.Strong, repeats: true}
	var lied, claimed, kept string
	for _, g := range t.all() {
		if !g.used {
			continue
		}
		top := root(g.name)
		if g.kind == plain && x.keeps(g.name) || x.raises[g.name] {
			kept = display(g.name)
			continue
		}
		p.looked = append(p.looked, top)
		if g.about != "" {
			p.looked = append(p.looked, root(g.about))
		}
		unproven := func(name string) bool {
			_, ok := x.unproven(name)
			return ok
		}
		if alike := t.script.alike(g); alike != "" {
			lied = alike
		}
		switch {
		case g.kind == operator || g.kind == shown || x.guessed[g.name]:
			claimed = display(g.name)
		case unproven(top+"()") && !x.raises[top+"()"] || unproven(top):
			lied = top
		case (g.kind == predicate || g.kind == listing) && unproven(g.name):
			claimed = display(g.name)
		case g.kind == predicate && (t.script.lang.named || !t.script.lang.typed && g.compares()): // an object of a language whose types say less
		case !unproven(g.name):
			p.shows = append(p.shows, top)
		}
	}
	p.looked, p.shows = compact(p.looked), compact(p.shows)
	lies := ""
	if lied != "" {
		lies = fmt.Sprintf("%s can lie: %s", display(lied), x.excuse(lied))
	}
	switch {
	case len(p.looked) == 0 && kept != "":
		p.Strength, p.Because = guild.Weak, "it only reads back what it has passed, or expects an exception whatever it passes: "+kept
	case len(p.looked) == 0 && len(t.all()) == 0 && t.script.lang == Python:
		p.Strength, p.Because = guild.Weak, "it asks for nothing that can be changed; what was asked before it began is not tried again"
	case len(p.looked) == 0:
		p.Strength, p.Because = guild.Weak, "it passes whatever the delivery answers"
	case lied != "" && len(p.shows) == 0:
		p.Strength, p.Because = guild.Weak, lies
	case len(p.shows) == 0 && claimed != "":
		p.Strength, p.Because = guild.Weak, "the delivery decides it: "+claimed
	case len(p.shows) == 0:
		p.Strength, p.Because = guild.Weak, "a lie passes for every answer that it looks at"
	case lied != "":
		p.Strength, p.Because = guild.Mixed, lies
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
		return guild.Mixed, counts + ", and none of them shows " + display(strings.Join(looked, ", "))
	case mixed > 0:
		return guild.Mixed, counts
	case r.broken != nil:
		return guild.Weak, r.broken.Error()
	default:
		return guild.Weak, counts
	}
}
