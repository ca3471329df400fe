package jobs

import (
	"time"

	"guild/internal/due"
	"guild/internal/fact"
)

// solicited notes that everybody was asked for an offer.
func (j *Job) solicited(s fact.JobSolicited) { j.Solicited = &s }

// offered notes an offer.
func (j *Job) offered(o fact.JobOffered) { j.Offers = append(j.Offers, o) }

// dueForOffers is what an open job needs before anybody is asked to do it. waits is false once the offers are in.
func (j *Jobs) dueForOffers(job *Job, now time.Time) (work []due.Work, waits bool) { return nil, false }
