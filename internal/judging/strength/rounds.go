package strength

import (
	"math/bits"
	"slices"
	"time"
)

// Python's examiner forks for each test. Others run their tests in rounds, some of them several in one process. In each
// run of a test at most one thing is tried with it, while other things are tried with other tests. Two rules keep that
// from showing what is not so:
//
// A test also runs unchanged, in some of the rounds in which others are changed and after its own trials. If it does not
// pass then, it depends on what ran before. All that was found by it is forgotten, and from then on each trial of it has
// a round of its own, in which the other tests are answered as recorded.
//
// What was found in a process that ends too early counts only up to the last time that the test passed unchanged.

// rounds is the examination of the tests of one recording in one process of the examiner's.
type rounds struct {
	x         *Examination
	by        Examiner
	r         *replay
	tests     []*examined // those that can be examined, in order
	running   []underway  // those that have begun, the ones around others first
	clean     map[*examined]func()
	renews    bool // the examiner evaluates the tests anew for each round
	disturbed bool // something was tried since the process, or the round of one that renews, began
	spent     bool // a trial that needs a round of its own was made in it
	began     bool // a test has begun in it
	ran       bool // a test has begun in the process
}

// underway is a test that has begun.
type underway struct {
	test          *examined // nil if its strength is not to be found
	index         int
	tried         trial
	strayed, told bool
}

// Left reports whether there is more to try with the tests of a run.
func (x *Examination) Left(run int) bool {
	return slices.ContainsFunc(x.of(run), x.left)
}

// Progress counts what has been learned. It grows with each process of an examiner that is of use.
func (x *Examination) Progress() int { return x.progress }

// left reports whether there is more to try with a test, or to check.
func (x *Examination) left(t *examined) bool {
	_, more := x.next(t)
	return more || t.dirty
}

// of returns the tests of a run in order.
func (x *Examination) of(run int) []*examined {
	var all []*examined
	for _, t := range x.tests {
		if t.script == x.scripts[run] {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *examined) int { return a.index - b.index })
	return all
}

// Rounds answers an examiner that runs the tests of a run in rounds, until it closes the connection or nothing is left to
// try in its process. The examiner says when a test begins and how it has ended, and is told then whether it shall run
// the test again. Before it evaluates all tests again, it asks whether it shall.
func (x *Examination) Rounds(run int, by Examiner) error {
	in := &rounds{x: x, by: by, r: newReplay(x.scripts[run], by.Conn), tests: x.of(run), clean: map[*examined]func(){}}
	defer in.end()
	return in.r.converse(func(n notice) (value any, over bool) {
		again := false
		switch n.op {
		case opTest:
			over = !in.begin(n.id)
		case opDone:
			again, over = in.done(n.id, n.passed, n.unclean)
		case opMore:
			again = in.more()
		}
		by.Gives(in.patience())
		return again, over
	}, in.r.take)
}

// patience returns how long the examiner may be silent about its tests.
func (in *rounds) patience() time.Duration {
	index, late := -1, false
	if n := len(in.running); n > 0 {
		u := in.running[n-1]
		index, late = u.index, u.test != nil && u.test.late > 0
	}
	return in.r.script.patience(index, in.by.Patience, late)
}

// more begins a round in which all is evaluated anew, if there is something to try.
func (in *rounds) more() bool {
	if in.renews && !in.began {
		return false // nor would one in another round
	}
	in.renews, in.began, in.spent, in.disturbed = true, false, false, false
	in.running = nil
	in.r.reset()
	in.r.trial, in.r.strayed = trial{}, false
	return slices.ContainsFunc(in.tests, in.x.left)
}

// begin begins a run of a test. It reports false if nothing is left to try in this process.
func (in *rounds) begin(id string) bool {
	if !slices.ContainsFunc(in.tests, in.fit) {
		return false
	}
	in.pause()
	in.began, in.ran = true, true
	s := in.r.script
	u := underway{index: -1}
	if index, there := s.index[id]; there {
		u.index = index
		in.r.again(index)
		if i := slices.IndexFunc(in.tests, func(t *examined) bool { return t.index == index }); i >= 0 {
			u.test = in.tests[i]
			u.tried = in.choose(u.test)
		}
	}
	in.running = append(in.running, u)
	in.resume()
	return true
}

