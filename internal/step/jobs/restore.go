package jobs

import (
	"context"
	"fmt"

	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// isOld reports whether a delivery is from before this process and was not checked yet: the machine may have lost power
// before the copy was on the disk.
func (j *Jobs) isOld(job *Job, a Attempt) bool {
	_, seen := j.whole.Load(a.ID)
	return job.Last <= j.born && !seen
}

// restore makes the copy of a delivery again from the result event in the journal, if it is damaged, before it is judged.
func (j *Jobs) restore(job *Job, a Attempt) due.Work {
	return due.Work{
		Key: "restore the delivery of " + a.ID.Hex(), Guard: fact.JobSubject(job.Job), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			if _, err := j.c.Blobs.ReadAll(a.Delivery, maxDelivery); err != nil {
				if err := j.copyAgain(ctx, job, a); err != nil {
					return nil, err
				}
			}
			j.whole.Store(a.ID, true)
			return func(*journal.Tx) error { return nil }, nil
		},
	}
}

func (j *Jobs) copyAgain(ctx context.Context, job *Job, a Attempt) error {
	r, err := nip90.ParseResult(*a.Answer, nip90.OpenWith(ctx, j.c.Keyer))
	if err != nil {
		return fmt.Errorf("the result of %.8s: %w", a.ID.Hex(), err)
	}
	p, _, err := j.received(ctx, *a.Answer, r, job)
	if err != nil {
		return fmt.Errorf("the result of %.8s: %w", a.ID.Hex(), err)
	}
	if _, err := j.c.Blobs.PutBytes(ctx, p.Inline); err != nil {
		return fmt.Errorf("the delivery of %.8s: %w", a.ID.Hex(), err)
	}
	return nil
}
