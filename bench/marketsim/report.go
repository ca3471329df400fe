package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"
)

// report is the output.
type report struct {
	CPUs      int      `json:"cpus"`
	Go        string   `json:"go"`
	Seed      uint64   `json:"seed"`
	Seeds     int      `json:"seeds"`
	Days      int      `json:"days"`
	Providers int      `json:"providers"`
	Jobs      int      `json:"jobs"` // of a market
	Results   []result `json:"results"`
	Rows      []row    `json:"rows"`
	Claims    []claim  `json:"claims"`
}

// span is the mean over the seeds with the least and greatest value.
type span struct {
	Mean  float64 `json:"mean"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// row is the result of one contestant. Money is in msat per job of the market.
type row struct {
	Contestant string `json:"contestant"`
	Utility    span   `json:"utility"`
	Regret     span   `json:"regret"`
	Loss       span   `json:"loss"` // Regret and Benched
	Wasted     span   `json:"wasted"`
	Benched    span   `json:"benched"` // part of Wasted
	Accepted   span   `json:"accepted"`
	Best       span   `json:"best"`
	Kept       span   `json:"kept"`
	Seconds    span   `json:"seconds"`

	Noticed map[character]noticed `json:"noticed"`
	guild   bool
}

// noticed has the work of bad providers of one character, over all seeds.
type noticed struct {
	Given     int     `json:"given"`     // spells with at least one job
	Of        int     `json:"of"`        // spells
	Mean      float64 `json:"mean"`      // jobs until the provider was left alone
	Most      int     `json:"most"`      // the same, maximum of one spell
	Unnoticed int     `json:"unnoticed"` // of Given, spells with work until the end
	Back      int     `json:"back"`      // providers that got work again after they became good
	BackDays  float64 `json:"back_days"` // mean time until then
}

// claim is a conclusion with the number of seeds for which it is true.
type claim struct {
	Contestant string `json:"contestant"`
	Says       string `json:"says"`
	Holds      int    `json:"holds"`
	Of         int    `json:"of"`
}

func newReport(o options, results []result) report {
	r := report{CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), Seed: o.seed, Seeds: o.seeds, Days: o.days, Providers: o.providers,
		Jobs: o.days * o.jobs, Results: results}
	bySeed := map[uint64][]result{}
	for i, one := range results {
		best := results[slices.IndexFunc(results, func(other result) bool { return other.Seed == one.Seed && other.Contestant == oracleName })]
		results[i].Regret = best.Expected - one.Expected
		bySeed[one.Seed] = append(bySeed[one.Seed], results[i])
	}
	names := []string{oracleName}
	for _, p := range peers {
		names = append(names, p.name)
	}
	for _, name := range append(names, o.policies...) {
		var of []result
		for _, one := range results {
			if one.Contestant == name {
				of = append(of, one)
			}
		}
		r.Rows = append(r.Rows, newRow(name, of))
	}
	for _, name := range o.policies {
		r.Claims = append(r.Claims, claims(name, bySeed)...)
	}
	return r
}

func newRow(name string, of []result) row {
	per := func(figure func(result) float64) span {
		return spanOf(of, func(r result) float64 { return figure(r) / float64(max(r.Jobs, 1)) })
	}
	return row{
		Contestant: name, guild: of[0].Guild,
		Utility: per(func(r result) float64 { return r.Expected }), Regret: per(func(r result) float64 { return r.Regret }),
		Loss:   per(result.loss),
		Wasted: per(result.wasted), Benched: per(func(r result) float64 { return float64(r.Benched) }),
		Accepted: per(func(r result) float64 { return float64(r.Accepted) }), Best: per(func(r result) float64 { return float64(r.Best) }),
		Kept: spanOf(of, func(r result) float64 { return float64(r.Kept) }), Seconds: spanOf(of, func(r result) float64 { return r.Seconds }),
		Noticed: noticedIn(of),
	}
}

func spanOf(of []result, figure func(result) float64) span {
	s := span{0, math.Inf(1), math.Inf(-1)}
	for _, r := range of {
		f := figure(r)
		s.Mean += f / float64(len(of))
		s.Least, s.Most = min(s.Least, f), max(s.Most, f)
	}
	return s
}

func noticedIn(of []result) map[character]noticed {
	all := map[character]noticed{}
	for _, c := range characters() {
		var n noticed
		jobs, days := 0, 0.0
		for _, r := range of {
			s := r.Spells[c]
			n.Of, n.Given, n.Most, n.Unnoticed, n.Back = n.Of+s.Spells, n.Given+s.Given, max(n.Most, s.Most), n.Unnoticed+s.Unnoticed, n.Back+s.Back
			jobs, days = jobs+s.Jobs, days+s.After.Hours()/24
		}
		n.Mean, n.BackDays = float64(jobs)/float64(max(n.Given, 1)), days/float64(max(n.Back, 1))
		if n.Of > 0 {
			all[c] = n
		}
	}
	return all
}

// noticedWithin limits the jobs of a degrading provider until it is left alone.
const noticedWithin = 10

// claims returns the goals with the number of seeds for which guild with this policy reaches them.
func claims(policy string, bySeed map[uint64][]result) []claim {
	says := []string{"the loss is lower than every peer's", "less is wasted than by every peer",
		"degradation is noticed within 10 jobs on average", "and in every case", "no steady provider is kept from work"}
	all := make([]claim, len(says))
	for i := range all {
		all[i] = claim{Contestant: policy, Says: says[i], Of: len(bySeed)}
	}
	for _, results := range bySeed {
		own := results[slices.IndexFunc(results, func(r result) bool { return r.Contestant == policy })]
		beats := func(figure func(result) float64) bool {
			return !slices.ContainsFunc(results, func(r result) bool {
				return !r.Guild && r.Contestant != oracleName && figure(r) <= figure(own)
			})
		}
		worse := own.Spells[degrading]
		for i, holds := range []bool{beats(result.loss), beats(result.wasted),
			worse.Jobs <= noticedWithin*worse.Given, worse.Most <= noticedWithin, own.Kept == 0} {
			if holds {
				all[i].Holds++
			}
		}
	}
	return all
}

func (r report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%d providers, %d days, %d jobs, seeds %d to %d, %d CPUs, %s\n", r.Providers, r.Days, r.Jobs, r.Seed,
		r.Seed+uint64(r.Seeds)-1, r.CPUs, r.Go)
	fmt.Fprint(w, "msat for each job", map[bool]string{true: "; in brackets the least and the most of any seed"}[r.Seeds > 1], "\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contestant\tutility\tregret\tloss\tloss/lowest peer\twasted\tbenchmarks\twasted/lowest peer\taccepted\tbest\tkept\tseconds\t")
	loss, wasted := r.lowest(func(o row) float64 { return o.Loss.Mean }), r.lowest(func(o row) float64 { return o.Wasted.Mean })
	for _, o := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.2f\t%s\t%.0f\t%.2f\t%.1f %%\t%.0f %%\t%s\t%.0f\t\n", o.title(), r.span(o.Utility, "%.0f"), r.span(o.Regret, "%.0f"),
			r.span(o.Loss, "%.0f"), o.Loss.Mean/loss, r.span(o.Wasted, "%.0f"), o.Benched.Mean, o.Wasted.Mean/wasted, 100*o.Accepted.Mean, 100*o.Best.Mean,
			r.span(o.Kept, "%.3g"), o.Seconds.Mean)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.writeNoticed(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, c := range r.Claims {
		fmt.Fprintf(w, "guild %s: %s: %d of %d seeds\n", c.Contestant, c.Says, c.Holds, c.Of)
	}
	return nil
}

// writeNoticed prints how many jobs bad providers got.
func (r report) writeNoticed(w io.Writer) error {
	fmt.Fprint(w, "\njobs until a bad one was left alone, where it was given any: mean (most; share of the cases that were never left alone)\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "contestant\t")
	var columns []character
	for _, c := range characters() {
		if _, bad := r.Rows[0].Noticed[c]; bad {
			columns = append(columns, c)
			fmt.Fprint(t, c, "\t")
		}
	}
	fmt.Fprintln(t, "back after\t")
	for _, o := range r.Rows {
		fmt.Fprintf(t, "%s\t", o.title())
		for _, c := range columns {
			n := o.Noticed[c]
			switch {
			case n.Given == 0:
				fmt.Fprint(t, "–\t")
			default:
				fmt.Fprintf(t, "%.1f (%d; %.0f %%)\t", n.Mean, n.Most, 100*float64(n.Unnoticed)/float64(n.Given))
			}
		}
		n := o.Noticed[recovering]
		fmt.Fprintf(t, "%.1f days, %d of %d\t\n", n.BackDays, n.Back, n.Of)
	}
	return t.Flush()
}

func (o row) title() string {
	if o.guild {
		return "guild " + o.Contestant
	}
	return o.Contestant
}

// lowest returns the lowest value of all peers.
func (r report) lowest(figure func(row) float64) float64 {
	least := math.Inf(1)
	for _, o := range r.Rows {
		if !o.guild && o.Contestant != oracleName {
			least = min(least, figure(o))
		}
	}
	return least
}

func (r report) span(s span, format string) string {
	if r.Seeds == 1 {
		return fmt.Sprintf(format, s.Mean)
	}
	return fmt.Sprintf(format+" ["+format+"–"+format+"]", s.Mean, s.Least, s.Most)
}
