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

// result has the turns of a contestant.
type result struct {
	name  string
	turns []turn
}

// turn has the laps of one turn.
type turn struct {
	laps []time.Duration // run one at a time
	took time.Duration   // total time of as many laps, run several at a time
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
	var t turn
	for range n {
		start := time.Now()
		if err := c.lap(ctx); err != nil {
			return err
		}
		t.laps = append(t.laps, time.Since(start))
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
	t.took = time.Since(start)
	r.turns = append(r.turns, t)
	return nil
}

// times returns the laps of all turns that ran one at a time, in milliseconds.
func (r *result) times() []float64 {
	var all []float64
	for _, t := range r.turns {
		for _, lap := range t.laps {
			all = append(all, float64(lap.Microseconds())/1000)
		}
	}
	return all
}

// median returns the median of the turn's laps that ran one at a time.
func (t turn) median() float64 {
	all := slices.Sorted(slices.Values(t.laps))
	return all[len(all)/2].Seconds()
}

// perSecond returns the laps in a second when several ran at a time.
func (t turn) perSecond() float64 { return float64(len(t.laps)) / t.took.Seconds() }

// each returns a figure of each turn.
func (r *result) each(of func(turn) float64) []float64 {
	all := make([]float64, len(r.turns))
	for i, t := range r.turns {
		all[i] = of(t)
	}
	return all
}

// beside returns the ratios of a figure to the floor's, turn by turn.
func (r *result) beside(floor *result, of func(turn) float64) []float64 {
	all := r.each(of)
	for i := range all {
		all[i] /= of(floor.turns[i])
	}
	return all
}
