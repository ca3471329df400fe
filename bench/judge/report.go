package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// report is the output.
type report struct {
	Runs   int    `json:"runs"`
	Width  int    `json:"width"`
	Rounds int    `json:"rounds"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	Python string `json:"python"`

	Heats  []heat            `json:"heats"`
	Memory []spread          `json:"memory_mb"` // of one idle sandbox; each shared page counts once
	Calls  []spread          `json:"calls_us"`  // of one call in mode split, by language
	Goals  []goal            `json:"goals"`
	Absent map[string]string `json:"absent"` // reason by tier that was not measured
}

// spread is a figure that was measured several times.
type spread struct {
	Name   string  `json:"name,omitempty"`
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func newSpread(name string, all []float64) spread {
	sorted := slices.Sorted(slices.Values(all))
	return spread{name, round(sorted[len(sorted)/2]), round(sorted[0]), round(sorted[len(sorted)-1])}
}

func (s spread) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median, s.Least, s.Most) }

// heat is a comparison of contestants that do the same work.
type heat struct {
	Name string `json:"name"`
	Rows []row  `json:"rows"` // the first is the reference
}

// row is the result of one contestant. Ratios are relative to the first row of the heat, and of each turn.
type row struct {
	Contestant string `json:"contestant"`
	Millis     spread `json:"ms"`
	PerSecond  spread `json:"per_second"` // Width at a time
	Time       spread `json:"time_ratio"`
	Throughput spread `json:"throughput_ratio"`
}

// goal is a limit for a ratio or size, with the result.
type goal struct {
	Name string  `json:"name"`
	Want float64 `json:"want"`
	Most bool    `json:"most"` // Want is an upper limit, otherwise a lower one
	Got  spread  `json:"got"`
	Met  bool    `json:"met"` // by the median
}

func newHeat(name string, results []*result) heat {
	h := heat{Name: name}
	floor := results[0]
	for _, r := range results {
		h.Rows = append(h.Rows, row{
			Contestant: r.name,
			Millis:     newSpread("", r.times()),
			PerSecond:  newSpread("", r.each(turn.perSecond)),
			Time:       newSpread("", r.beside(floor, turn.median)),
			Throughput: newSpread("", r.beside(floor, turn.perSecond)),
		})
	}
	return h
}

// row returns a contestant's row, or the zero row if it did not take part.
func (h heat) row(contestant string) row {
	for _, r := range h.Rows {
		if r.Contestant == contestant {
			return r
		}
	}
	return row{}
}

// judge compares the results with the goals.
func (r *report) judge() {
	add := func(name string, got spread, want float64, most bool) {
		met := got.Median > 0 && (most && got.Median <= want || !most && got.Median >= want)
		r.Goals = append(r.Goals, goal{Name: name, Want: want, Most: most, Got: got, Met: met})
	}
	tests, empty, one := r.Heats[0], r.Heats[1], r.Heats[2]
	add("own runtime, cold: time beside bare pytest", tests.row(ownCold).Time, 1.15, true)
	add("fork server: throughput beside bare pytest", tests.row(ownFork).Throughput, 3, false)
	add("split judging: throughput beside bare pytest", tests.row(splitJudging).Throughput, 1.3, false)
	if empty.row(bareBwrap).Contestant != "" { // otherwise bwrap is not installed, and the reference differs
		add("start of a sandbox for true: time beside bare bwrap", empty.row(ownCold).Time, 1.5, true)
	}
	add("whole run of one test: time beside the tests alone", one.row(wholeRun).Time, 1.5, true)
	for _, m := range r.Memory {
		add("memory of an idle sandbox in MB: "+m.Name, m, 4, true)
	}
}

func (r *report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%d runs each in %d turns, throughput with %d at a time, %d CPUs, %s, %s; median (least–most)\n",
		r.Runs, r.Rounds, r.Width, r.CPUs, r.Go, r.Python)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, h := range r.Heats {
		fmt.Fprintf(t, "\n%s\tms\truns/s\ttime/floor\truns/floor\t\n", h.Name)
		for _, row := range h.Rows {
			fmt.Fprintf(t, "%s\t%v\t%v\t%v\t%v\t\n", row.Contestant, row.Millis, row.PerSecond, row.Time, row.Throughput)
		}
	}
	fmt.Fprintf(t, "\nmemory of an idle sandbox\tMB\t\n")
	for _, m := range r.Memory {
		fmt.Fprintf(t, "%s\t%v\t\n", m.Name, m)
	}
	fmt.Fprintf(t, "\none call in mode split\tµs\t\n")
	for _, c := range r.Calls {
		fmt.Fprintf(t, "%s\t%v\t\n", c.Name, c)
	}
	fmt.Fprintf(t, "\ngoal\twant\tgot\t\t\n")
	for _, g := range r.Goals {
		sign, verdict := "≥", "missed"
		if g.Most {
			sign = "≤"
		}
		if g.Met {
			verdict = "met"
		}
		fmt.Fprintf(t, "%s\t%s %.2f\t%v\t%s\t\n", g.Name, sign, g.Want, g.Got, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for tier, why := range r.Absent {
		fmt.Fprintf(w, "not measured: %s: %s\n", tier, why)
	}
	return nil
}

func round(f float64) float64 { return math.Round(100*f) / 100 }