// fit reports whether there is more to try with a test in this process. A test that needs a round of its own has none
// where something was tried before, unless the examiner evaluates all anew.
func (in *rounds) fit(t *examined) bool {
	return in.x.left(t) && (!t.alone || in.renews || !in.disturbed || in.spent)
}

// pause keeps what was seen of the running test, and resume goes on with it.
func (in *rounds) pause() {
	if n := len(in.running); n > 0 {
		u := &in.running[n-1]
		u.strayed, u.told = in.r.strayed, in.r.told
	}
}

func (in *rounds) resume() {
	if n := len(in.running); n > 0 {
		u := in.running[n-1]
		in.r.test, in.r.trial, in.r.strayed, in.r.told = u.index, u.tried, u.strayed, u.told
	}
}

// choose returns what is tried with a test that begins; nothing in some rounds, so that its influence on others and
// theirs on it is seen. Of any two tests, over the rounds, each is tried while the other is not.
func (in *rounds) choose(t *examined) trial {
	if t.script.unfit[t.index] != "" {
		return trial{}
	}
	tried, more := in.x.next(t)
	t.times++
	if in.clean[t] == nil {
		in.clean[t] = in.x.snapshot(t)
	}
	if !more || !t.played || in.spent {
		return trial{}
	}
	others := func(alone bool) bool {
		return slices.ContainsFunc(in.tests, func(o *examined) bool {
			return o != t && o.alone == alone && (!alone || o.index < t.index) && in.x.left(o)
		})
	}
	if t.alone {
		if others(false) || others(true) || in.disturbed {
			return trial{}
		}
		in.spent = true
	} else if others(false) && bits.OnesCount(uint(t.index)&uint(t.times))%2 != 0 {
		return trial{}
	}
	in.disturbed = true
	t.dirty = !t.alone
	return tried
}

// done takes how a run of a test has ended. again says whether there is more to try with it, over whether there is
// nothing in this process.
func (in *rounds) done(id string, passed, unclean bool) (again, over bool) {
	in.pause()
	n := len(in.running)
	if n == 0 || in.running[n-1].index != in.r.script.index[id] {
		return false, false // it never began, or not so
	}
	u := in.running[n-1]
	in.running = in.running[:n-1]
	in.resume()
	t := u.test
	if t == nil || t.script.unfit[t.index] != "" {
		return false, false
	}
	strayed := u.strayed || unclean
	switch {
	case u.tried != (trial{}):
		in.x.progress++
		in.x.learn(t, u.tried, passed, strayed, u.told)
	case passed && !strayed:
		if !t.played {
			in.x.progress++
			in.x.learn(t, trial{}, true, false, false)
		}
		t.dirty = false
		in.clean[t] = in.x.snapshot(t)
	case !in.disturbed:
		t.played, t.repeats, t.dirty = true, false, false
	case t.played && !t.alone:
		in.x.forget(t)
		in.clean[t] = in.x.snapshot(t)
	}
	if in.spent && !in.renews {
		return false, len(in.running) == 0
	}
	return !t.alone && in.x.left(t), false
}

// forget takes back all that was found by a test, which depends on what ran before it.
func (x *Examination) forget(t *examined) {
	for _, k := range t.kills {
		delete(x.killed[k.about], k.lie)
	}
	t.kills, t.current, t.lie, t.done, t.dirty, t.alone = nil, 0, 0, false, false, true
	for _, g := range t.groups {
		g.next, g.used = 0, false
	}
}

// end takes what the process has left. The test that was running may have ended it.
func (in *rounds) end() {
	short := slices.ContainsFunc(in.tests, in.x.left) && in.by.Short()
	in.x.short = in.x.short || short
	if short && !in.ran {
		in.x.slow++
		if in.x.slow == 1 { // it is repeated once
			in.x.progress++
		}
	}
	for _, t := range in.tests {
		if t.dirty && in.clean[t] != nil {
			in.clean[t]()
			t.dirty = false
		}
	}
	for _, u := range in.running {
		if u.test != nil && u.tried != (trial{}) {
			in.x.progress++
			u.test.skip[attempt{u.tried.change, u.tried.lie, u.tried.about}] = true
			if u.tried.lie != nil {
				in.x.kill(u.test, u.tried)
			}
		} else if u.test != nil && short && (!in.disturbed || u.test.late == 0) {
			in.x.tardy(u.test)
		} else if u.test != nil && !u.test.played && !in.disturbed {
			u.test.played = true // it does not come to its end, whatever is tried
		}
	}
}
