package guild

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// JobID names a job. On the wire it is the d tag of every request of the job, as 32 hex digits.
type JobID [16]byte

// NewJobID makes a random id.
func NewJobID() JobID {
	var id JobID
	rand.Read(id[:])
	return id
}

// ParseJobID reads what String writes.
func ParseJobID(s string) (JobID, error) {
	var id JobID
	if len(s) != hex.EncodedLen(len(id)) {
		return JobID{}, fmt.Errorf("job id %.80q: want 32 hex digits", s)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return JobID{}, fmt.Errorf("job id %.80q: %w", s, err)
	}
	return id, nil
}

// String returns 32 hex digits.
func (id JobID) String() string { return hex.EncodeToString(id[:]) }

// Short returns the first 8 digits, enough for a person and for the commands that take a job.
func (id JobID) Short() string { return id.String()[:8] }

// MarshalText writes the form of String.
func (id JobID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what String writes.
func (id *JobID) UnmarshalText(b []byte) error {
	parsed, err := ParseJobID(string(b))
	*id = parsed
	return err
}

// KindOf is the NIP-90 kind that requests for a task have by default. The task itself travels in the job_type
// parameter; the kind only routes.
func KindOf(task string) int {
	if strings.HasPrefix(task, "oa.") {
		return 5050
	}
	return 5000
}

// Ending is how a job came out.
type Ending string

// The endings of a job. Open means it has not ended.
const (
	Open         Ending = ""
	JobAccepted  Ending = "accepted"
	JobPartial   Ending = "partial"
	JobRejected  Ending = "rejected"
	JobViolated  Ending = "violated"
	JobUnclaimed Ending = "unclaimed" // nobody took it
	JobTimedOut  Ending = "timed out"
	JobCancelled Ending = "cancelled"
	JobParked    Ending = "parked"
	JobDisagreed Ending = "disagreed" // deliveries were accepted, and too few of them agree
)

// endings orders what an attempt came to by what it means for its job, the best first. A violation outranks a
// mere failure: the person must hear of it.
var endings = []struct {
	attempt State
	job     Ending
}{
	{Accepted, JobAccepted},
	{Violated, JobViolated},
	{Partially, JobPartial},
	{Rejected, JobRejected},
	{Parked, JobParked},
	{Expired, JobTimedOut},
	{Refused, JobUnclaimed},
	{Cancelled, JobCancelled},
}

// EndingOf is what a job with these attempts comes to if nothing more is tried. It is a pure function of the
// attempts: a job has no state of its own.
func EndingOf(attempts []Attempt) Ending {
	for _, e := range endings {
		for i := range attempts {
			if attempts[i].Outcome() == e.attempt || settled(attempts[i].Outcome()) && e.job == JobAccepted {
				return e.job
			}
		}
	}
	return JobUnclaimed
}

// EndingOf is EndingOf for a job whose accepted deliveries must agree, and of which at most so many do. What does not
// agree is neither accepted nor a failure; a violation outranks it.
func (c Criticality) EndingOf(attempts []Attempt, agreeing int) Ending {
	ending := EndingOf(attempts)
	if ending != JobAccepted || agreeing >= c.Quorum() {
		return ending
	}
	for i := range attempts {
		if attempts[i].Outcome() == Violated {
			return JobViolated
		}
	}
	return JobDisagreed
}

// settled reports whether money has moved for an attempt, which only happens after it was accepted.
func settled(s State) bool { return s == Paid || s == Released }
