package journal

import (
	"context"
	"errors"
)

// catchUp folds the entries of the stream through a sequence. If one of them is missing, the journal stops.
func (j *Journal) catchUp(ctx context.Context, s *store, through uint64) error {
	next := j.state.last() + 1
	for m, err := range s.found(ctx, next, through) {
		if err != nil {
			return err
		}
		if m.seq != next {
			break
		}
		j.state.offer(m)
		next++
	}
	if next <= through {
		j.state.stop(damaged("entry %d cannot be read", next))
	}
	return j.state.reach(ctx, through)
}

// server returns the running server, or starts one if the last could not be restarted.
func (j *Journal) server(ctx context.Context) (*store, error) {
	if s := j.store.Load(); s != nil {
		return s, nil
	}
	return j.revive(ctx, nil)
}

// revive restarts a server that failed. It checks that the new one has all acknowledged entries, and folds those that were
// stored and not acknowledged. If another caller has replaced the failed one already, revive returns its replacement.
func (j *Journal) revive(ctx context.Context, failed *store) (*store, error) {
	j.exchange <- struct{}{}
	defer func() { <-j.exchange }()
	if j.closing.Err() != nil {
		return nil, ErrClosed
	}
	if s := j.store.Load(); s != nil {
		if s != failed {
			return s, nil
		}
		j.o.Log.Warn("the journal's server does not answer and is started again")
		j.store.Store(nil)
		s.stop()
	}
	if err := j.space.room(); err != nil {
		return nil, err
	}
	s, err := j.serve(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.resume(ctx, s); err != nil {
		s.stop()
		return nil, err
	}
	j.store.Store(s)
	return s, nil
}

// resume checks that a restarted server has the last folded entry, and folds those after it.
func (j *Journal) resume(ctx context.Context, s *store) error {
	last, leaf := j.state.newest()
	extent, err := s.extent(ctx)
	if err != nil {
		return err
	}
	err = s.matches(ctx, extent, last, leaf)
	if _, lost := errors.AsType[*DamagedError](err); lost {
		j.state.stop(err)
	}
	if err != nil {
		return err
	}
	return j.catchUp(ctx, s, extent.last)
}
