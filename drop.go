package guild

import "fmt"

// Reason is a class of events that change nothing, as the counters show it.
type Reason string

// Why an event with a good signature was dropped all the same.
const (
	Malformed   Reason = "malformed"
	Unexpected  Reason = "unexpected kind"   // no step takes it
	Unrequested Reason = "unknown request"   // it answers nothing we asked
	Stranger    Reason = "stranger"          // not from the provider that was asked
	WrongKind   Reason = "wrong result kind" // not the request's kind + 1000
	Second      Reason = "second result"
	Late        Reason = "late" // after the attempt had ended
	Future      Reason = "from the future"
	Outdated    Reason = "outdated" // an older announcement than the one we hold
	Misdirected Reason = "not for us"
	Flood       Reason = "flood"
	TooLarge    Reason = "too large"
	Ambiguous   Reason = "ambiguous" // it may answer any of several requests
	SelfReview  Reason = "self-review"
	Repeated    Reason = "said before"
)

// DropError says why an incoming event changed nothing.
type DropError struct {
	Reason Reason
	Detail string
}

func (e *DropError) Error() string { return fmt.Sprintf("dropped: %s: %s", e.Reason, e.Detail) }

// Drop makes a *DropError.
func Drop(r Reason, format string, args ...any) error {
	return &DropError{r, fmt.Sprintf(format, args...)}
}
