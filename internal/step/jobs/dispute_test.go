package jobs

import (
	"testing"
	"testing/synctest"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/step/steptest"
)

func TestDisputedVerdictStandsUntilNext(t *testing.T) {
	for _, c := range []struct {
		first, second guild.Outcome
		was, is       guild.State
		ending        guild.Ending
	}{
		{guild.Success, guild.Violation, guild.Accepted, guild.Violated, guild.JobAccepted},
		{guild.Failure, guild.Success, guild.Rejected, guild.Accepted, guild.JobRejected},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			id := w.opens(Order{Tries: 1})
			request := w.attempt(id).ID
			w.delivers(alice, request, []byte("the work"))
			w.judges(id, c.first)
			w.append(id, fact.AttemptRecorded{Attempt: request, Receipt: "one"})
			closed := *w.ends(id, c.ending)
			for _, step := range []struct {
				fact  fact.Fact
				state guild.State
				stand guild.State
			}{
				{fact.AttemptDisputed{Attempt: request, By: "provider"}, guild.Disputed, c.was},
				{fact.AttemptUndecided{Attempt: request, Reason: "no sandbox"}, guild.Undecided, c.was},
				{fact.AttemptJudged{Attempt: request, Verdict: guild.Verdict{Outcome: c.second}}, c.is, c.is},
				{fact.AttemptRecorded{Attempt: request, Receipt: "two"}, guild.Recorded, c.is},
			} {
				w.append(id, step.fact)
				a := w.attempt(id)
				if a.State != step.state || a.stands() != step.stand {
					t.Errorf("after %s: %s, and %s stands", step.fact.Type(), a.State, a.stands())
				}
				again := NewFold()
				if err := again.Restore([]byte(foldtest.Snapshot(t, w.fold))); err != nil || again.Open() != 0 || w.fold.Open() != 0 {
					t.Errorf("after %s: %d open, %d after a restart, %v", step.fact.Type(), w.fold.Open(), again.Open(), err)
				}
			}
			if a := w.attempt(id); a.Receipt != "two" || a.Verdict.Outcome != c.second {
				t.Errorf("%+v", a)
			}
			if now := w.ends(id, c.ending); now.Closed != closed.Closed || now.Chosen != closed.Chosen || len(w.sent(5000)) != 1 {
				t.Errorf("the job was opened again: %+v", now)
			}
			if times := len(steptest.Facts[fact.JobClosed](w)); times != 1 {
				t.Errorf("it ended %d times", times)
			}
		})
	}
}

func TestOpenJobCountsLaterVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		id := w.opens(Order{})
		first := w.attempt(id)
		w.delivers(alice, first.ID, []byte("the work"))
		w.judges(id, guild.Failure)
		w.wants(id, guild.Rejected, guild.Requested) // bob is asked
		w.append(id, fact.AttemptDisputed{Attempt: first.ID, By: "provider"})
		w.append(id, fact.AttemptJudged{Attempt: first.ID, Verdict: guild.Verdict{Outcome: guild.Success}})
		job := w.ends(id, guild.JobAccepted)
		if job.Chosen != first.ID {
			t.Errorf("chosen is %s", job.Chosen.Hex())
		}
		w.wants(id, guild.Accepted, guild.Cancelled)
	})
}
