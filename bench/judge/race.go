package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// contestant is one way to run the work.
type contestant struct {
	name string
	lap  func(ctx context.Context) error // returns when all work for it has ended
}

// result has the laps of a contestant over all turns.
type result struct {
	name string
	laps []time.Duration // run one at a time
	many int             // number of laps run several at a time
	took time.Duration   // total time of these
}

// race lets the contestants take turns: A B C A B C and so on. It first warms up each of them.
func race(ctx context.Context, all []contestant, o options) ([]*result, error) {
	results := make([]*result, len(all))
	for i, c := range all {
		results[i] = &result{name: c.name}
		if err := c.lap(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for round := range o.rounds {
		n := o.n/o.rounds + min(1, max(0, o.n%o.rounds-round))
		for i, c := range all {
			if err := results[i].turn(ctx, c, n, o.c); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return results, nil
}

// turn runs n laps one at a time, then n laps width at a time.
func (r *result) turn(ctx context.Context, c contestant, n, width int) error {
	for range n {
		start := time.Now()
		if err := c.lap(ctx); err != nil {
			return err
		}
		r.laps = append(r.laps, time.Since(start))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(width)
	start := time.Now()
	for range n {
		group.Go(func() error { return c.lap(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.took += time.Since(start)
	r.many += n
	return nil
}

// median returns the median of the laps that ran one at a time.
func (r *result) median() time.Duration {
	all := slices.Sorted(slices.Values(r.laps))
	return all[len(all)/2]
}

func (r *result) perSecond() float64 { return float64(r.many) / r.took.Seconds() }
