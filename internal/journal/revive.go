package journal

import (
	"context"
	"errors"
)

// catchUp folds everything that is stored through a sequence. If some of it is gone, the journal takes nothing more.
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

// server returns the server that runs, or starts one if the last one could not be brought back.
func (j *Journal) server(ctx context.Context) (*store, error) {
	if s := j.store.Load(); s != nil {
		return s, nil
	}
	return j.revive(ctx, nil)
}

// revive replaces a server that failed. What it had stored and not acknowledged is folded; that it has all it
// acknowledged is verified. If another caller has replaced it already, that one's is returned.
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

// resume verifies that a server started again has what it had, and folds what it has beyond that.
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
