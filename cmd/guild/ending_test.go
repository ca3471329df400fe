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
