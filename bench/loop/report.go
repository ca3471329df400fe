package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// report is the output.
type report struct {
	CPUs        int    `json:"cpus"`
	Go          string `json:"go"`
	Requests    int    `json:"requests"`   // by each contestant
	Concurrency int    `json:"concurrent"` // requests under way at a time
	Rows        []row  `json:"rows"`
	Stages      []row  `json:"stages"`
}

// row is the result of one contestant for one span.
type row struct {
	Contestant string  `json:"contestant"`
	Span       string  `json:"span"`
	PerSecond  float64 `json:"jobs_per_second,omitempty"` // complete jobs
	P50        int64   `json:"p50_us"`
	P99        int64   `json:"p99_us"`
	Ratio50    float64 `json:"p50_ratio,omitempty"` // relative to the floor
	Ratio99    float64 `json:"p99_ratio,omitempty"`
}

func newReport(o options, results []*result) report {
	r := report{CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), Requests: o.n, Concurrency: o.c}
	floor := results[0].row(requestToResult)
	floor.PerSecond = results[0].perSecond()
	r.Rows = append(r.Rows, floor)
	for _, contestant := range results[1:] {
		for i, sp := range compared {
			row := contestant.row(sp.name)
			row.Ratio50, row.Ratio99 = ratio(row.P50, floor.P50), ratio(row.P99, floor.P99)
			if i == 0 {
				row.PerSecond = contestant.perSecond()
			}
			r.Rows = append(r.Rows, row)
		}
		for _, sp := range stages {
			r.Stages = append(r.Stages, contestant.row(sp.name))
		}
	}
	return r
}

func (r *result) perSecond() float64 { return float64(len(r.laps)) / r.took.Seconds() }

func (r *result) row(span string) row {
	all := make([]time.Duration, len(r.laps))
	for i, l := range r.laps {
		all[i] = l[span]
	}
	slices.Sort(all)
	return row{Contestant: r.name, Span: span, P50: percentile(all, 50).Microseconds(), P99: percentile(all, 99).Microseconds()}
}

// percentile returns the smallest value that is not exceeded by at least p percent of the sorted values.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[max(0, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}

func ratio(a, b int64) float64 { return math.Round(100*float64(a)/float64(b)) / 100 }

func (r report) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%d requests each, %d at a time, %d CPUs, %s\n\n", r.Requests, r.Concurrency, r.CPUs, r.Go)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contestant\tspan\tjobs/s\tp50\tp99\tp50/floor\tp99/floor\t")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.Contestant, row.Span, number("%.0f", row.PerSecond),
			microseconds(row.P50), microseconds(row.P99), number("%.2f", row.Ratio50), number("%.2f", row.Ratio99))
	}
	fmt.Fprintln(t, "\t\t\t\t\t\t\t")
	for _, row := range r.Stages {
		fmt.Fprintf(t, "%s\t%s\t\t%s\t%s\t\t\t\n", row.Contestant, row.Span, microseconds(row.P50), microseconds(row.P99))
	}
	return t.Flush()
}

func microseconds(us int64) string { return fmt.Sprintf("%.2f ms", float64(us)/1000) }

// number formats f, or returns "" for 0.
func number(format string, f float64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf(format, f)
}
