package guild

import (
	"fmt"
	"slices"

	"fiatjaf.com/nostr"
)

// State is where an attempt is.
type State string

// The states of an attempt, in the order of its life. Which fact leads to each, and which step writes that
// fact, is the table in docs/STATES.md.
const (
	Planned   State = "planned"   // the request event is signed, not yet with a relay
	Requested State = "requested" // a relay said OK
	Quoted    State = "quoted"    // the provider asks for payment first
	Delivered State = "delivered" // a result is here, not yet judged
	Accepted  State = "accepted"
	Partially State = "partial"
	Rejected  State = "rejected"
	Violated  State = "violated"
	Undecided State = "undecided" // the judge itself failed, or a person must rule
	Refused   State = "refused"   // the provider would not, or asked for what we do not pay
	Expired   State = "expired"   // silence, or past the deadline
	Cancelled State = "cancelled"
	Parked    State = "parked" // an effect failed for the last time; a person must look
	Disputed  State = "disputed"
	Paid      State = "paid"
	Released  State = "released"
	Refunded  State = "refunded"
	Recorded  State = "recorded"
)

// next is the whole life of an attempt: from each state, the states that may follow.
var next = map[State][]State{
	Planned:   {Requested, Refused, Delivered, Quoted, Expired, Cancelled, Parked},
	Requested: {Quoted, Delivered, Refused, Expired, Cancelled, Parked},
	Quoted:    {Requested, Delivered, Refused, Expired, Cancelled, Parked},
	Delivered: {Accepted, Partially, Rejected, Violated, Undecided, Refused, Parked},
	Undecided: {Accepted, Partially, Rejected, Violated, Parked},
	Accepted:  {Paid, Released, Refunded, Disputed, Recorded},
	Partially: {Paid, Refunded, Disputed, Recorded},
	Rejected:  {Refunded, Disputed, Recorded},
	Violated:  {Refunded, Disputed, Recorded},
	Disputed:  {Accepted, Partially, Rejected, Violated, Undecided, Parked},
	Recorded:  {Disputed}, // by an objection while the record is young
	Refused:   {Recorded},
	Expired:   {Recorded},
	Cancelled: {Recorded},
	Parked:    {Delivered, Recorded},
	Paid:      {Disputed, Recorded},
	Released:  {Recorded},
	Refunded:  {Recorded},
}

// settledStates are the states in which nobody owes anything for an attempt. They separate the second from the third of what
// follows once it is known how an attempt came out:
//
//  1. Learning: trust and registry move the provider's trust and state, from the very fact that says how it came out (the
//     partnership protocol, section 5.5.1), because the next choice depends on them. They wait for neither 2 nor 3.
//  2. Settling: what is owed is paid, released or refunded. No step does that yet and nothing is owed, so the states that a
//     verdict leads to are settled.
//  3. Recording: record writes the receipt and the trajectory of an attempt that is settled.
//
// The step that pays is added by taking a verdict's states out of this table, and by facts that lead to Paid, Released or
// Refunded.
var settledStates = map[State]bool{
	Accepted: true, Partially: true, Rejected: true, Violated: true,
	Paid: true, Released: true, Refunded: true,
	Refused: true, Expired: true, Cancelled: true, Parked: true,
}

// Settled reports whether nobody owes anything for an attempt in this state, so that its record may be written.
func (s State) Settled() bool { return settledStates[s] }

// CanBecome reports whether the table allows the step.
func (s State) CanBecome(to State) bool { return slices.Contains(next[s], to) }

// Waiting reports whether the provider may still answer.
func (s State) Waiting() bool { return s == Planned || s == Requested || s == Quoted }

// Judged reports whether a verdict led here.
func (s State) Judged() bool {
	return s == Accepted || s == Partially || s == Rejected || s == Violated
}

// StateFor is the state that a verdict leads to.
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

// TransitionError is a step that the table does not allow.
type TransitionError struct {
	Attempt  nostr.ID
	From, To State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("attempt %.8s: %q does not follow %q", e.Attempt.Hex(), e.To, e.From)
}

// Attempt is one request event to one provider. Its id is the id of that event, so a result's e tag names it,
// and publishing it again can never ask twice.
type Attempt struct {
	ID       nostr.ID
	Job      JobID
	Provider Service
	State    State
	Ended    State // the state before Recorded, once recorded

	Delivery Hash   // the delivery bundle, once delivered
	Receipt  string // once recorded
	Reason   string // why it was refused, expired or parked
}

// Move takes the attempt to another state, or returns a *TransitionError.
func (a *Attempt) Move(to State) error {
	if !a.State.CanBecome(to) {
		return &TransitionError{a.ID, a.State, to}
	}
	if to == Recorded {
		a.Ended = a.State
	}
	a.State = to
	return nil
}

// Outcome is the state that counts for the job: the one before Recorded.
func (a *Attempt) Outcome() State {
	if a.State == Recorded {
		return a.Ended
	}
	return a.State
}
