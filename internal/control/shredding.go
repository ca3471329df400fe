package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/step/jobs"
)

// shredTimeout bounds the wait for the erasing, which goes on without the caller.
const shredTimeout = 30 * time.Second

// shredJob erases what a job said.
func (s *Server) shredJob(r *http.Request) (Job, error) {
	j, err := s.find(r)
	if err != nil {
		return Job{}, err
	}
	changed, stop := s.c.Journal.Changed()
	defer stop()
	if err := s.shred(r.Context(), j); err != nil {
		return Job{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), shredTimeout)
	defer cancel()
	for {
		now := s.jobNow(j.Job)
		if now.Erased != 0 {
			return now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, nil
		}
	}
}

func (s *Server) shred(ctx context.Context, j *jobs.Job) error {
	effect := s.c.Pending(fact.JobSubject(j.Job))
	if j.Shredded == 0 && j.Ending != guild.Open && (effect != "" || !s.settled(j)) {
		if effect != "" {
			effect = ": " + effect
		}
		return refused("shred it once that is done; guild job show "+j.Job.Short()+" says how it stands",
			fmt.Errorf("shred job %s: something is still due for it%s", j.Job.Short(), effect))
	}
	err := s.c.Jobs.Shred(ctx, j.Job)
	switch {
	case errors.Is(err, jobs.ErrNotOver) && j.Ending == guild.Open:
		return refused("guild job cancel "+j.Job.Short()+" ends it", err)
	case errors.Is(err, jobs.ErrNotOver):
		return refused("shred it once all its attempts have a record", err)
	case errors.Is(err, jobs.ErrMoneyHeld):
		return refused("guild wallet balance says what is held", err)
	case errors.Is(err, jobs.ErrInput):
		return refused("shred it once that job is over", err)
	case errors.Is(err, jobs.ErrBenchmark):
		return refused("its bundle is generated, and says nothing of yours", err)
	case errors.Is(err, journal.ErrArchiveGone):
		return missing(journal.Hint(err), err)
	}
	return err
}

// findWhole is find for what a shredded job does not have any more.
func (s *Server) findWhole(r *http.Request) (*jobs.Job, error) {
	j, err := s.find(r)
	if err == nil && j.Shredded != 0 {
		err = missing("guild job show "+j.Job.Short()+" says what is left", fmt.Errorf("job %s was shredded", j.Job.Short()))
	}
	return j, err
}
