package jobs

import (
	"fmt"
	"time"

	"guild"
)

// Waits says in a sentence why an open job asks nobody at the moment, and until when that stays so as far as that is
// known, or "" where it waits for nothing but those who were asked, or is over.
func (j *Jobs) Waits(id guild.JobID) string {
	job, ok := j.fold.Job(id)
	if !ok || job.Ending != guild.Open || job.Cancelled {
		return ""
	}
	now := j.c.Now()
	if _, waits := j.dueForInputs(job); waits {
		return "the jobs that it builds on are not done"
	}
	if job.Open && (job.Solicited == nil || now.Before(time.UnixMilli(job.Solicited.Until))) {
		return "providers may still offer to do it"
	}
	v := j.view(job, now)
	if v.missing() <= 0 || v.stops() || !now.Before(v.deadline()) {
		return ""
	}
	switch who, a := v.field(), v.asks(); {
	case !a.until.IsZero():
		return a.why
	case who.best != nil:
		return ""
	case who.count > 0 && who.when.Before(v.deadline()):
		return fmt.Sprintf("%s; looked at again by %s", who.why, clock(who.when))
	case who.count > 0:
		return who.why
	case now.Before(v.patience()):
		return fmt.Sprintf("%s; somebody may appear until %s", who.why, clock(v.patience()))
	}
	return ""
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
