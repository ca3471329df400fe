package guild

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// JobID identifies a job. On the wire it is the d tag of all requests of the job, as 32 hex digits.
type JobID [16]byte

// NewJobID returns a random id.
func NewJobID() JobID {
	var id JobID
	rand.Read(id[:])
	return id
}

// ParseJobID parses the form of String.
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

// Short returns the first 8 digits, which are enough for people and for commands that take a job.
func (id JobID) Short() string { return id.String()[:8] }

// MarshalText writes the form of String.
func (id JobID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the form of String.
func (id *JobID) UnmarshalText(b []byte) error {
	parsed, err := ParseJobID(string(b))
	*id = parsed
	return err
}

// KindOf returns the default NIP-90 kind of requests for a task. The kind is only for routing; the task is in the
// job_type parameter.
func KindOf(task string) int {
	if strings.HasPrefix(task, "oa.") {
		return 5050
	}
	return 5000
}

// Ending is the end of a job.
type Ending string

// Endings of a job. Open means that the job has not ended.
const (
	Open         Ending = ""
	JobAccepted  Ending = "accepted"
	JobPartial   Ending = "partial"
	JobRejected  Ending = "rejected"
	JobViolated  Ending = "violated"
	JobUnclaimed Ending = "unclaimed" // no provider took it
	JobTimedOut  Ending = "timed out"
	JobCancelled Ending = "cancelled"
	JobParked    Ending = "parked"
	JobDisagreed Ending = "disagreed" // too few accepted deliveries agree
)

// endings orders the ends of attempts by their effect on the job, the best first. A violation comes before a failure,
// because the owner must learn of it.
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

// EndingOf returns the ending of a job with these attempts if no more are made. It is a pure function of the attempts:
// a job has no state of its own.
func EndingOf(attempts []Attempt) Ending {
	for _, e := range endings {
		for i := range attempts {
			outcome := attempts[i].Outcome()
			if e.job == JobAccepted && (outcome == Paid || outcome == Released) { // money moves only after it was accepted
				return e.job
			}
			if outcome == e.attempt {
				return e.job
			}
		}
	}
	return JobUnclaimed
}

// EndingOf returns the ending of a job whose accepted deliveries must agree. agreeing is the size of the largest group
// that agrees. A job with an accepted delivery but too few that agree is neither accepted nor failed: it is disagreed,
// or violated if an attempt was a violation.
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
