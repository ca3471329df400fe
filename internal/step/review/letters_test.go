package review

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

// letterHistory draws entries that a journal could hold, and some that it could not.
func letterHistory(t *rapid.T) (all []fact.Entry) {
	pick := rapid.IntRange(0, 3)
	at := int64(0)
	for seq := range rapid.IntRange(0, 60).Draw(t, "entries") {
		at += int64(rapid.IntRange(0, 12).Draw(t, "hours")) * time.Hour.Milliseconds()
		s := []person{alice, bob, carol, owner}[pick.Draw(t, "who")].service()
		id, job := nostr.ID{byte(pick.Draw(t, "attempt"))}, guild.JobID{byte(pick.Draw(t, "job"))}
		f := rapid.SampledFrom([]fact.Fact{
			fact.JobOpened{Job: job, Task: python}, fact.JobClosed{Job: job}, fact.AttemptPlanned{Attempt: id, Job: job, Provider: s},
			fact.AttemptJudged{Attempt: id, Verdict: failed(3, 10)}, fact.AttemptRecorded{Attempt: id, Receipt: "r-1"},
			fact.AttemptRecorded{Attempt: id}, fact.AttemptTold{Attempt: id, Message: nostr.ID{byte(seq)}},
			fact.AttemptDisputed{Attempt: id, By: byProvider}, fact.AttemptDisputed{Attempt: id, By: byOwner},
			fact.AttemptParked{Attempt: id}, fact.AttemptExpired{Attempt: id}, fact.AttemptRefused{Attempt: id}, fact.AttemptCancelled{Attempt: id},
		}).Draw(t, "fact")
		all = append(all, fact.Entry{Seq: uint64(seq + 1), Subject: fact.JobSubject(job), At: at, Facts: []fact.Fact{f}})
	}
	return all
}

func TestLettersSnapshot(t *testing.T) {
	foldtest.GoesOn(t, NewLetters, letterHistory, nil)
}

func TestBadLettersSnapshot(t *testing.T) {
	f, job := NewLetters(), guild.JobID{1}
	f.Apply(fact.Entry{Subject: fact.JobSubject(job), Facts: []fact.Fact{fact.JobOpened{Job: job, Task: python},
		fact.AttemptPlanned{Attempt: nostr.ID{1}, Job: job}, fact.AttemptJudged{Attempt: nostr.ID{1}, Verdict: failed(3, 10)}}})
	foldtest.Refuses(t, f, foldtest.Partial(t, f)...)
}

func TestDisputeHoldsReview(t *testing.T) {
	for name, end := range map[string]func(w *world, id nostr.ID){
		"judged again": func(w *world, id nostr.ID) { w.judges(id, guild.Success, 950_000) },
		"cannot be judged again": func(w *world, id nostr.ID) {
			w.Write(jobOf(id), fact.AttemptUndecided{Attempt: id, Reason: "no sandbox"}, fact.AttemptParked{Attempt: id, Reason: "no sandbox"})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, s := newWorld(t, nil), alice.service()
			id := w.works(s, 600_000)
			w.Write(jobOf(id), fact.AttemptDisputed{Attempt: id, By: byProvider, Reason: "why"})
			for range maxRecent + 1 { // many other jobs meanwhile
				w.works(s, 600_000)
			}
			w.Pass(10 * day)
			w.wants(0, "")
			if l, _ := w.fold.line(lineKey(python, s)); !strings.Contains(l.rest(), "disputed") || len(l.Recent) != maxRecent {
				t.Errorf("%s: %q, %d are remembered", name, l.rest(), len(l.Recent))
			}
			end(w, id)
			w.Pass(day)
			w.wants(1, "3.4")
		})
	}
}
