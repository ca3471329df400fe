package partner

import (
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/nip89"
)

// append writes facts as another step would, and waits until the step has followed.
func (w *world) append(facts ...fact.Fact) {
	w.Helper()
	if w.light() {
		w.write(facts...)
		w.settle()
		return
	}
	w.Write(fact.MeetingSubject, facts...)
	synctest.Wait()
}

// meets has a meeting with one benchmark for each end, and ends it with a state.
func (w *world) meets(s guild.Service, to guild.ProviderState, ends ...func(nostr.ID) fact.Fact) {
	w.Helper()
	w.meetsFor("", s, to, ends...)
}

// meetsFor is like meets, for a purpose.
func (w *world) meetsFor(purpose string, s guild.Service, to guild.ProviderState, ends ...func(nostr.ID) fact.Fact) {
	w.Helper()
	w.attempts++
	id := string(rune('a' + w.attempts))
	w.append(fact.MeetingBegan{Meeting: id, Service: s, Purpose: purpose})
	for n, end := range ends {
		w.attempts++
		job, attempt := guild.JobID{byte(w.attempts)}, nostr.ID{byte(w.attempts)}
		during := w.fold.Provider(s).State
		w.append(fact.JobOpened{Job: job, Meeting: &fact.Benchmark{Meeting: id, Run: n + 1}}, fact.AttemptPlanned{Attempt: attempt, Job: job, Provider: s})
		w.append(end(attempt))
		w.append(fact.JobClosed{Job: job})
		if got := w.fold.Provider(s).State; got != during && got != guild.Removed {
			w.Errorf("run %d moved the provider from %s to %s", n+1, during, got)
		}
	}
	w.append(fact.MeetingEnded{Meeting: id, Service: s, To: to, Cause: "met"})
}

func TestMeetingMovesProvider(t *testing.T) { // section 3.2.3
	good, poor, failed := judged(guild.Success, 900_000), judged(guild.Partial, 700_000), judged(guild.Failure, 0)
	for _, c := range []struct {
		name string
		runs []func(nostr.ID) fact.Fact
		to   guild.ProviderState
		want guild.ProviderState
		away time.Duration
	}{
		{"three successes", []func(nostr.ID) fact.Fact{good, good, good}, guild.Active, guild.Active, 0},
		{"two successes, one part", []func(nostr.ID) fact.Fact{good, good, poor, good, poor}, guild.Active, guild.Active, 0},
		{"one success, two failures", []func(nostr.ID) fact.Fact{good, failed, failed}, guild.Conditional, guild.Conditional, 0},
		{"three failures", []func(nostr.ID) fact.Fact{failed, failed, failed}, guild.Unqualified, guild.Unqualified, 30 * day},
		{"not good enough", []func(nostr.ID) fact.Fact{good, failed, failed, failed, failed}, guild.Unqualified, guild.Unqualified, day},
		{"silence", []func(nostr.ID) fact.Fact{silent}, "", guild.Unresponsive, day},
		{"nothing was learned", nil, "", guild.Seen, 0},
		{"a violation at once", []func(nostr.ID) fact.Fact{judged(guild.Violation, 0)}, guild.Active, guild.Removed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := newWorld(t), newProvider(1).service("a")
				w.meets(s, c.to, c.runs...)
				got := w.fold.Provider(s)
				until := int64(0)
				if c.away > 0 {
					until = time.Now().Add(c.away).UnixMilli()
				}
				if got.State != c.want || got.Until != until {
					t.Errorf("%s until %d, want %s until %d", got.State, got.Until, c.want, until)
				}
				if w.leftover() != 0 {
					t.Errorf("left over: %s", foldtest.Snapshot(t, w.fold))
				}
			})
		})
	}
}

func TestBenchmarkingDuringMeeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t), newProvider(1).service("a")
		w.append(fact.MeetingBegan{Meeting: "m", Service: s})
		w.wantState(s, guild.Benchmarking)
		w.append(fact.MeetingEnded{Meeting: "m", Service: s, To: guild.Active})
		w.wantState(s, guild.Active)
		w.append(fact.MeetingBegan{Meeting: "n", Service: s})
		w.wantState(s, guild.Active) // it was ordered by hand, so the provider keeps its work
		w.append(fact.MeetingEnded{Meeting: "n", Service: s, To: guild.Unqualified})
		w.wantState(s, guild.Warned)
	})
}

