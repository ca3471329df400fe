package jobs

import (
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fold"
)

// patienceWith is when our patience with a new attempt ends, if it takes its first word as long as may be: what is
// configured by the factor of its task, and never beyond the job's deadline (the partnership protocol, section 5.3.2).
func (j *Jobs) patienceWith(job *Job, now time.Time) time.Time {
	silence := j.c.Patience.Silence
	if j.c.Factor != nil {
		if factor := j.c.Factor(job.Task); factor > 0 {
			silence = time.Duration(silence.Milliseconds()*int64(factor)/guild.Micro) * time.Millisecond
		}
	}
	return sooner(now.Add(min(silence, job.deadline().Sub(now))), job.deadline())
}

// atOnce is how many requests a provider may have not answered: what the variable says, or what is configured where it
// says nothing (section 5.3.3).
func (j *Jobs) atOnce(p nostr.PubKey) int {
	if j.c.AtOnce != nil {
		if n, ok := j.c.AtOnce(p); ok {
			return max(n, 1)
		}
	}
	return j.c.Limits.AtOnce
}

// full reports whether all providers together have as many requests to answer as the variable allows, when so many
// are given away that no fact says yet.
func (j *Jobs) full(beside int) bool {
	if j.c.AllAtOnce == nil {
		return false
	}
	most, limited := j.c.AllAtOnce()
	return limited && j.fold.unanswered()+beside >= max(most, 1)
}

// unanswered is the number of requests that are not answered.
func (f *Fold) unanswered() int {
	return fold.Read(f.State, func(s *state) int { return s.traffic.unanswered })
}
