package judge

import (
	"fmt"
	"testing"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
)

var _ fold.Fold = (*Baselines)(nil)

// told is a fold of baselines and the number of its entries.
type told struct {
	b *Baselines
	n int
}

func (j *told) tell(facts ...fact.Fact) {
	j.b.Apply(fact.Entry{Subject: fact.JobSubject(guild.JobID{1}), Facts: facts})
}

// delivered applies the life of one attempt.
func (j *told) delivered(task string, o guild.Outcome, wallMs, latencyMs int64) {
	j.n++
	id, job := nostr.ID{byte(j.n), byte(j.n >> 8), 1}, guild.JobID{byte(j.n), byte(j.n >> 8), 2}
	j.tell(fact.JobOpened{Job: job, Task: task}, fact.AttemptPlanned{Job: job, Attempt: id}, fact.JobClosed{Job: job})
	j.tell(fact.AttemptDelivered{Attempt: id, LatencyMs: latencyMs})
	v := guild.Verdict{Outcome: o, Usage: guild.Usage{WallMs: wallMs, CPUMs: wallMs / 2}}
	j.tell(fact.AttemptJudged{Attempt: id, Verdict: v})
	j.tell(fact.AttemptJudged{Attempt: id, Verdict: v}) // judged again
}

func TestBaselineWindow(t *testing.T) {
	j := &told{b: NewBaselines()}
	for i := range int64(window) {
		j.delivered("code", guild.Success, 9_000, 9_000)
		j.delivered("code", guild.Failure, 1, 1)
		j.delivered("text", guild.Success, i, i)
	}
	for i := range int64(window) {
		j.delivered("code", guild.Success, 2*(i+1), 10*(i+1))
	}
	want := Baseline{Runs: 100, Wall: Distribution{100, 190}, CPU: Distribution{50, 95}, Latency: Distribution{500, 950}}
	if got := j.b.Baseline("code"); got != want || !got.Known() {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := j.b.Baseline("never seen"); got.Known() || got != (Baseline{}) {
		t.Errorf("%+v", got)
	}
}

func TestBaselineKnown(t *testing.T) {
	j := &told{b: NewBaselines()}
	for range fewest - 1 {
		j.delivered("code", guild.Success, 10, 10)
	}
	if j.b.Baseline("code").Known() {
		t.Error("four runs are a baseline")
	}
	j.delivered("code", guild.Success, 30, 10)
	if got := j.b.Baseline("code"); !got.Known() || got.Wall != (Distribution{10, 30}) {
		t.Errorf("%+v", got)
	}
}

func TestUnverifiedIsNoBaseline(t *testing.T) {
	j := &told{b: NewBaselines()}
	j.tell(fact.JobOpened{Job: guild.JobID{1}, Task: "code"}, fact.AttemptPlanned{Job: guild.JobID{1}, Attempt: nostr.ID{1}},
		fact.AttemptJudged{Attempt: nostr.ID{1}, Verdict: guild.Verdict{Outcome: guild.Success, Strength: guild.Unverified}})
	if got := j.b.Baseline("code"); got.Runs != 0 {
		t.Errorf("%+v", got)
	}
}

func TestEndedAttemptsForgotten(t *testing.T) {
	j := &told{b: NewBaselines()}
	for i, end := range []func(nostr.ID) fact.Fact{
		func(id nostr.ID) fact.Fact { return fact.AttemptRefused{Attempt: id} },
		func(id nostr.ID) fact.Fact { return fact.AttemptExpired{Attempt: id} },
		func(id nostr.ID) fact.Fact { return fact.AttemptCancelled{Attempt: id} },
		func(id nostr.ID) fact.Fact { return fact.AttemptRecorded{Attempt: id} },
	} {
		id := nostr.ID{byte(i + 1)}
		j.tell(fact.JobOpened{Job: guild.JobID{1}, Task: "code"}, fact.AttemptPlanned{Job: guild.JobID{1}, Attempt: id}, end(id), fact.JobClosed{Job: guild.JobID{1}})
	}
	if n := fold.Read(j.b.State, func(h *memory) int { return h.Attempts.Len() + h.Jobs.Len() }); n != 0 {
		t.Errorf("left over: %s", foldtest.Snapshot(t, j.b))
	}
}

func TestOldTasksForgotten(t *testing.T) {
	j := &told{b: NewBaselines()}
	for i := range mostTasks + 10 {
		j.delivered(fmt.Sprint("task ", i), guild.Success, 1, 1)
		j.delivered("usual", guild.Success, 1, 1)
	}
	tasks := fold.Read(j.b.State, func(h *memory) int { return h.Tasks.Len() })
	if tasks != mostTasks || j.b.Baseline("usual").Runs != window || j.b.Baseline("task 0").Runs != 0 {
		t.Errorf("%d tasks, usual %+v", tasks, j.b.Baseline("usual"))
	}
}

func TestBaselinesSnapshot(t *testing.T) {
	j := &told{b: NewBaselines()}
	for i := range int64(7) {
		j.delivered("code", guild.Success, i, i)
	}
	j.tell(fact.JobOpened{Job: guild.JobID{9}, Task: "code"}, fact.AttemptPlanned{Job: guild.JobID{9}, Attempt: nostr.ID{9}})
	raw, err := j.b.Freeze()()
	if err != nil {
		t.Fatal(err)
	}
	again := &told{b: NewBaselines(), n: 100}
	if err := again.b.Restore(raw); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*told{j, again} {
		one.tell(fact.AttemptJudged{Attempt: nostr.ID{9}, Verdict: guild.Verdict{Outcome: guild.Success}})
	}
	if got, want := again.b.Baseline("code"), j.b.Baseline("code"); got != want || got.Runs != 8 {
		t.Errorf("%+v, want %+v", got, want)
	}
	foldtest.Refuses(t, again.b, append(foldtest.Partial(t, again.b), `{"jobs":{},"attempts":{},"tasks":{"a":[]},"order":[]}`)...)
}

func TestBaselinesRestored(t *testing.T) {
	foldtest.GoesOn(t, NewBaselines, func(t *rapid.T) (all []fact.Entry) {
		for n := range byte(rapid.IntRange(0, 10).Draw(t, "attempts")) {
			id, job := nostr.ID{n + 1}, guild.JobID{n + 1}
			life := []fact.Fact{
				fact.JobOpened{Job: job, Task: rapid.SampledFrom([]string{"code", "text", "maps"}).Draw(t, "task")},
				fact.AttemptPlanned{Attempt: id, Job: job}, fact.AttemptDelivered{Attempt: id, LatencyMs: int64(n)},
				fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: guild.Success}},
			}
			for _, f := range life[:rapid.IntRange(0, len(life)).Draw(t, "lived")] {
				all = append(all, fact.Entry{Subject: fact.JobSubject(job), Facts: []fact.Fact{f}})
			}
		}
		return all
	}, nil)
}

func TestBaselinesFrozen(t *testing.T) {
	j := &told{b: NewBaselines()}
	for _, task := range []string{"code", "text", "maps"} {
		j.delivered(task, guild.Success, 1, 1)
	}
	want := foldtest.Snapshot(t, j.b)
	encode := j.b.Freeze()
	j.delivered("code", guild.Success, 2, 2)
	if got, err := encode(); err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}
