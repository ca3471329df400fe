package guild

import "fmt"

// Reason is the reason for which an event is dropped, as the counters name it.
type Reason string

// Reasons to drop an event with a valid signature.
const (
	Malformed   Reason = "malformed"
	Unexpected  Reason = "unexpected kind"   // not used by any step
	Unrequested Reason = "unknown request"   // not an answer to our requests
	Stranger    Reason = "stranger"          // not from the asked provider
	WrongKind   Reason = "wrong result kind" // not the request's kind + 1000
	Second      Reason = "second result"
	Late        Reason = "late" // after the attempt had ended
	Future      Reason = "from the future"
	Outdated    Reason = "outdated" // older than the announcement we have
	Misdirected Reason = "not for us"
	Flood       Reason = "flood"
	TooLarge    Reason = "too large"
	Ambiguous   Reason = "ambiguous" // can answer several requests
	SelfReview  Reason = "self-review"
	Repeated    Reason = "said before"

	// Inconsistent means that a checkpoint does not follow from an earlier one of the same journal.
	Inconsistent Reason = "inconsistent checkpoint"
)

// DropError reports that an incoming event was dropped and changed nothing.
type DropError struct {
	Reason Reason
	Detail string
}

func (e *DropError) Error() string { return fmt.Sprintf("dropped: %s: %s", e.Reason, e.Detail) }

// Drop returns a *DropError.
func Drop(r Reason, format string, args ...any) error {
	return &DropError{r, fmt.Sprintf(format, args...)}
}
