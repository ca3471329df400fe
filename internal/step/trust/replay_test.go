package trust

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

// tape is a journal in memory, with a fold that decides at once.
type tape struct {
	*Fold
	t   *rapid.T
	all []fact.Entry
	at  int64
}

func (j *tape) append(facts ...fact.Fact) {
	e := fact.Entry{V: fact.Version, Seq: uint64(len(j.all) + 1), At: j.at, Facts: facts}
	j.all = append(j.all, e)
	j.Apply(e)
}

// learn decides all queued evidence, and checks each change.
func (j *tape) learn() {
	for first := j.next(); len(first) > 0; first = j.next() {
		o := first[0]
		spent := j.inside().today(o.Task, max(o.At, j.inside().Table.Of(key(o.Task, o.Service)).Since)).Spent
		facts := j.decide(j.inside(), o)
		for _, f := range facts {
			j.check(f.(fact.TrustChanged), spent)
		}
		j.append(facts...)
	}
}

func (j *tape) check(c fact.TrustChanged, spent guild.Trust) {
	p := j.policy.Trust
	switch by := abs(c.To - c.From); {
	case !c.Unfounded && (c.To < p.Floor || c.To > p.Ceiling):
		j.t.Fatalf("out of bounds: %+v", c)
	case c.Rule == "" && !c.First && !c.Unfounded && (by > p.Step || by > max(0, p.Daily-spent)):
		j.t.Fatalf("with %d spent: %+v", spent, c)
	case c.Rule == fact.RuleContradiction && c.To <= c.From:
		j.t.Fatalf("nothing taken back: %+v", c)
	case c.Rule == fact.RuleMean && c.To == c.From:
		j.t.Fatalf("nothing restored: %+v", c)
	case c.Confidence < 0 || c.Confidence > guild.Micro || c.Rationale == "" || c.Action == "" || c.Policy != j.hash:
		j.t.Fatalf("%+v", c)
	}
}

func TestLimitsHoldInReplay(t *testing.T) {
	outcomes := []guild.Outcome{guild.Success, guild.Success, guild.Success, guild.Partial, guild.Failure, guild.Error, guild.Violation}
	rapid.Check(t, func(t *rapid.T) {
		j := &tape{Fold: newFold(t), t: t, at: 1000 * dayMs}
		var ids []nostr.ID
		verdict := func() fact.Fact {
			return judged(rapid.SampledFrom(outcomes).Draw(t, "outcome"), guild.Score(rapid.Int64Range(500_000, 1_000_000).Draw(t, "score")))
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "events") {
			j.at += rapid.SampledFrom([]int64{1, 60_000, 7_200_000, dayMs}).Draw(t, "later")
			id, job := nostr.ID{byte(n + 1)}, guild.JobID{byte(n + 1)}
			open := fact.JobOpened{Job: job, Task: rapid.SampledFrom([]string{"python", "go"}).Draw(t, "task"),
				Class: rapid.SampledFrom([]string{"", "financial"}).Draw(t, "class")}
			planned := fact.AttemptPlanned{Attempt: id, Job: job, Provider: service(rapid.ByteRange(1, 3).Draw(t, "provider"))}
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what == 0:
				j.append(open, planned, fact.AttemptRequested{Attempt: id}, fact.AttemptExpired{Attempt: id}, fact.JobClosed{Job: job})
			case what == 1 && len(ids) > 0:
				old := rapid.SampledFrom(ids).Draw(t, "disputed")
				j.append(fact.AttemptDisputed{Attempt: old}, about(old, verdict()))
			case what == 2:
				j.append(fact.TrustChanged{Task: open.Task, Service: planned.Provider, To: 500_000, EMA: 500_000, Rule: fact.RuleOwner,
					From: j.Standing(open.Task, planned.Provider).Trust, First: !j.Standing(open.Task, planned.Provider).Met})
			default:
				ids = append(ids, id)
				j.append(open, planned, fact.AttemptDelivered{Attempt: id, LatencyMs: rapid.Int64Range(0, 5000).Draw(t, "latency")},
					about(id, verdict()), fact.JobClosed{Job: job})
			}
			j.learn()
		}
		if j.inside().Jobs.Len()+j.inside().Asked.Len()+j.inside().Owed.Len()+j.inside().Owing.Len() != 0 {
			t.Fatalf("something is kept: %s", foldtest.Snapshot(t, j.Fold))
		}
		again := newFold(t)
		for _, e := range j.all {
			b, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			read := fact.Entry{}
			if err := json.Unmarshal(b, &read); err != nil {
				t.Fatal(err)
			}
			read.Seq = e.Seq
			again.Apply(read)
		}
		if again.Hash() != j.Hash() || foldtest.Snapshot(t, again) != foldtest.Snapshot(t, j.Fold) {
			t.Fatalf("%s\n%s", foldtest.Snapshot(t, again), foldtest.Snapshot(t, j.Fold))
		}
	})
}

