package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

var killSeed = flag.Uint64("kill-seed", 0, "of the random kills; the time if zero")

// entries reads a node's whole journal.
func entries(t *testing.T, c *control.Client) []fact.Entry {
	t.Helper()
	all, err := journalOf(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// journalOf reads the whole journal of a node that may die meanwhile.
func journalOf(ctx context.Context, c *control.Client) (all []fact.Entry, err error) {
	for r, err := range control.Entries.Lines(ctx, c) {
		if err != nil {
			return nil, err
		}
		e := fact.Entry{}
		if err := json.Unmarshal(r.Entry, &e); err != nil {
			return nil, err
		}
		e.Seq, e.Subject = r.Seq, fact.Subject(r.Subject)
		all = append(all, e)
	}
	return all, nil
}

// told counts the facts about one job by their type, with those of trust.
func told(all []fact.Entry, job string) map[string]int {
	counts := map[string]int{}
	for _, e := range all {
		own := e.Subject == fact.Subject("job."+job)
		for _, f := range e.Facts {
			changed, ok := f.(fact.TrustChanged)
			if own || ok && changed.Job.String() == job {
				counts[f.Type()]++
			}
		}
	}
	return counts
}

// once lists the facts that a job has exactly once if its first provider succeeds.
func once() []string {
	return []string{"job.opened", "attempt.planned", "attempt.delivered", "attempt.judged", "attempt.recorded",
		"trust.changed", "job.closed"}
}

// mustBeDoneOnce fails the test unless a job was accepted in one attempt, and each step happened once.
func mustBeDoneOnce(t *testing.T, all []fact.Entry, job control.Job) {
	t.Helper()
	if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 || job.Attempts[0].Receipt == "" {
		t.Errorf("job %s: %s (%s) after %d attempts", short(job.ID), job.Ending, job.Reason, len(job.Attempts))
	}
	counts := told(all, job.ID)
	for _, name := range once() {
		if counts[name] != 1 {
			t.Errorf("job %s: %d times %s", short(job.ID), counts[name], name)
		}
	}
	if n := counts["attempt.requested"]; n > 1 { // none if a killed node found the result before it could say so
		t.Errorf("job %s: %d times attempt.requested", short(job.ID), n)
	}
}

// mustBeWorkedOnOnce fails the test unless the provider received one request of a job and ended it once.
func mustBeWorkedOnOnce(t *testing.T, all []fact.Entry, job control.Job) {
	t.Helper()
	received, finished := 0, 0
	for _, e := range all {
		for _, f := range e.Facts {
			switch f := f.(type) {
			case fact.RequestReceived:
				if f.Job == job.ID {
					received++
				}
			case fact.RequestFinished:
				if len(job.Attempts) > 0 && f.Request.Hex() == job.Attempts[0].ID {
					finished++
				}
			}
		}
	}
	if received != 1 || finished != 1 {
		t.Errorf("job %s: received %d times, finished %d times", short(job.ID), received, finished)
	}
}

// theJob returns the only job of a node.
func theJob(t *testing.T, c *control.Client) string {
	t.Helper()
	jobs, err := control.Jobs.Call(t.Context(), c)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	return jobs[0].ID
}

// hire opens a job, and reports whether the node answered before it died.
func hire(ctx context.Context, c *control.Client, bundle []byte, task string) (id string, acknowledged bool) {
	job, err := c.Hire(ctx, strings.NewReader(string(bundle)), control.Hire{Task: task})
	return job.ID, err == nil
}

func TestCustomerSurvivesKills(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	provider := w.settle("provider")
	w.work(provider, "greeting", hello, "--jobs", "4")
	bundle := pack(t, greeting())

	undisturbed := w.settle("undisturbed")
	w.mortalUp(undisturbed, 0).says(t, "ready")
	customer := w.client(undisturbed)
	id, _ := hire(t.Context(), customer, bundle, "")
	job := ending(t, customer, id)
	mustBeDoneOnce(t, entries(t, customer), job)
	last := len(entries(t, customer)) - 1 // but for the policy
	t.Logf("an undisturbed job has %d entries", last)

	for n := 1; n <= last; n++ {
		t.Run(fmt.Sprintf("entry %d", n), func(t *testing.T) {
			t.Parallel()
			w := &town{t, w.dir, w.relay}
			home := w.settle(fmt.Sprintf("customer%d", n))
			w.adopts(home)
			mortal := w.mortalUp(home, n)
			mortal.says(t, "ready")
			customer := w.client(home)
			hire(t.Context(), customer, bundle, "")
			mortal.awaitDeath(t, customer)

			w.up(home)
			job := ending(t, customer, theJob(t, customer))
			all := entries(t, customer)
			mustBeDoneOnce(t, all, job)
			mustHoldWhatWasNoted(t, customer, home)
			mustBeWorkedOnOnce(t, entries(t, w.client(provider)), job)
		})
	}
}

func TestProviderSurvivesKills(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	home := w.settle("customer")
	w.up(home)
	customer := w.client(home)
	bundle := pack(t, greeting())
	for n := 1; n <= 3; n++ { // received, finished, the answer is with a relay
		t.Run(fmt.Sprintf("entry %d", n), func(t *testing.T) {
			t.Parallel()
			w := &town{t, w.dir, w.relay}
			task, provider := fmt.Sprintf("task%d", n), w.settle(fmt.Sprintf("provider%d", n))
			w.adopts(provider)
			mortal := w.mortalWork(provider, task, hello, n)
			mortal.says(t, "ready")
			meet(t, customer, task)
			id, _ := hire(t.Context(), customer, bundle, task)
			mortal.wait(t)

			w.work(provider, task, hello)
			job := ending(t, customer, id)
			mustBeDoneOnce(t, entries(t, customer), job)
			eventually(t, "the answer is with a relay", func(ctx context.Context) error {
				counts := map[string]int{}
				for _, e := range entries(t, w.client(provider)) {
					for _, f := range e.Facts {
						counts[f.Type()]++
					}
				}
				if counts["effect.settled"] != 2 || counts["request.finished"] != 1 {
					return fmt.Errorf("%v", counts)
				}
				return nil
			})
			mustBeWorkedOnOnce(t, entries(t, w.client(provider)), job)
			mustHoldWhatWasNoted(t, w.client(provider), provider)
		})
	}
}

// A provider that is killed while its worker runs starts the worker again, after the first one has ended.
func TestWorkerRunsOnceAtATime(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	gate := filepath.Join(w.dir, "gate")
	if err := os.Mkdir(gate, 0o755); err != nil {
		t.Fatal(err)
	}
	home, provider := w.settle("customer"), w.settle("provider")
	w.up(home)
	customer := w.client(home)
	command := waitFor(gate) + hello
	node := w.work(provider, "greeting", command, "--mount", gate)
	meet(t, customer, "greeting")
	id, _ := hire(t.Context(), customer, pack(t, greeting()), "greeting")
	for range 2 {
		mustRunOnce(t, gate)
		node.kill()
		node = w.work(provider, "greeting", command, "--mount", gate)
	}
	mustRunOnce(t, gate)
	open(t, gate)
	job := ending(t, customer, id)
	mustBeDoneOnce(t, entries(t, customer), job)
}

// A worker that kills its provider's node again and again is given up, and the customer is told why.
func TestWorkerThatKillsItsNode(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	gate := filepath.Join(w.dir, "gate")
	if err := os.Mkdir(gate, 0o755); err != nil {
		t.Fatal(err)
	}
	home, provider := w.settle("customer"), w.settle("provider")
	w.up(home)
	customer := w.client(home)
	node := w.work(provider, "greeting", waitFor(gate), "--mount", gate)
	meet(t, customer, "greeting")
	id, _ := hire(t.Context(), customer, pack(t, greeting()), "greeting")
	for range 3 {
		mustRunOnce(t, gate)
		node.kill()
		node = w.work(provider, "greeting", waitFor(gate), "--mount", gate)
	}
	job := ending(t, customer, id)
	if job.Ending != guild.JobUnclaimed || len(job.Attempts) != 1 || !strings.Contains(job.Attempts[0].Reason, "died 3 times") {
		t.Errorf("%s: %+v", job.Ending, job.Attempts)
	}
	if n := running(t, gate); n != 0 {
		t.Errorf("%d workers are still there", n)
	}
	status, err := control.NodeStatus.Call(t.Context(), w.client(provider))
	if err != nil || len(status.Parked) != 0 {
		t.Errorf("parked %v, %v: nothing is left for a person to do", status.Parked, err)
	}
}

// mustRunOnce waits until a worker runs, and fails the test if it is not alone.
func mustRunOnce(t *testing.T, gate string) {
	t.Helper()
	eventually(t, "the worker runs", func(context.Context) error {
		switch n := running(t, gate); n {
		case 0:
			return fmt.Errorf("it does not run yet")
		case 1:
			return nil
		default:
			t.Fatalf("%d workers run at once", n)
			return nil
		}
	})
}

// running counts the shells of this machine with a text on their command line, without their forks: those of
// workers, which have other process ids inside the sandbox. A process that has ended meanwhile does not count, because a
// fork may end before its parent can be read.
func running(t *testing.T, text string) (n int) {
	t.Helper()
	shells := map[string]bool{}
	for pid, line := range commandLines(t) {
		shells[pid] = strings.HasPrefix(line, "/bin/sh ") && strings.Contains(line, text)
	}
	for pid, is := range shells {
		if parent := parentOf(pid); is && parent != "" && !shells[parent] {
			n++
		}
	}
	return n
}

// commandLines returns the command lines of all readable processes of this machine, by process id.
func commandLines(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil { // it may have ended meanwhile
			lines[filepath.Base(filepath.Dir(file))] = strings.ReplaceAll(string(b), "\x00", " ")
		}
	}
	return lines
}

// parentOf returns the parent of a process, "" if it has ended.
func parentOf(pid string) string {
	b, _ := os.ReadFile("/proc/" + pid + "/status") // it may have ended meanwhile
	for line := range strings.Lines(string(b)) {
		if parent, ok := strings.CutPrefix(line, "PPid:"); ok {
			return strings.TrimSpace(parent)
		}
	}
	return ""
}

// The customer is killed twenty times at random moments while jobs are opened, twice together with its provider: a third
// time could be the third death of one worker, which is then given up. Every acknowledged entry is there, and
// every acknowledged job is accepted once.
func TestTwentyRandomKillsLoseNothing(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	seed := cmp.Or(*killSeed, uint64(time.Now().UnixNano()))
	t.Logf("to do the same again: -kill-seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newTown(t)
	home, provider := w.settle("customer"), w.settle("provider")
	customer, bundle := w.client(home), pack(t, greeting())
	worker := w.mortalWork(provider, "greeting", hello, 0)
	worker.says(t, "ready")
	node := w.mortalUp(home, 0)
	node.says(t, "ready")
	opened := hireUntil(t, customer, bundle, 100*time.Millisecond, 5)
	node.kill()
	for round := range 20 {
		node := w.mortalUp(home, 0)
		life := 20*time.Millisecond + time.Duration(random.Int64N(int64(380*time.Millisecond)))
		maps.Copy(opened, hireUntil(t, customer, bundle, life, 3))
		node.kill()
		if round%8 == 7 {
			worker.kill()
			worker = w.mortalWork(provider, "greeting", hello, 0)
		}
	}
	w.mortalUp(home, 0).says(t, "ready")
	jobs, err := control.Jobs.Call(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		ending(t, customer, job.ID)
		delete(opened, job.ID)
	}
	t.Logf("%d jobs; at most %d claims on one effect", len(jobs), mostClaims(entries(t, customer)))
	if len(opened) > 0 {
		t.Errorf("%d jobs were acknowledged and are not there", len(opened))
	}
	mustAllBeDoneOnce(t, w, home, provider)
}

// mostClaims returns the largest number of claims on one effect.
func mostClaims(all []fact.Entry) (most int) {
	claims := map[string]int{}
	for _, e := range all {
		for _, f := range e.Facts {
			if claimed, ok := f.(fact.EffectClaimed); ok {
				claims[claimed.Effect]++
				most = max(most, claims[claimed.Effect])
			}
		}
	}
	return most
}

// hireUntil opens at most so many jobs until the node dies, and returns those that it acknowledged.
func hireUntil(t *testing.T, customer *control.Client, bundle []byte, life time.Duration, most int) map[string]bool {
	ctx, cancel := context.WithTimeout(t.Context(), life)
	defer cancel()
	opened := map[string]bool{}
	for tick := time.Tick(10 * time.Millisecond); len(opened) < most; {
		if id, ok := hire(ctx, customer, bundle, ""); ok {
			opened[id] = true
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return opened
		}
	}
	<-ctx.Done()
	return opened
}

// mustAllBeDoneOnce checks all jobs of a customer that was killed again and again, in both journals.
func mustAllBeDoneOnce(t *testing.T, w *town, home, provider string) {
	t.Helper()
	customer := w.client(home)
	jobs, err := control.Jobs.Call(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	all, theirs := entries(t, customer), entries(t, w.client(provider))
	for _, job := range jobs {
		mustBeDoneOnce(t, all, job)
		mustBeWorkedOnOnce(t, theirs, job)
	}
	mustHoldWhatWasNoted(t, customer, home)
	mustHoldWhatWasNoted(t, w.client(provider), provider)
	if status, err := control.NodeStatus.Call(t.Context(), customer); err != nil || len(status.Parked) != 0 {
		t.Errorf("parked %v, %v", status.Parked, err)
	}
}
