package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// report is the output.
type report struct {
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	Rounds int    `json:"rounds"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`

	Heats  []heat   `json:"heats"`
	Memory []memory `json:"memory"`
	Goals  []goal   `json:"goals"`
}

// heat is a comparison of contestants that do the same work on the same number of processors.
type heat struct {
	Name string `json:"name"`
	Rows []row  `json:"rows"`
}

// row is the result of one contestant.
type row struct {
	Contestant string  `json:"contestant"`
	Median     float64 `json:"median_ms"`
	CPU        float64 `json:"cpu_ms"`        // over all processors
	Speed      float64 `json:"times_as_fast"` // relative to the first contestant of the heat; median over the rounds
	Size       int64   `json:"size_bytes,omitempty"`
	Larger     float64 `json:"size_ratio,omitempty"` // relative to the first contestant of the heat
	Peak       float64 `json:"peak_mb"`              // peak resident memory
}

// memory is the peak memory of a contestant with the large tree.
type memory struct {
	Contestant string  `json:"contestant"`
	CPUs       int     `json:"cpus"`
	Peak       float64 `json:"peak_mb"`
}

// goal is a limit for a result, with the result.
type goal struct {
	Name string  `json:"name"`
	Want float64 `json:"want"`
	Most bool    `json:"most"` // Want is an upper limit, otherwise a lower one
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
}

// Contestants of each kind. The first one is the reference of the others.
var (
	packers   = []string{"straight pack", "tar cz", "pack", "pack fast", "pack zstd"}
	unpackers = []string{"unverified unpack", "straight unpack", "tar xz", "unpack"}
	larges    = []string{"pack", "pack zstd", "large gzip best", "large zstd", "large zstd best", "large gzip"}
)

