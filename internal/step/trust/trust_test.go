package trust

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/internal/policy"
	"guild/internal/step/steptest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// service returns the service of provider n.
func service(n byte) guild.Service {
	return guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: n}), D: "python"}
}

func newFold(t interface{ Fatal(...any) }) *Fold {
	p := policy.Specification()
	p.Trust = numbers()
	f, err := NewFold(p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// inside returns the state itself. Nothing may be applied while it is used.
func (f *Fold) inside() (now *state) {
	f.View(func(s *state) { now = s })
	return now
}

// world is a journal with a running step.
type world struct {
	*steptest.World
	*Fold
	step     *Trust
	attempts int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := stillWorld(t)
	w.Run(w.step.Due)
	return w
}

// stillWorld is a world in which nothing runs yet.
func stillWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: steptest.New(t), Fold: newFold(t)}
	w.OpenJournal(w.Fold)
	w.step = New(Config{Journal: w.Journal, Now: time.Now}, w.Fold)
	return w
}

// do appends facts in one decision, and waits until trust has followed.
func (w *world) do(guard fact.Subject, facts ...fact.Fact) {
	w.Helper()
	w.Write(guard, facts...)
	synctest.Wait()
}

// attempt writes the whole life of one attempt, and waits until trust has followed.
func (w *world) attempt(s guild.Service, life ...fact.Fact) nostr.ID {
	w.Helper()
	return w.hired(fact.JobOpened{Task: "python"}, s, life...)
}

// hired is like attempt, for a job that open describes.
func (w *world) hired(open fact.JobOpened, s guild.Service, life ...fact.Fact) nostr.ID {
	w.Helper()
	w.attempts++
	id := attemptID(w.attempts)
	open.Job = jobID(w.attempts)
	facts := []fact.Fact{open, fact.AttemptPlanned{Attempt: id, Job: open.Job, Provider: s}}
	for _, f := range life {
		facts = append(facts, about(id, f))
	}
	facts = append(facts, fact.JobClosed{Job: open.Job}, fact.AttemptRecorded{Attempt: id})
	w.do(fact.JobSubject(open.Job), facts...)
	return id
}

func attemptID(n int) nostr.ID { return nostr.ID{1, byte(n), byte(n >> 8)} }

func jobID(n int) guild.JobID { return guild.JobID{byte(n), byte(n >> 8)} }

// changes lists all changes of trust in the journal.
func (w *world) changes() []fact.TrustChanged { return steptest.Facts[fact.TrustChanged](w) }

// lastChange returns the latest change of trust.
func (w *world) lastChange() fact.TrustChanged {
	w.Helper()
	all := w.changes()
	if len(all) == 0 {
		w.Fatal("nothing was learned")
	}
	return all[len(all)-1]
}

// about sets the attempt of a fact.
func about(id nostr.ID, f fact.Fact) fact.Fact {
	switch f := f.(type) {
	case fact.AttemptRequested:
		f.Attempt = id
		return f
	case fact.AttemptProgressed:
		f.Attempt = id
		return f
	case fact.AttemptExpired:
		f.Attempt = id
		return f
	case fact.AttemptJudged:
		f.Attempt = id
		return f
	case fact.AttemptRefused:
		f.Attempt = id
		return f
	case fact.AttemptCancelled:
		f.Attempt = id
		return f
	case fact.AttemptParked:
		f.Attempt = id
		return f
	case fact.AttemptDelivered:
		f.Attempt = id
		return f
	case fact.AttemptDisputed:
		f.Attempt = id
		return f
	case fact.AttemptRecorded:
		f.Attempt = id
		return f
	case fact.AttemptCompared:
		f.Attempt = id
		return f
	}
	return f
}

func judged(o guild.Outcome, s guild.Score) fact.Fact {
	return fact.AttemptJudged{Verdict: guild.Verdict{Outcome: o, Score: s}}
}

func (w *world) wants(s guild.Service, want guild.Trust) {
	w.Helper()
	if got, met := w.Trust("python", s); got != want || met != (want != 0) {
		w.Errorf("trusted %d, want %d", got, want)
	}
}

func TestOneChangePerAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.attempt(service(1), judged(guild.Success, 1_000_000))
		w.wants(service(1), 600_000)
		second := w.attempt(service(1), judged(guild.Success, 1_000_000))
		w.wants(service(1), 621_600)
		third := w.attempt(service(1), judged(guild.Failure, 0)) // raw = 0.4716; 0.3·0.4716 + 0.7·0.6216 = 0.5766
		w.wants(service(1), 576_600)
		w.wants(service(2), 0)

		for id, want := range map[nostr.ID]Change{
			first:  {To: 600_000, First: true},
			second: {From: 600_000, To: 621_600},
			third:  {From: 621_600, To: 576_600},
		} {
			if got, ok := w.Change(id); !ok || got != want {
				t.Errorf("attempt %.4s: %+v, want %+v", id.Hex(), got, want)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if last := w.Journal.Last(); last != 7 {
			t.Errorf("%d entries, want one for the policy, one for each attempt and one for each change", last)
		}
	})
}

func TestPolicyAdoptedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stillWorld(t)
		w.attempt(service(1), judged(guild.Success, 1_000_000))
		if !w.Adopted().IsZero() || w.UpToDate("python") {
			t.Error("something is decided that nobody decided")
		}
		w.Run(w.step.Due)
		synctest.Wait()
		e, err := w.Journal.Entry(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		adopted, ok := e.Facts[0].(fact.PolicyAdopted)
		if !ok || e.Subject != fact.PolicySubject || guild.Sum(adopted.Document) != adopted.Policy || adopted.Name != "partnership" {
			t.Fatalf("%+v", e)
		}
		if p, err := policy.Decode(adopted.Document); err != nil || p.Trust.Alpha != 300_000 {
			t.Errorf("%+v, %v", p, err)
		}
		if c := w.lastChange(); c.Policy != adopted.Policy || c.Policy != w.Policy() || w.Adopted() != c.Policy || !w.UpToDate("python") {
			t.Errorf("%+v", c)
		}

		other := policy.Specification()
		other.Name, other.Trust.Alpha = "other", 500_000
		next, err := NewFold(other)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range w.Entries() {
			next.Apply(e)
		}
		step := New(Config{Journal: w.Journal, Now: time.Now}, next)
		if work := step.Due(time.Now()); len(work) != 1 || work[0].Guard != fact.PolicySubject {
			t.Errorf("another policy is not adopted: %+v", work)
		}
		next.Apply(fact.Entry{Seq: 9, Facts: []fact.Fact{fact.PolicyAdopted{Policy: next.Policy()}}})
		step.Due(time.Now())
		next.Apply(fact.Entry{Seq: 10, Facts: []fact.Fact{fact.PolicyAdopted{Policy: w.Policy()}}})
		if work := step.Due(time.Now()); len(work) != 0 {
			t.Errorf("two nodes replace each other's policy for ever: %+v", work)
		}
	})
}

func TestProvidersOwnFaults(t *testing.T) {
	for name, c := range map[string]struct {
		life []fact.Fact
		want guild.Trust
	}{
		"a wrong answer":                         {[]fact.Fact{judged(guild.Failure, 0)}, 555_000},
		"silence":                                {[]fact.Fact{fact.AttemptRequested{}, fact.AttemptExpired{Silent: true}}, 540_000},
		"silence after a word":                   {[]fact.Fact{fact.AttemptProgressed{}, fact.AttemptExpired{}}, 540_000},
		"a request that never left":              {[]fact.Fact{fact.AttemptExpired{}}, 600_000},
		"no relay":                               {[]fact.Fact{fact.AttemptParked{}}, 600_000},
		"a refusal":                              {[]fact.Fact{fact.AttemptRequested{}, fact.AttemptRefused{}}, 600_000},
		"the customer's change of mind":          {[]fact.Fact{fact.AttemptRequested{}, fact.AttemptCancelled{}}, 600_000},
		"a judge that failed":                    {[]fact.Fact{fact.AttemptRequested{}, fact.AttemptParked{}}, 600_000},
		"a crash":                                {[]fact.Fact{judged(guild.Error, 0)}, 570_000},
		"a violation, whatever else it achieved": {[]fact.Fact{judged(guild.Violation, 1_000_000)}, 510_000},
		"part of the work":                       {[]fact.Fact{judged(guild.Partial, 900_000)}, 576_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.attempt(service(1), judged(guild.Success, 900_000))
				w.attempt(service(1), c.life...)
				w.wants(service(1), c.want)
				if w.inside().Asked.Len()+w.inside().Owed.Len()+w.inside().Owing.Len()+w.inside().Jobs.Len() != 0 {
					t.Errorf("something is kept: %+v", w.inside())
				}
			})
		})
	}
}

func TestFirstFailureSetsNoTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.attempt(service(1), judged(guild.Failure, 300_000))
		w.wants(service(1), 0)
		if c, ok := w.Change(id); !ok || !c.Unfounded || !w.Settled(jobID(1)) {
			t.Errorf("%+v, %v: it must be on record that nothing was learnt", c, ok)
		}
		w.attempt(service(1), judged(guild.Success, 1_000_000))
		w.wants(service(1), 600_000)
	})
}

func TestDailyLimitOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight UTC
		w := newWorld(t)
		for n := range byte(6) {
			w.attempt(service(n+1), judged(guild.Success, 900_000))
			w.wants(service(n+1), 600_000)
		}
		for n := range byte(5) { // −0.06 each: together the 0.3 of a day
			w.attempt(service(n+1), fact.AttemptRequested{}, fact.AttemptExpired{})
			w.wants(service(n+1), 540_000)
		}
		w.attempt(service(6), fact.AttemptRequested{}, fact.AttemptExpired{})
		w.wants(service(6), 600_000)

		time.Sleep(24*time.Hour - time.Millisecond - time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
		w.attempt(service(6), fact.AttemptRequested{}, fact.AttemptExpired{})
		w.wants(service(6), 600_000)
		time.Sleep(time.Millisecond)
		w.attempt(service(6), fact.AttemptRequested{}, fact.AttemptExpired{})
		if got, _ := w.Trust("python", service(6)); got >= 600_000 {
			t.Errorf("a new day moves trust again: %d", got)
		}
	})
}

func TestTrustIsListedByTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 1_000_000))
		of := w.Of(service(1))
		if len(of) != 1 || of["python"] != 600_000 || len(w.Of(service(2))) != 0 {
			t.Errorf("%v", of)
		}
		if other := (guild.Service{PubKey: service(1).PubKey, D: "go"}); len(w.Of(other)) != 0 {
			t.Error("another service of the same provider is trusted for it")
		}
		if w.Last(jobID(1)) != 3 || w.Last(jobID(2)) != 0 {
			t.Errorf("last change at %d", w.Last(jobID(1)))
		}
	})
}

// history draws entries as a journal could hold them.
func history(t *rapid.T) (all []fact.Entry) {
	ends := rapid.SampledFrom([]fact.Fact{
		fact.AttemptRequested{}, fact.AttemptProgressed{}, fact.AttemptExpired{Reason: "x"}, judged(guild.Success, 900_000),
		judged(guild.Failure, 0), judged(guild.Error, 0), fact.AttemptRefused{Fault: true}, fact.AttemptCancelled{}, fact.AttemptParked{},
		fact.AttemptDelivered{LatencyMs: 700}, fact.AttemptDisputed{}, fact.AttemptRecorded{}, fact.AttemptCompared{With: nostr.ID{1}},
	})
	rule := rapid.SampledFrom([]string{"", "", "", fact.RuleContradiction, fact.RuleMean, fact.RuleOwner, fact.RuleRollback, fact.RuleRejudged, fact.RuleMerged})
	for n := range rapid.IntRange(0, 8).Draw(t, "attempts") {
		id, job, s := nostr.ID{byte(n + 1)}, guild.JobID{byte(n/2 + 1)}, service(byte(n%3+1))
		task := fmt.Sprint("task ", n/2%2)
		facts := []fact.Fact{fact.JobOpened{Job: job, Task: task, Criticality: [2]guild.Criticality{guild.Low, guild.High}[n/2%2]},
			fact.AttemptPlanned{Attempt: id, Job: job, Provider: s}}
		for _, f := range rapid.SliceOfN(ends, 0, 5).Draw(t, "life") {
			facts = append(facts, about(id, f))
		}
		if rapid.Bool().Draw(t, "closed") {
			facts = append(facts, fact.JobClosed{Job: job, Chosen: nostr.ID{1}})
		}
		if rapid.Bool().Draw(t, "learnt") {
			facts = append(facts, fact.TrustChanged{Task: task, Service: s, From: 500_000, Unfounded: n%4 == 3, Rule: rule.Draw(t, "rule"), Pattern: failed,
				To: guild.Trust(rapid.Int64Range(100_000, 900_000).Draw(t, "to")), First: n%3 == 0, Job: job, Attempt: id, Reverts: nostr.ID{byte(n)}})
		}
		if rapid.Bool().Draw(t, "contested") {
			facts = append(facts, about(id, fact.AttemptDisputed{}), about(id, judged(guild.Partial, 900_000)))
		}
		for _, f := range facts {
			seq := len(all) + 1
			all = append(all, fact.Entry{Seq: uint64(seq), At: int64(seq) * 3_000_000, Facts: []fact.Fact{f}})
		}
	}
	return all
}

func TestFoldSnapshot(t *testing.T) {
	foldtest.GoesOn(t, func() *Fold { return newFold(t) }, history, func(t *rapid.T, whole, restored *Fold) {
		if whole.Hash() != restored.Hash() || fmt.Sprint(whole.Of(service(1))) != fmt.Sprint(restored.Of(service(1))) {
			t.Fatal("trust differs")
		}
	})
}

func TestBadSnapshot(t *testing.T) {
	f := newFold(t)
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.JobOpened{Job: guild.JobID{1}, Task: "python"}}})
	foldtest.Refuses(t, f, append(foldtest.Partial(t, f), `{"table":7}`)...)
}
