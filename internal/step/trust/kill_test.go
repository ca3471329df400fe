package trust

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
)

// act is one event from outside. It may be done again if the process died during it.
type act func(w *world) error

// lived is the history of a node, with two minutes between its events, and its state at the end.
type lived struct {
	entries []fact.Entry
	ends    []uint64 // for each act, the last entry that it wrote itself
	hash    guild.Hash
	rows    map[string]json.RawMessage
}

const between = 2 * time.Minute

// acts returns events for every rule by which trust changes: first trusts, formulas, a contradiction, the mean, a
// majority, a disputed verdict, the owner's commands, a daily limit and a rollback of all tasks.
func acts() (all []act) {
	n := 0
	attempt := func(task string, s guild.Service, life ...fact.Fact) nostr.ID {
		n++
		id, job := nostr.ID{3, byte(n)}, guild.JobID{3, byte(n)}
		all = append(all, func(w *world) error {
			facts := []fact.Fact{fact.JobOpened{Job: job, Task: task, Class: "critical-path"}, fact.AttemptPlanned{Attempt: id, Job: job, Provider: s}}
			for _, f := range life {
				facts = append(facts, about(id, f))
			}
			w.Write(fact.JobSubject(job), append(facts, fact.JobClosed{Job: job})...)
			return nil
		})
		return id
	}
	good, bad := judged(guild.Success, 900_000), judged(guild.Failure, 0)
	for range 4 {
		attempt("python", service(1), in(time.Second), good)
	}
	for range 3 {
		attempt("python", service(1), bad) // the third restores the mean
	}
	attempt("go", service(2), in(400*time.Millisecond), good)
	attempt("go", service(2), silent()...)
	attempt("go", service(2), good) // and takes the silence back
	for k := range byte(3) {
		attempt("python", service(k+2), good)
		attempt("python", service(k+2), judged(guild.Violation, 0)) // uses up the daily limit
	}
	contested := attempt("go", service(2), bad)
	job := guild.JobID{3, byte(n)}
	all = append(all, func(w *world) error {
		w.Write(fact.JobSubject(job), fact.AttemptDisputed{Attempt: contested}, about(contested, good))
		return nil
	})
	all = append(all, func(w *world) error {
		job := guild.JobID{4}
		facts := []fact.Fact{fact.JobOpened{Job: job, Task: "go", Criticality: guild.High}}
		for k := range byte(3) {
			id := nostr.ID{4, k}
			facts = append(facts, fact.AttemptPlanned{Attempt: id, Job: job, Provider: service(k + 1)}, about(id, good),
				fact.AttemptCompared{Attempt: id, With: nostr.ID{4, k / 2 * 2}})
		}
		w.Write(fact.JobSubject(job), append(facts, fact.JobClosed{Job: job, Ending: guild.JobAccepted, Chosen: nostr.ID{4, 0}})...)
		return nil
	})
	all = append(all, func(w *world) error { return w.step.Set(w.Context(), "go", service(3), 800_000, "") })
	attempt("go", service(3), bad)
	then := beginning().Add(14*between + 100*time.Second) // when a process that died has caught up, too
	all = append(all, func(w *world) error {
		_, err := w.step.Rollback(w.Context(), then, "")
		return err
	})
	attempt("python", service(1), good)
	return all
}

// beginning is the time at which a bubble's clock starts.
func beginning() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// live does the acts that are not done yet, each at its time.
func (w *world) live(all []act, done int) (l lived) {
	w.Helper()
	for i := done; i < len(all); i++ {
		time.Sleep(time.Until(beginning().Add(time.Duration(i+1) * between)))
		acted := w.Journal.Last()
		if err := all[i](w); err != nil {
			w.Fatalf("act %d: %v", i, err)
		}
		synctest.Wait()
		l.ends = append(l.ends, w.own(acted))
	}
	l.entries, l.hash, l.rows = w.Entries(), w.Hash(), w.Rows()
	return l
}

// own returns the last entry after the given one that is not a change of trust.
func (w *world) own(after uint64) (last uint64) {
	w.Helper()
	for seq := after + 1; seq <= w.Journal.Last(); seq++ {
		e, err := w.Journal.Entry(w.Context(), seq)
		if err != nil {
			w.Fatal(err)
		}
		if c, ok := e.Facts[0].(fact.TrustChanged); !ok && e.Subject != fact.PolicySubject || ok && (c.Rule == fact.RuleOwner || c.Rule == fact.RuleRollback) {
			last = seq
		}
	}
	return last
}

func TestKilledAtEveryEntry(t *testing.T) {
	var whole lived
	live := func(t *testing.T) []fact.Entry {
		w := newWorld(t)
		whole = w.live(acts(), 0)
		rules := map[string]int{}
		for _, c := range w.changes() {
			rules[c.Rule]++
		}
		for _, rule := range []string{"", fact.RuleContradiction, fact.RuleMean, fact.RuleOwner, fact.RuleRollback, fact.RuleRejudged} {
			if rules[rule] == 0 {
				t.Fatalf("nothing was changed by %q: %v", rule, rules)
			}
		}
		return whole.entries
	}
	goesOn := func(t *testing.T, left, _ []fact.Entry) {
		w := stillWorld(t)
		w.Relive(left)
		time.Sleep(90 * time.Second) // then the rest is learned, later than usual
		w.Run(w.step.Due)
		synctest.Wait()
		done := 0
		for done < len(whole.ends) && whole.ends[done] <= uint64(len(left)) {
			done++
		}
		if l := w.live(acts(), done); l.hash != whole.hash {
			t.Errorf("%s\nwant\n%s", lines(l.rows), lines(whole.rows))
		}
	}
	steptest.KillAtEachEntry(t, 1, live, goesOn)
	synctest.Test(t, func(t *testing.T) { goesOn(t, nil, whole.entries) })
}

func lines(rows map[string]json.RawMessage) (s string) {
	for _, b := range rows {
		s += fmt.Sprintf("  %s\n", b)
	}
	return s
}
