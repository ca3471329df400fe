package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"
)

// tuning is the number of seeds, from 1 on, by which the setting of each peer is chosen.
const tuning = 20

// markets are those of the report.
var markets = []struct {
	name      string
	providers int
	adversity
}{
	{"8 providers", 8, adversity{tasks: 1}},
	{"30", 30, adversity{tasks: 1}},
	{"200", 200, adversity{tasks: 1}},
	{"8, hostile", 8, adversity{gaming: 1, whitewashing: 1, sybils: 24, tasks: 1}},
	{"30, hostile", 30, adversity{gaming: 3, whitewashing: 1, sybils: 90, tasks: 1}},
	{"200, hostile", 200, adversity{gaming: 20, whitewashing: 5, sybils: 600, tasks: 1}},
}

// compare writes the table of docs/TRUST.md: in each market the best peer, and guild with each policy. The peers have the
// settings that lost least on the tuning seeds. The seeds that count are others.
func (o options) compare(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d days with %d jobs a day, seeds %d to %d; ± is the 95 %% interval of the mean\n\n", o.days, o.jobs, o.seed, o.seed+uint64(o.seeds)-1)
	fmt.Fprint(out, "| market | best peer | its loss |")
	for _, p := range o.policies {
		fmt.Fprintf(out, " guild, `%s` | more than the peer |", p)
	}
	fmt.Fprint(out, "\n|---|---|---|")
	for range o.policies {
		fmt.Fprint(out, "---|---|")
	}
	fmt.Fprintln(out)
	for _, m := range markets {
		o.providers, o.adversity = m.providers, m.adversity
		if err := o.tune(ctx); err != nil {
			return err
		}
		results, err := o.race(ctx)
		if err != nil {
			return err
		}
		best, losses := o.bestPeer(results)
		fmt.Fprintf(out, "| %s | %s %s | %s |", m.name, best.name, best.settings[o.tuned[best.name]].says, intervalOf(losses))
		for _, p := range o.policies {
			own := lossesOf(results, p)
			more := slices.Clone(own)
			for i := range more {
				more[i] -= losses[i]
			}
			fmt.Fprintf(out, " %s | %s |", intervalOf(own), intervalOf(more))
		}
		fmt.Fprintln(out)
	}
	return nil
}

// tune chooses the setting of each peer that loses least on the tuning seeds.
func (o *options) tune(ctx context.Context) error {
	o.tuned = map[string]int{}
	for _, p := range peers {
		sums := make([]float64, len(p.settings))
		work, _ := errgroup.WithContext(ctx)
		for i := range p.settings {
			work.Go(func() error {
				for seed := range uint64(tuning) {
					sums[i] -= o.play(seed+1, p.name, i).Expected
				}
				return ctx.Err()
			})
		}
		if err := work.Wait(); err != nil {
			return err
		}
		o.tuned[p.name] = slices.Index(sums, slices.Min(sums))
	}
	return nil
}

// bestPeer returns the peer with the lowest loss, and its losses by seed.
func (o options) bestPeer(results []result) (best peer, least []float64) {
	for _, p := range peers {
		if losses := lossesOf(results, p.name); least == nil || mean(losses) < mean(least) {
			best, least = p, losses
		}
	}
	return best, least
}

// lossesOf returns a contestant's losses in msat for each job, in the order of the seeds.
func lossesOf(results []result, contestant string) (losses []float64) {
	results = slices.Clone(results)
	slices.SortFunc(results, func(a, b result) int { return int(int64(a.Seed) - int64(b.Seed)) })
	oracle := map[uint64]float64{}
	for _, r := range results {
		if r.Contestant == oracleName {
			oracle[r.Seed] = r.Expected
		}
	}
	for _, r := range results {
		if r.Contestant == contestant {
			r.Regret = oracle[r.Seed] - r.Expected
			losses = append(losses, r.loss()/float64(r.Jobs))
		}
	}
	return losses
}

func mean(of []float64) (sum float64) {
	for _, f := range of {
		sum += f / float64(len(of))
	}
	return sum
}

// intervalOf writes a mean with its 95 % confidence interval, by Student's t distribution.
func intervalOf(of []float64) string {
	m, squares := mean(of), 0.0
	for _, f := range of {
		squares += (f - m) * (f - m)
	}
	n := float64(len(of))
	return fmt.Sprintf("%.0f ± %.0f", m, quantile(len(of)-1)*math.Sqrt(squares/(n-1)/n))
}

// quantile approximates the 97.5 % quantile of Student's t distribution (Cornish and Fisher), to 1 % from four degrees of
// freedom on.
func quantile(freedom int) float64 {
	const z = 1.959964
	n := float64(freedom)
	return z + (z*z*z+z)/(4*n) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*n*n)
}
