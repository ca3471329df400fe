package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// report is the output.
type report struct {
	Runs   int    `json:"runs"`
	Width  int    `json:"width"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	Python string `json:"python"`

	Heats  []heat            `json:"heats"`
	Memory []memory          `json:"memory"`
	Goals  []goal            `json:"goals"`
	Absent map[string]string `json:"absent"` // reason by tier that was not measured
}

// heat is a comparison of contestants that do the same work.
type heat struct {
	Name string `json:"name"`
	Rows []row  `json:"rows"` // the first is the reference
}

// row is the result of one contestant. Ratios are relative to the first row of the heat.
type row struct {
	Contestant string  `json:"contestant"`
	Median     float64 `json:"median_ms"`
	PerSecond  float64 `json:"per_second"` // Width at a time
	Time       float64 `json:"time_ratio"`
	Throughput float64 `json:"throughput_ratio"`
}

// memory is the memory of one idle sandbox, in megabytes; each shared page counts once.
type memory struct {
	Contestant string  `json:"contestant"`
	PSS        float64 `json:"pss_mb"`
}

// goal is a limit for a ratio or size, with the result.
type goal struct {
	Name string  `json:"name"`
	Want float64 `json:"want"`
	Most bool    `json:"most"` // Want is an upper limit, otherwise a lower one
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
}

func newHeat(name string, results []*result) heat {
	h := heat{Name: name}
	floor := results[0]
	for _, r := range results {
		h.Rows = append(h.Rows, row{
			Contestant: r.name,
			Median:     round(float64(r.median().Microseconds()) / 1000),
			PerSecond:  round(r.perSecond()),
			Time:       round(float64(r.median()) / float64(floor.median())),
			Throughput: round(r.perSecond() / floor.perSecond()),
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
	add := func(name string, got, want float64, most bool) {
		met := got > 0 && (most && got <= want || !most && got >= want)
		r.Goals = append(r.Goals, goal{Name: name, Want: want, Most: most, Got: got, Met: met})
	}
	tests, empty := r.Heats[0], r.Heats[1]
	add("own runtime, cold: time beside bare pytest", tests.row(ownCold).Time, 1.15, true)
	add("fork server: throughput beside bare pytest", tests.row(ownFork).Throughput, 3, false)
	add("split judging: throughput beside bare pytest", tests.row(splitJudging).Throughput, 1.3, false)
	if empty.row(bareBwrap).Contestant != "" { // otherwise bwrap is not installed, and the reference differs
		add("start of a sandbox for true: time beside bare bwrap", empty.row(ownCold).Time, 1.5, true)
	}
	for _, m := range r.Memory {
		if m.Contestant == ownCold {
			add("memory of an idle sandbox in MB", m.PSS, 4, true)
		}
	}
}

func (r *report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%d runs each, throughput with %d at a time, %d CPUs, %s, %s\n", r.Runs, r.Width, r.CPUs, r.Go, r.Python)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, h := range r.Heats {
		fmt.Fprintf(t, "\n%s\tmedian\truns/s\ttime/floor\truns/floor\t\n", h.Name)
		for _, row := range h.Rows {
			fmt.Fprintf(t, "%s\t%.1f ms\t%.1f\t%.2f\t%.2f\t\n", row.Contestant, row.Median, row.PerSecond, row.Time, row.Throughput)
		}
	}
	fmt.Fprintf(t, "\nmemory of an idle sandbox\tPSS\t\n")
	for _, m := range r.Memory {
		fmt.Fprintf(t, "%s\t%.1f MB\t\n", m.Contestant, m.PSS)
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
		fmt.Fprintf(t, "%s\t%s %.2f\t%.2f\t%s\t\n", g.Name, sign, g.Want, g.Got, verdict)
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
