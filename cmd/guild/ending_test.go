package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/control"
)

func TestANodeThatHangsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		hang := make(chan struct{})
		defer close(hang)
		began := time.Now()
		err := endWithin(ctx, farewell, func() error { <-hang; return nil })
		if took := time.Since(began); err == nil || hintOf(err) == "" || took != time.Hour+farewell {
			t.Errorf("got %v with the hint %q after %v, want an error after %v", err, hintOf(err), took, time.Hour+farewell)
		}
		if err := endWithin(t.Context(), farewell, func() error { return nil }); err != nil {
			t.Errorf("got %v of a run that ends", err)
		}
	})
}

// The journal's files are removed and no file can be written: the journal does not answer, and cannot be
// opened again.
func TestNodeEndsWithoutJournal(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	home := w.settle("customer")
	node := w.up(home)
	id, _ := hire(t.Context(), w.client(home), pack(t, greeting()), "greeting")
	if err := unix.Prlimit(node.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(home, "journal/stream/jetstream/$G/streams/FACTS")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	if job, err := control.CancelJob.Call(ctx, w.client(home), id); err == nil {
		t.Errorf("got the cancelled job %+v, want an error", job)
	}
	told := time.Now()
	node.cmd.Process.Signal(syscall.SIGTERM)
	node.wait(t)
	if took := time.Since(told); took > farewell {
		t.Errorf("it ended %v after SIGTERM, want %v at most", took, farewell)
	}
}

// Words about the money of a job that has ended, before the money has arrived where it goes.
func TestSentenceSaysWhereTheMoneyIs(t *testing.T) {
	until := time.Date(2026, 11, 30, 15, 4, 0, 0, time.Local).UnixMilli()
	money := func(now string, waits bool) *control.AttemptMoney {
		return &control.AttemptMoney{Asset: "TEST_CASHU(http://mint)", Held: 300_000, State: "held", Now: now, Waits: waits, Until: until}
	}
	verdict := func(o guild.Outcome) *guild.Verdict { return &guild.Verdict{Outcome: o, Passed: 1, Expected: 2} }
	for want, job := range map[string]control.Job{
		"rejected: Bob passed 1 of 2 tests; nothing was paid, and 300 test (worthless) are locked until they come back, by 2026-11-30 15:04": {
			Ending: guild.JobRejected, Attempts: []control.Attempt{{ID: "a", Name: "Bob", Verdict: verdict(guild.Failure), Money: money("coming back", false)}},
		},
		"accepted: Bob passed 1 of 2 tests; 300 test (worthless) are locked until you decide (guild wallet approve), or until 2026-11-30 15:04": {
			Ending: guild.JobAccepted, Attempts: []control.Attempt{{ID: "a", Name: "Bob", Verdict: verdict(guild.Success), Money: money("waits for you", true)}},
		},
		"timed out: no answer; Bob: nothing was paid, and 300 test (worthless) are locked until they come back, by 2026-11-30 15:04": {
			Ending: guild.JobTimedOut, Reason: "no answer", Attempts: []control.Attempt{{ID: "a", Name: "Bob", Money: money("coming back", false)}},
		},
	} {
		if got := sentence(job); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestPriceOfPostpaidIsNotLocked(t *testing.T) {
	for how, want := range map[string]string{
		"postpaid": "at most 5 sat, which is paid after the verdict",
		"prepaid":  "at most 5 sat, which is paid before the work, whatever is delivered",
		"escrow":   "at most 5 sat, which is locked until the verdict",
	} {
		if got := highest(hireOptions{Settle: how, Offer: amountFlag{amount: 5, unit: "sat"}}, control.Prospect{}); got != want {
			t.Errorf("%s: %s", how, got)
		}
	}
}

func TestSecondSignalEndsNode(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	gate := filepath.Join(w.dir, "gate")
	if err := os.Mkdir(gate, 0o755); err != nil {
		t.Fatal(err)
	}
	home, provider := w.settle("customer"), w.settle("provider")
	w.up(home)
	node := w.work(provider, "greeting", waitFor(gate)+hello, "--mount", gate)
	meet(t, w.client(home), "greeting")
	hire(t.Context(), w.client(home), pack(t, greeting()), "greeting")
	mustRunOnce(t, gate)
	told := time.Now()
	eventually(t, "its end", func(context.Context) error { // after the first signal it waits ten seconds for its worker
		select {
		case <-node.ended:
			return nil
		default:
			node.cmd.Process.Signal(syscall.SIGTERM)
			return errors.New("it still runs")
		}
	})
	status := node.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if took := time.Since(told); !status.Signaled() || status.Signal() != syscall.SIGTERM || took > 9*time.Second {
		t.Errorf("it ended with %v after %v, want to be killed by the second signal", node.cmd.ProcessState, took)
	}
}
