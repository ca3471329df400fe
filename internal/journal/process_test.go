package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/fold"
	"guild/internal/journal/journaltest"
)

// The test binary is run as a second process, with a role: hold, append or prove.
const (
	childRole = "JOURNAL_TEST_ROLE"
	childDir  = "JOURNAL_TEST_DIR"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := child(role, os.Getenv(childDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	journaltest.Main(m)
}

// child opens the journal and prints that. Then it waits for its input to end, or appends until it is killed, and prints the
// number of each acknowledged decision.
func child(role, dir string) error {
	f := newJobs()
	j, err := journal.Open(context.Background(), journal.Options{Dir: dir, Node: "child", Now: time.Now,
		Folds: []fold.Fold{f}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	fmt.Println("open")
	if role == "hold" {
		_, err := io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, j.Close())
	}
	for i := len(f.reasons()); ; i++ {
		if err := j.Do(context.Background(), subject(i%5), "", closing(fmt.Sprint(i))); err != nil {
			return err
		}
		if i%200 == 199 {
			if err := j.Snapshot(context.Background()); err != nil {
				return err
			}
		}
		if role == "prove" {
			if _, err := j.Prove(context.Background(), 1, j.Last()); err != nil {
				return err
			}
		}
		fmt.Println(i)
	}
}

// start starts a child process and waits until it has the journal open.
func start(t *testing.T, role, dir string) (cmd *exec.Cmd, in io.Closer, out *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out = bufio.NewScanner(stdout)
	if !out.Scan() || out.Text() != "open" {
		t.Fatalf("the child said %q", out.Text())
	}
	return cmd, stdin, out
}

func TestSecondProcessIsLockedOut(t *testing.T) {
	t.Parallel()
	dir := filled(t, 3)
	cmd, in, _ := start(t, "hold", dir)
	for _, use := range []func() error{
		func() error { _, err := journal.Open(t.Context(), options(dir)); return err },
		func() error { _, err := journal.Repair(t.Context(), options(dir)); return err },
	} {
		err := use()
		if !errors.Is(err, journal.ErrLocked) {
			t.Fatalf("got %v, want ErrLocked", err)
		}
		if locked, ok := errors.AsType[*journal.LockedError](err); !ok || locked.PID != cmd.Process.Pid {
			t.Errorf("got %v, want process %d named", err, cmd.Process.Pid)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	closeIt(t, open(t, options(dir, newJobs())))
}

func TestJournalOpensOnce(t *testing.T) {
	t.Parallel()
	dir := filled(t, 3)
	j := open(t, options(dir))
	defer closeIt(t, j)
	if _, err := journal.Open(t.Context(), options(dir)); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
}

func TestOpenWaitsForLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 3)
		first := open(t, options(dir))
		var second *journal.Journal
		opened := make(chan error, 1)
		go func() {
			var err error
			second, err = journal.Open(t.Context(), options(dir))
			opened <- err
		}()
		synctest.Wait()
		closeIt(t, first)
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
		closeIt(t, second)
	})
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := filled(t, 0)
	acknowledged := 0
	for range 20 {
		cmd, _, out := start(t, "append", dir)
		for n := rand.IntN(150); n > 0 && out.Scan(); n-- {
			acknowledged++
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() { // what it still said
			acknowledged++
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		f := newJobs()
		j := open(t, options(dir, f))
		for i, reason := range f.reasons() {
			if reason != fmt.Sprint(i) {
				t.Fatalf("entry %d is %s", i, reason)
			}
		}
		if n := len(f.reasons()); n < acknowledged || n > acknowledged+1 {
			t.Fatalf("%d entries, %d acknowledged", n, acknowledged)
		}
		acknowledged = len(f.reasons())
		closeIt(t, j)
	}
	t.Logf("%d entries in 20 rounds", acknowledged)
}