func FuzzChangesAreReadOrRefused(f *testing.F) {
	good, err := pasts(moves("+-0")).MarshalText()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("AAAA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var p, again pasts
		if p.UnmarshalText(text) != nil {
			return
		}
		b, err := p.MarshalText()
		if err != nil || again.UnmarshalText(b) != nil || !slices.Equal(p, again) || len(p) > maxPast {
			t.Errorf("%+v and %+v", p, again)
		}
	})
}

// A snapshot must not change while later entries are applied. The race detector checks that, too.
func TestSnapshotDuringApply(t *testing.T) {
	f := newFold(t)
	add := func(n int) {
		id, job := nostr.ID{5, byte(n), byte(n >> 8)}, guild.JobID{5, byte(n), byte(n >> 8)}
		f.Apply(fact.Entry{Seq: uint64(2*n + 1), At: int64(n), Facts: []fact.Fact{fact.JobOpened{Job: job, Task: "python"},
			fact.AttemptPlanned{Attempt: id, Job: job, Provider: service(byte(n%3 + 1))}, fact.AttemptDelivered{Attempt: id, LatencyMs: 5},
			about(id, judged(guild.Success, 900_000))}})
		if n%2 == 0 { // the others stay queued
			f.Apply(fact.Entry{Seq: uint64(2*n + 2), At: int64(n), Facts: f.decide(f.inside(), f.next()[0])})
		}
	}
	for n := range 200 {
		add(n)
	}
	encode, hash := f.Freeze(), f.Hash()
	var going sync.WaitGroup
	going.Go(func() {
		for n := 200; n < 600; n++ {
			add(n)
		}
	})
	b, err := encode()
	going.Wait()
	if err != nil {
		t.Fatal(err)
	}
	back := newFold(t)
	if err := back.Restore(b); err != nil {
		t.Fatal(err)
	}
	if back.Hash() != hash || back.Hash() == f.Hash() {
		t.Error("the snapshot is not of the time that it was taken")
	}
}

func BenchmarkAppliedEvidence(b *testing.B) {
	f := newFold(b)
	for n := 0; b.Loop(); n++ {
		id, job := nostr.ID{5, byte(n), byte(n >> 8), byte(n >> 16)}, guild.JobID{5, byte(n), byte(n >> 8), byte(n >> 16)}
		f.Apply(fact.Entry{Seq: uint64(2*n + 1), At: int64(n) * 1000, Facts: []fact.Fact{fact.JobOpened{Job: job, Task: "python"},
			fact.AttemptPlanned{Attempt: id, Job: job, Provider: guild.Service{D: fmt.Sprint(n % 1000)}}, fact.AttemptDelivered{Attempt: id, LatencyMs: 5},
			about(id, judged(guild.Success, 900_000)), fact.JobClosed{Job: job}}})
		f.Apply(fact.Entry{Seq: uint64(2*n + 2), At: int64(n) * 1000, Facts: f.decide(f.inside(), f.next()[0])})
	}
}

// crowd returns a matrix of 100,000 services, each with ten changes.
func crowd(b *testing.B) *Fold {
	f := newFold(b)
	for n := range 1_000_000 {
		s := guild.Service{PubKey: service(1).PubKey, D: fmt.Sprint(n % 100_000)}
		f.Apply(fact.Entry{Seq: uint64(n + 1), At: int64(n) * 1000, Facts: []fact.Fact{fact.TrustChanged{Task: "python", Service: s, From: 600_000, To: 610_000,
			EMA: 610_000, First: n < 100_000, Pattern: success, Confidence: 900_000, Samples: n/100_000 + 1,
			Attempt: nostr.ID{byte(n), byte(n >> 8), byte(n >> 16)}, Job: guild.JobID{byte(n), byte(n >> 8), byte(n >> 16)}}}})
	}
	return f
}

func BenchmarkACrowdIsRestored(b *testing.B) {
	f := crowd(b)
	snapshot, err := f.Freeze()()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(snapshot)), "bytes")
	for b.Loop() {
		if err := f.Restore(snapshot); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkACrowdIsFrozen(b *testing.B) {
	f := crowd(b)
	for n := 0; b.Loop(); n++ {
		f.Freeze()
		f.Apply(fact.Entry{Seq: 2_000_000, At: int64(n), Facts: []fact.Fact{fact.TrustChanged{Task: "python", Service: guild.Service{PubKey: service(1).PubKey, D: "7"},
			From: 600_000, To: 610_000, Attempt: nostr.ID{1}}}})
	}
}
