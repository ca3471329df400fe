package meet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
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

func TestARestoredFoldGoesOnAsIfNothingHadHappened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := history(t)
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		whole, before, after := NewFold(), NewFold(), NewFold()
		for i, e := range all {
			whole.Apply(e)
			if i < cut {
				before.Apply(e)
			}
		}
		if err := after.Restore([]byte(snapshot(t, before))); err != nil {
			t.Fatal(err)
		}
		for _, e := range all[cut:] {
			after.Apply(e)
		}
		if a, b := snapshot(t, whole), snapshot(t, after); a != b || len(whole.goingOn()) != len(after.goingOn()) {
			t.Fatalf("%s\n%s", a, b)
		}
	})
}

func snapshot(t interface{ Fatal(...any) }, f fold.Fold) string {
	b, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAGarbledSnapshotIsRefusedAndChangesNothing(t *testing.T) {
	f := NewFold()
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.MeetingBegan{Meeting: "a", Service: service(1), Task: "python"}}})
	before := snapshot(t, f)
	for _, garbage := range []string{``, `null`, `{}`, `[]`, before[:len(before)-1], strings.Replace(before, `"attempts":{}`, `"attempts":null`, 1),
		`{"meetings":{"a":null},"jobs":{},"attempts":{}}`} {
		if err := f.Restore([]byte(garbage)); err == nil || snapshot(t, f) != before {
			t.Errorf("%q: %v", garbage, err)
		}
	}
	if !json.Valid([]byte(before)) {
		t.Error(before)
	}
}
