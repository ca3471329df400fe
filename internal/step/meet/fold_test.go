package meet

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

// history draws entries as a journal could hold them.
func history(t *rapid.T) (all []fact.Entry) {
	add := func(f fact.Fact) {
		all = append(all, fact.Entry{Seq: uint64(len(all) + 1), At: int64(len(all) + 1), Facts: []fact.Fact{f}})
	}
	for n := range rapid.IntRange(0, 4).Draw(t, "meetings") {
		id := fmt.Sprint(n)
		add(fact.MeetingBegan{Meeting: id, Service: service(byte(n + 1)), Task: "python"})
		for run := range rapid.IntRange(0, 3).Draw(t, "runs") {
			job := jobOf(id, run+1)
			add(fact.JobOpened{Job: job, Meeting: &fact.Benchmark{Meeting: id, Run: run + 1}})
			whole := life(job, guild.Verdict{Outcome: rapid.SampledFrom([]guild.Outcome{guild.Success, guild.Failure}).Draw(t, "outcome")})
			for _, f := range whole[:rapid.IntRange(0, len(whole)).Draw(t, "lived")] {
				add(f)
			}
		}
		if rapid.Bool().Draw(t, "ended") {
			add(fact.MeetingEnded{Meeting: id, Service: service(byte(n + 1)), To: guild.Active})
		}
	}
	return all
}

func TestFoldSnapshot(t *testing.T) {
	foldtest.GoesOn(t, NewFold, history, func(t *rapid.T, whole, restored *Fold) {
		if a, b := len(whole.underWay()), len(restored.underWay()); a != b {
			t.Fatalf("%d and %d meetings are under way", a, b)
		}
	})
}

func TestBadSnapshot(t *testing.T) {
	f := NewFold()
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.MeetingBegan{Meeting: "a", Service: service(1), Task: "python"}}})
	foldtest.Refuses(t, f, append(foldtest.Partial(t, f), `{"meetings":{"a":null},"jobs":{},"attempts":{}}`)...)
}