func (s *stand) measure(ctx context.Context) (*report, error) {
	r := &report{Files: s.files, Bytes: s.bytes, Rounds: s.o.rounds, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	for _, processors := range []int{2, 1} {
		for _, kind := range []struct {
			name  string
			names []string
			run   func(context.Context, string, int) (lap, error)
		}{{"pack", packers, s.pack}, {"unpack", unpackers, s.unpack}} {
			h, err := s.heat(ctx, kind.names, processors, kind.run)
			if err != nil {
				return nil, err
			}
			h.Name = fmt.Sprintf("%s on %d", kind.name, processors)
			r.Heats = append(r.Heats, h)
		}
	}
	for _, processors := range []int{2, 8} {
		m, err := s.memory(ctx, processors)
		if err != nil {
			return nil, err
		}
		r.Memory = append(r.Memory, m...)
	}
	r.judge()
	return r, nil
}

// heat lets the contestants take turns. It first runs the first contestant once to warm up the file cache.
func (s *stand) heat(ctx context.Context, names []string, processors int, run func(context.Context, string, int) (lap, error)) (heat, error) {
	laps := make([][]lap, len(names))
	if _, err := run(ctx, names[0], processors); err != nil {
		return heat{}, err
	}
	for range s.o.rounds {
		for i, name := range names {
			l, err := run(ctx, name, processors)
			if err != nil {
				return heat{}, err
			}
			laps[i] = append(laps[i], l)
		}
	}
	var h heat
	for i, name := range names {
		h.Rows = append(h.Rows, newRow(name, laps[i], laps[0]))
	}
	return h, nil
}

func newRow(name string, laps, first []lap) row {
	r := row{Contestant: name, Size: laps[0].size}
	var times, cpus, speeds []float64
	for i, l := range laps {
		times = append(times, float64(l.took)/float64(time.Millisecond))
		cpus = append(cpus, float64(l.cpu)/float64(time.Millisecond))
		speeds = append(speeds, float64(first[i].took)/float64(l.took))
		r.Peak = max(r.Peak, float64(l.peak)/1e6)
	}
	r.Median, r.CPU, r.Speed = median(times), median(cpus), median(speeds)
	if first[0].size > 0 {
		r.Larger = float64(r.Size) / float64(first[0].size)
	}
	return r
}

func median(all []float64) float64 {
	slices.SortFunc(all, cmp.Compare)
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
}

// memory packs the large tree in every form, then opens and unpacks it.
func (s *stand) memory(ctx context.Context, processors int) ([]memory, error) {
	packed := s.fresh()
	defer os.Remove(packed)
	var all []memory
	for _, name := range larges { // the last one is then opened
		l, err := s.run(ctx, name, processors, s.large, packed)
		if err != nil {
			return nil, err
		}
		all = append(all, memory{name, processors, float64(l.peak) / 1e6})
	}
	to := s.fresh()
	defer os.RemoveAll(to)
	for _, name := range []string{"large open", "large unpack"} {
		l, err := s.run(ctx, name, processors, packed, to)
		if err != nil {
			return nil, err
		}
		all = append(all, memory{name, processors, float64(l.peak) / 1e6})
	}
	return all, nil
}

// judge compares the results with the goals.
func (r *report) judge() {
	const mib = 1 << 20 / 1e6
	on := r.row
	r.least("gzip on 2 processors, times as fast as straight-line", 4, on("pack on 2", "pack").Speed)
	r.least("gzip on 1 processor, times as fast as straight-line", 2.5, on("pack on 1", "pack").Speed)
	r.most("gzip, size to straight-line", 1.03, on("pack on 2", "pack").Larger)
	r.least("zstd on 2 processors, times as fast as straight-line", 6, on("pack on 2", "pack zstd").Speed)
	r.most("zstd, size to straight-line", 1, on("pack on 2", "pack zstd").Larger)
	for _, name := range []string{"unpack on 2", "unpack on 1"} {
		r.most(name+", time to unverified", 1.15, 1/on(name, "unpack").Speed)
	}
	peak := 0.0
	for _, m := range r.Memory {
		peak = max(peak, m.Peak)
	}
	r.most("memory in MB, the large tree, everything", 64*mib, peak)
}

func (r *report) row(heat, contestant string) row {
	for _, h := range r.Heats {
		for _, one := range h.Rows {
			if h.Name == heat && one.Contestant == contestant {
				return one
			}
		}
	}
	return row{}
}

func (r *report) least(name string, want, got float64) {
	r.Goals = append(r.Goals, goal{Name: name, Want: want, Most: false, Got: round(got), Met: got >= want})
}

func (r *report) most(name string, want, got float64) {
	r.Goals = append(r.Goals, goal{Name: name, Want: round(want), Most: true, Got: round(got), Met: got <= want})
}

func round(f float64) float64 { return math.Round(f*1000) / 1000 }

func (r *report) writeTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d files, %.1f MB, %d rounds, %d processors, %s\n", r.Files, float64(r.Bytes)/1e6, r.Rounds, r.CPUs, r.Go)
	for _, h := range r.Heats {
		fmt.Fprintf(w, "\n%s\tms\tCPU ms\ttimes as fast\tMB\tsize\tpeak MB\n", h.Name)
		for _, one := range h.Rows {
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\t%.2f\t%.3f\t%.0f\n", one.Contestant, one.Median, one.CPU, one.Speed, float64(one.Size)/1e6, one.Larger, one.Peak)
		}
	}
	fmt.Fprintf(w, "\nlarge tree\tprocessors\tpeak MB\n")
	for _, m := range r.Memory {
		fmt.Fprintf(w, "%s\t%d\t%.0f\n", m.Contestant, m.CPUs, m.Peak)
	}
	fmt.Fprintf(w, "\ngoal\twant\tgot\n")
	for _, g := range r.Goals {
		sign, met := "≥", "missed"
		if g.Most {
			sign = "≤"
		}
		if g.Met {
			met = "met"
		}
		fmt.Fprintf(w, "%s\t%s %g\t%g\t%s\n", g.Name, sign, g.Want, g.Got, met)
	}
	return w.Flush()
}
