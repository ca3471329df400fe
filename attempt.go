package guild

import (
	"fmt"
	"slices"

	"fiatjaf.com/nostr"
)

// State is the state of an attempt.
type State string

// States of an attempt, in the order of its life. docs/API.md says what follows each. The fact that leads
// to a state has its name, such as attempt.quoted; that of a verdict is attempt.judged.
const (
	Planned   State = "planned"   // request event signed, not yet accepted by a relay
	Requested State = "requested" // accepted by a relay
	Quoted    State = "quoted"    // the provider wants payment first
	Delivered State = "delivered" // result received, not yet judged
	Accepted  State = "accepted"  // verdict SUCCESS
	Partially State = "partial"   // verdict PARTIAL
	Rejected  State = "rejected"  // verdict FAILURE or ERROR
	Violated  State = "violated"  // verdict SECURITY_VIOLATION
	Undecided State = "undecided" // the judge failed, or a person must rule
	Refused   State = "refused"   // by the provider, or it asked for more than we pay
	Expired   State = "expired"   // no answer in time, or past the deadline
	Cancelled State = "cancelled"
	Parked    State = "parked"   // an effect failed for the last time; needs a person
	Disputed  State = "disputed" // by the provider; judged again
	Paid      State = "paid"     // over Lightning or before the work, by the verdict or whatever it is
	Released  State = "released" // the provider got what it is owed of the locked money, by our verdict or an arbiter's ruling
	Refunded  State = "refunded" // the locked money is the customer's again
	Recorded  State = "recorded" // receipt and trajectory are written
)

// next has the allowed transitions: for each state, the states that can follow. A provider can answer before we have
// recorded that a relay accepted the request, or when no relay has confirmed it. So all answers can follow Planned.
var next = map[State][]State{
	Planned:   {Requested, Refused, Delivered, Quoted, Expired, Cancelled, Parked},
	Requested: {Quoted, Delivered, Refused, Expired, Cancelled, Parked},
	Quoted:    {Requested, Delivered, Refused, Expired, Cancelled, Parked},
	Delivered: {Accepted, Partially, Rejected, Violated, Undecided, Refused, Cancelled, Parked},
	Undecided: {Accepted, Partially, Rejected, Violated, Cancelled, Parked},
	Accepted:  {Paid, Released, Refunded, Disputed, Recorded},
	Partially: {Paid, Released, Refunded, Disputed, Recorded},
	Rejected:  {Paid, Released, Refunded, Disputed, Recorded},
	Violated:  {Paid, Released, Refunded, Disputed, Recorded},
	Disputed:  {Accepted, Partially, Rejected, Violated, Undecided, Parked},
	Recorded:  {Disputed}, // by an objection, while the record is recent
	Refused:   {Paid, Released, Refunded, Recorded},
	Expired:   {Paid, Released, Refunded, Recorded},
	Cancelled: {Paid, Released, Refunded, Recorded},
	Parked:    {Delivered, Paid, Released, Refunded, Recorded},
	Paid:      {Disputed, Recorded},
	Released:  {Recorded},
	Refunded:  {Recorded},
}

// settledStates are the states in which nothing is owed for an attempt. After an attempt has ended, three things
// follow:
//
//  1. Learning: trust and registry update the provider's trust and state from the same fact that ended the attempt
//     (the partnership protocol, section 5.5.1), because the next choice depends on them. They do not wait for 2 or 3.
//  2. Settling: the money that is locked for it, if there is any (attempt.held), is released or refunded. Without such
//     money nothing is owed, so the states after a verdict count as settled.
//  3. Recording: record writes the receipt and the trajectory of a settled attempt.
var settledStates = map[State]bool{
	Accepted: true, Partially: true, Rejected: true, Violated: true,
	Paid: true, Released: true, Refunded: true,
	Refused: true, Expired: true, Cancelled: true, Parked: true,
}

// Settled reports whether nothing is owed for an attempt in this state, for which no money is held, so that its record may
// be written.
func (s State) Settled() bool { return settledStates[s] }

// CanBecome reports whether the transition from s to to is allowed.
func (s State) CanBecome(to State) bool { return slices.Contains(next[s], to) }

// Waiting reports whether the provider can still answer.
func (s State) Waiting() bool { return s == Planned || s == Requested || s == Quoted }

// Judged reports whether the state is the result of a verdict.
func (s State) Judged() bool {
	return s == Accepted || s == Partially || s == Rejected || s == Violated
}

// StateFor returns the state that a verdict leads to.
func StateFor(o Outcome) State {
	switch o {
	case Success:
		return Accepted
	case Partial:
		return Partially
	case Violation:
		return Violated
	default:
		return Rejected
	}
}

// TransitionError reports a transition that is not allowed.
type TransitionError struct {
	Attempt  nostr.ID
	From, To State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("attempt %.8s: %q does not follow %q", e.Attempt.Hex(), e.To, e.From)
}

// Attempt is one request event to one provider. Its id is that of the event, so the e tag of a result names it.
// Publishing the event again cannot ask twice, because it is the same event.
type Attempt struct {
	ID       nostr.ID
	Job      JobID
	Provider Service
	State    State
	Ended    State // state before money moved or it was recorded

	Delivery Hash   // delivery bundle, once delivered
	Receipt  string // id, once recorded
	Reason   string // reason of a refusal, expiry or parking
}

// Move changes the state of the attempt, or returns a *TransitionError.
func (a *Attempt) Move(to State) error {
	if !a.State.CanBecome(to) {
		return &TransitionError{a.ID, a.State, to}
	}
	if (to == Recorded || to.Moved()) && !a.State.Moved() {
		a.Ended = a.State
	}
	a.State = to
	return nil
}

// Moved reports whether money has moved for the attempt.
func (s State) Moved() bool { return s == Paid || s == Released || s == Refunded }

// Outcome returns the state that counts for the job: the one before money moved or it was recorded.
func (a *Attempt) Outcome() State {
	if a.State == Recorded || a.State.Moved() && a.Ended != "" {
		return a.Ended
	}
	return a.State
}
