package jobs

import (
	"slices"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// applyToAttempt applies a fact to its attempt. A transition that the table of states does not allow cannot be in the
// journal, because every decision checks it first; if one is there all the same, the attempt keeps its state.
func (s *state) applyToAttempt(one fact.Fact, at int64) {
	s.applyToDeals(one)
	s.updateBackoff(one, at)
	switch one := one.(type) {
	case fact.AttemptRequested:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.Move(guild.Requested)
			a.Asked, a.Silence = at, max(a.Silence, one.Silence)
		})
	case fact.AttemptProgressed:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.Silence, a.Heard, a.Last = max(a.Silence, one.Silence), a.Heard+1, at
			if one.Capacity != nil {
				a.Capacity, a.Reported = one.Capacity, at
			}
			a.Words = append(slices.Clip(a.Words), one.Event)
			a.Words = a.Words[max(0, len(a.Words)-maxWords):]
			if one.Status == string(nip90.Success) && a.Claimed == 0 {
				a.Claimed = at
			}
			if one.Fault {
				a.Broke = one.Text
			}
		})
	case fact.AttemptQuoted:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			if a.Move(guild.Quoted) == nil {
				a.Quote = one.Amount
			}
			a.Silence = max(a.Silence, one.Silence)
		})
	case fact.AttemptDelivered:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.Move(guild.Delivered)
			a.Result, a.Delivery, a.Size, a.Away, a.Over = one.Result, one.Delivery, one.Size, one.Away, at
			a.Answer, a.LeftOut, a.Usage = one.Answer, one.NudgesLeftOut, one.Usage
			if one.Bill != nil {
				a.Held = one.Bill.Held(one.Attempt)
			}
		})
	case fact.AttemptCompared:
		s.changeAttempt(one.Attempt, func(a *Attempt) { a.Agrees = one.With })
	case fact.AttemptFetched:
		s.changeAttempt(one.Attempt, func(a *Attempt) { a.Away = nil })
	case fact.AttemptRefused:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.Later = a.end(guild.Refused, one.Reason, at) == nil && one.Later
			a.Answered, a.Unpaid = one.Event, one.Unpaid
		})
	case fact.AttemptExpired:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.end(guild.Expired, one.Reason, at)
			a.Deletion = one.Deletion
		})
	case fact.AttemptCancelled:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.end(guild.Cancelled, "taken back", at)
			a.Deletion = one.Deletion
		})
	case fact.AttemptParked:
		s.changeAttempt(one.Attempt, func(a *Attempt) { a.end(guild.Parked, one.Reason, at) })
	case fact.AttemptUndecided:
		s.changeAttempt(one.Attempt, func(a *Attempt) { a.end(guild.Undecided, one.Reason, at) })
	case fact.AttemptJudged:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			if a.end(guild.StateFor(one.Verdict.Outcome), one.Verdict.Cause, at) == nil {
				a.Verdict, a.Stored, a.Whole = short(one.Verdict), one.Stored, one.Whole
			}
		})
	case fact.AttemptDisputed:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			was := a.Outcome()
			if a.Move(guild.Disputed) == nil {
				a.Ended = was
			}
		})
	case fact.AttemptDeferred: // the provider has its time after the owner's
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.Deferred, a.Silence = at, a.Silence+max(0, one.Until-at)
		})
	case fact.AttemptHeld:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			if a.Deferred > 0 {
				a.Deferred, a.Idle = 0, at-a.Deferred
			}
			a.Held = &one
			switch {
			case one.Amount == 0:
				a.Held = nil
			case (one.Rail == "lightning" || one.Ahead) && a.State.Waiting(): // for the wallet, and then for the work
				a.Silence = max(a.Silence, at+paidSilence.Milliseconds(), one.Until)
			}
		})
	case fact.AttemptReleased:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			if a.Held != nil && a.Held.Rail == "lightning" || one.Prepaid() {
				a.Move(guild.Paid)
			} else {
				a.Move(guild.Released)
			}
			a.Got, a.Ahead = one.Amount, one.Prepaid()
		})
	case fact.AttemptRefunded:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.Move(guild.Refunded)
			a.Back = true
		})
	case fact.AttemptRecorded:
		s.changeAttempt(one.Attempt, func(a *Attempt) {
			a.Move(guild.Recorded)
			a.Receipt = one.Receipt
		})
	}
}

func (a *Attempt) end(to guild.State, reason string, at int64) error {
	err := a.Move(to)
	if err == nil {
		a.Reason, a.Over = reason, at
	}
	return err
}

// short returns a verdict with only the first few tests that did not pass. The whole verdict is in the journal.
func short(v guild.Verdict) *guild.Verdict {
	const most = 10
	var failed []guild.Test
	for _, t := range v.Tests {
		if t.State != guild.TestPassed && len(failed) < most {
			failed = append(failed, t)
		}
	}
	v.Tests = failed
	return &v
}

// paidSilence is the time in which a provider must be heard of whose invoice is about to be paid.
const paidSilence = 15 * time.Minute
