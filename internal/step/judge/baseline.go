package judge

import (
	"fmt"
	"slices"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Limits of the baselines.
const (
	window    = 100   // runs of a task that are kept
	fewest    = 5     // runs from which on there is a baseline
	noise     = 50    // milliseconds; below this, the load of the machine decides the time of a run
	mostTasks = 1_000 // tasks that are kept
)

// Distribution describes some durations, in milliseconds.
type Distribution struct {
	Median int64 `json:"median_ms"`
	P95    int64 `json:"p95_ms"`
}

// Baseline describes the usual times of a task's successful deliveries. Others do not count, because one that fails at
// once must not make honest ones look slow.
type Baseline struct {
	Runs    int          `json:"runs"`    // number of runs in it
	Wall    Distribution `json:"wall"`    // of the judged runs, by the judge's clock
	CPU     Distribution `json:"cpu"`     // processor time of the judged runs
	Latency Distribution `json:"latency"` // from the request to its result
}

// Known reports whether there were enough runs to compare with.
func (b Baseline) Known() bool { return b.Runs >= fewest }

// wall returns the median run time for comparisons, in milliseconds, or 0 if there is none.
func (b Baseline) wall() int64 {
	if !b.Known() || b.Wall.Median < noise {
		return 0
	}
	return b.Wall.Median
}

// why explains why there is no baseline.
func (b Baseline) why() string {
	if b.Known() {
		return fmt.Sprintf("the baseline of %d ms is too short to compare with", b.Wall.Median)
	}
	return fmt.Sprintf("no baseline yet: %d of %d successful deliveries of the task", b.Runs, fewest)
}

// distribution computes the median and the 95th percentile by nearest rank, so that both are times that were measured.
func distribution(ms []int64) Distribution {
	if len(ms) == 0 {
		return Distribution{}
	}
	sorted := slices.Sorted(slices.Values(ms))
	rank := func(percent int) int64 { return sorted[(len(sorted)*percent+99)/100-1] }
	return Distribution{Median: rank(50), P95: rank(95)}
}

// Baselines is a fold of the latest successful runs of each task.
type Baselines struct{ *fold.State[memory] }

type memory struct {
	Jobs     fold.Table[guild.JobID, string] `json:"jobs"`     // the task of each open job
	Attempts fold.Table[string, underway]    `json:"attempts"` // by event id, from planning to the end
	Tasks    fold.Table[string, []sample]    `json:"tasks"`    // the newest last, window at most
	Order    []string                        `json:"order"`    // of the tasks, the last judged one last; never changed in place
}

type underway struct {
	Task      string `json:"task"`
	LatencyMs int64  `json:"latency_ms"`
}

// sample is one successful run.
type sample struct {
	WallMs    int64 `json:"wall_ms"`
	CPUMs     int64 `json:"cpu_ms"`
	LatencyMs int64 `json:"latency_ms"`
}

// NewBaselines returns an empty fold.
func NewBaselines() *Baselines { return &Baselines{fold.NewState[memory]("baselines", 1)} }

// Check returns an error unless Order has as many entries as there are tasks.
func (h *memory) Check() error {
	if len(h.Order) != h.Tasks.Len() {
		return fmt.Errorf("the order of the snapshot has %d of %d tasks", len(h.Order), h.Tasks.Len())
	}
	return nil
}

// Baseline returns the baseline of a task, from its last hundred successful deliveries.
func (b *Baselines) Baseline(task string) Baseline {
	samples := fold.Read(b.State, func(h *memory) []sample { return h.Tasks.Of(task) }) // never changed in place
	of := func(part func(sample) int64) Distribution {
		ms := make([]int64, 0, len(samples))
		for _, s := range samples {
			ms = append(ms, part(s))
		}
		return distribution(ms)
	}
	return Baseline{
		Runs:    len(samples),
		Wall:    of(func(s sample) int64 { return s.WallMs }),
		CPU:     of(func(s sample) int64 { return s.CPUMs }),
		Latency: of(func(s sample) int64 { return s.LatencyMs }),
	}
}

// Apply implements fold.Fold.
func (b *Baselines) Apply(e fact.Entry) {
	if e.Subject.Noun() != "job" {
		return
	}
	b.Change(func(h *memory) {
		for _, one := range e.Facts {
			h.apply(one)
		}
	})
}

func (h *memory) apply(one fact.Fact) {
	switch one := one.(type) {
	case fact.JobOpened:
		h.Jobs.Set(one.Job, one.Task)
	case fact.JobClosed:
		h.Jobs.Delete(one.Job)
	case fact.AttemptPlanned:
		h.Attempts.Set(one.Attempt.Hex(), underway{Task: h.Jobs.Of(one.Job)})
	case fact.AttemptDelivered:
		if a, ok := h.Attempts.Get(one.Attempt.Hex()); ok {
			a.LatencyMs = one.LatencyMs
			h.Attempts.Set(one.Attempt.Hex(), a)
		}
	case fact.AttemptJudged:
		if a, ok := h.Attempts.Get(one.Attempt.Hex()); ok && a.Task != "" && one.Verdict.Outcome == guild.Success && one.Verdict.Counts() {
			h.remember(a, one.Verdict.Usage)
		}
		h.Attempts.Delete(one.Attempt.Hex()) // a second verdict does not count again
	case fact.AttemptRefused:
		h.Attempts.Delete(one.Attempt.Hex())
	case fact.AttemptExpired:
		h.Attempts.Delete(one.Attempt.Hex())
	case fact.AttemptCancelled:
		h.Attempts.Delete(one.Attempt.Hex())
	case fact.AttemptRecorded:
		h.Attempts.Delete(one.Attempt.Hex()) // a parked one may be judged until then
	}
}

// remember adds a run. It drops the oldest runs, and the task whose last run is the oldest.
func (h *memory) remember(a underway, u guild.Usage) {
	samples := append(slices.Clone(h.Tasks.Of(a.Task)), sample{WallMs: u.WallMs, CPUMs: u.CPUMs, LatencyMs: a.LatencyMs})
	h.Tasks.Set(a.Task, samples[max(0, len(samples)-window):])
	others := slices.DeleteFunc(slices.Clone(h.Order), func(task string) bool { return task == a.Task }) // a snapshot may share it
	h.Order = append(others, a.Task)
	if len(h.Order) > mostTasks {
		h.Tasks.Delete(h.Order[0])
		h.Order = h.Order[1:]
	}
}
