package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// lap has the durations of one request, by the names of the spans.
type lap map[string]time.Duration

// contestant is one implementation of the loop.
type contestant struct {
	name string
	lap  func(ctx context.Context) (lap, error) // returns when all work for it has ended
}

// result has the laps of a contestant over all turns.
type result struct {
	name string
	laps []lap
	took time.Duration
}

// race lets the contestants take turns: A B C A B C and so on.
func race(ctx context.Context, all []contestant, o options) ([]*result, error) {
	results := make([]*result, len(all))
	for i, c := range all {
		results[i] = &result{name: c.name}
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

// turn runs n laps, at most width at the same time.
func (r *result) turn(ctx context.Context, c contestant, n, width int) error {
	laps := make([]lap, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(width)
	start := time.Now()
	for i := range laps {
		group.Go(func() (err error) {
			laps[i], err = c.lap(ctx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.took += time.Since(start)
	r.laps = append(r.laps, laps...)
	return nil
}
