package trust

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/fold/foldtest"
	"guild/internal/journal"
	"guild/internal/journal/journaltest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// service is one of a few providers' services.
func service(n byte) guild.Service {
	return guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: n}), D: "python"}
}

func newFold(t interface{ Fatal(...any) }) *Fold {
	f, err := NewFold(Default())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// world is a journal with the step at work.
type world struct {
	*testing.T
	*Fold
	journal  *journal.Journal
	attempts int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Fold: newFold(t)}
	claims := due.NewClaims()
	w.journal = journaltest.Open(t, claims, w.Fold)
	runner := due.Runner{Journal: w.journal, Claims: claims, Node: "test", Now: time.Now,
		Sources: []due.Source{w.Due}, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); runner.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// attempt writes the whole life of one attempt, and lets trust learn from it.
func (w *world) attempt(s guild.Service, life ...fact.Fact) nostr.ID {
	w.Helper()
	w.attempts++
	id, job := nostr.ID{byte(w.attempts), byte(w.attempts >> 8)}, guild.JobID{byte(w.attempts), byte(w.attempts >> 8)}
	err := w.journal.Do(w.Context(), fact.JobSubject(job), "", func(tx *journal.Tx) error {
		tx.Append(fact.JobOpened{Job: job, Task: "python"}, fact.AttemptPlanned{Attempt: id, Job: job, Provider: s})
		for _, f := range life {
			tx.Append(of(id, f))
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	return id
}

// of is a fact about an attempt.
func of(id nostr.ID, f fact.Fact) fact.Fact {
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

func TestTrustIsMovedOnceForEachAttempt(t *testing.T) {
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
		if last := w.journal.Last(); last != 6 {
			t.Errorf("%d entries, want one for each attempt and one for each change", last)
		}
	})
}

func TestAResultIsJudgedUnderThePolicyThatItNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 1_000_000))
		e, err := w.journal.Entry(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		c := e.Facts[0].(fact.TrustChanged)
		if c.Policy != w.Policy() || c.Policy.IsZero() || e.Subject != fact.TrustSubject("python") {
			t.Errorf("%+v under %s", c, e.Subject)
		}
	})
}

func TestOnlyWhatAProviderDidCounts(t *testing.T) {
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
				if len(w.state.Asked) != 0 || len(w.state.Owed) != 0 {
					t.Errorf("something is still owed: %v %v", w.state.Asked, w.state.Owed)
				}
			})
		})
	}
}

func TestAFailureOfSomebodyNewFoundsNoTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.attempt(service(1), judged(guild.Failure, 300_000))
		w.wants(service(1), 0)
		if c, ok := w.Change(id); !ok || !c.Unfounded || !w.Settled(guild.JobID{1}) {
			t.Errorf("%+v, %v: it must be on record that nothing was learnt", c, ok)
		}
		w.attempt(service(1), judged(guild.Success, 1_000_000))
		w.wants(service(1), 600_000)
	})
}

func TestADayHasItsLimitForAllProvidersOfATask(t *testing.T) {
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
		if w.Last(guild.JobID{1}) != 2 || w.Last(guild.JobID{2}) != 0 {
			t.Errorf("last change at %d", w.Last(guild.JobID{1}))
		}
	})
}

// history draws entries as a journal could hold them.
func history(t *rapid.T) (all []fact.Entry) {
	ends := rapid.SampledFrom([]fact.Fact{
		fact.AttemptRequested{}, fact.AttemptProgressed{}, fact.AttemptExpired{Reason: "x"}, judged(guild.Success, 900_000),
		judged(guild.Failure, 0), fact.AttemptRefused{}, fact.AttemptCancelled{}, fact.AttemptParked{},
	})
	for n := range rapid.IntRange(0, 8).Draw(t, "attempts") {
		id, job, s := nostr.ID{byte(n + 1)}, guild.JobID{byte(n/2 + 1)}, service(byte(n%3+1))
		facts := []fact.Fact{fact.JobOpened{Job: job, Task: fmt.Sprint("task ", n%2)}, fact.AttemptPlanned{Attempt: id, Job: job, Provider: s}}
		for _, f := range rapid.SliceOfN(ends, 0, 3).Draw(t, "life") {
			facts = append(facts, of(id, f))
		}
		if rapid.Bool().Draw(t, "learnt") {
			facts = append(facts, fact.TrustChanged{Task: fmt.Sprint("task ", n%2), Service: s, From: 500_000,
				To: guild.Trust(rapid.Int64Range(100_000, 900_000).Draw(t, "to")), First: n%3 == 0, Job: job, Attempt: id})
		}
		for _, f := range facts {
			seq := len(all) + 1
			all = append(all, fact.Entry{Seq: uint64(seq), At: int64(seq) * 7_000_000, Facts: []fact.Fact{f}})
		}
	}
	return all
}

func TestARestoredFoldGoesOnAsIfNothingHadHappened(t *testing.T) {
	foldtest.GoesOn(t, func() *Fold { return newFold(t) }, history, nil)
}

func TestAGarbledSnapshotIsRefusedAndChangesNothing(t *testing.T) {
	f := newFold(t)
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.JobOpened{Job: guild.JobID{1}, Task: "python"}}})
	foldtest.Refuses(t, f, "{}", `{"table":7}`)
}