// TestMeetingBegunTooLate checks that the move that begins a meeting does not hide the meeting's result. The two have
// different guards, so the end may be recorded while the move is being decided.
func TestMeetingBegunTooLate(t *testing.T) {
	f, s := NewFold(policy.Specification()), guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 3}), D: "d"}
	for i, one := range []fact.Fact{
		fact.ProviderMoved{Service: s, From: guild.Seen, To: guild.Active},
		fact.ProviderMoved{Service: s, From: guild.Active, To: guild.Suspended, Signal: fact.SignalTimeouts},
		fact.MeetingBegan{Meeting: "m", Service: s, Task: "python", Asked: true},
		fact.MeetingEnded{Meeting: "m", Service: s, Task: "python", To: guild.Active, Runs: 3},
		fact.ProviderMoved{Service: s, From: guild.Suspended, To: guild.Benchmarking, Meeting: "m"},
	} {
		f.Apply(fact.Entry{Seq: uint64(i + 1), At: int64(i + 1), Facts: []fact.Fact{one}})
	}
	f.View(func(st *state) {
		r := st.Services.Of(registry.IDOf(s))
		next, ok := rules{f, st}.next(r, live{}, 10)
		if !ok || next.From != guild.Benchmarking || next.To != guild.Active {
			t.Errorf("next from %s: %+v, want active", r.state(), next)
		}
	})
}

func TestCooldownGrows(t *testing.T) { // section 3.4.3
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t), newProvider(1).service("a")
		for _, want := range []time.Duration{day, 3 * day, 7 * day, 30 * day, 30 * day} {
			w.meets(s, guild.Unqualified, judged(guild.Failure, 0), judged(guild.Success, 900_000))
			if got := time.Until(time.UnixMilli(w.fold.Provider(s).Until)); got != want {
				t.Errorf("left alone for %v, want %v", got, want)
			}
		}
		w.meets(s, guild.Active, judged(guild.Success, 900_000))
		if r, _, _ := w.fold.record(registry.IDOf(s)); r.Failed != 0 {
			t.Error("a success does not reset the failed evaluations")
		}
	})
}

// announcedAt has p announce a service some time before now.
func (w *world) announcedAt(p provider, h nip89.Handler, ago time.Duration) {
	w.Helper()
	e := h.Event()
	e.CreatedAt = nostr.Timestamp(time.Now().Add(-ago).Unix())
	if err := w.observe(p, e); err != nil {
		w.Fatal(err)
	}
	w.append(fact.JobOpened{}) // any fact wakes the runner
}

func TestStaleAndArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		s := alice.service("alice")
		w.announcedAt(alice, python("alice"), 90*day-time.Minute)
		w.append(fact.ProviderMoved{Service: s, From: guild.Seen, To: guild.Active})
		w.wantState(s, guild.Stale) // 30 days have passed
		w.attempt(s, func(id nostr.ID) fact.Fact { return fact.AttemptProgressed{Attempt: id} })
		w.wantState(s, guild.Active) // an answered probe brings it back
		w.attempt(s, func(id nostr.ID) fact.Fact {
			return fact.ProviderMoved{Service: s, From: guild.Active, To: guild.Stale}
		})
		w.wantState(s, guild.Active) // and keeps it active
	})
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		s := alice.service("alice")
		w.announcedAt(alice, python("alice"), 30*day-time.Minute)
		w.append(fact.ProviderMoved{Service: s, From: guild.Seen, To: guild.Active})
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		w.wantState(s, guild.Active)
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantState(s, guild.Stale)
	})
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		s := alice.service("alice")
		w.announcedAt(alice, python("alice"), 90*day-time.Minute)
		w.append(fact.ProviderMoved{Service: s, From: guild.Seen, To: guild.Stale})
		w.wantState(s, guild.Stale)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantState(s, guild.Archived)
		if _, ok := w.registry.Offer(s); !ok || len(w.offers("python")) != 0 {
			t.Error("an archived service is not kept, or it is offered")
		}
		last := w.Journal.Last()
		time.Sleep(time.Hour)
		if w.Journal.Last() != last {
			t.Error("that it is archived is recorded again")
		}
		w.announcedAt(alice, python("alice"), 0)
		w.wantState(s, guild.Seen)
	})
}

func TestStrangersAreNotMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 20 {
			e := nip89.Handler{D: "x", Tasks: []string{"python"}}.Event()
			e.CreatedAt = nostr.Timestamp(time.Now().Add(-time.Duration(n) * 10 * 24 * time.Hour).Unix())
			if err := w.observe(newProvider(byte(n+1)), e); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if w.Journal.Last() != 0 || len(w.Due(time.Now())) != 0 {
			t.Errorf("%d entries", w.Journal.Last())
		}
	})
}
