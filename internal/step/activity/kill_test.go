package activity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"guild/internal/durable"
	"guild/internal/hand/hooks"
	"guild/internal/journal"
	"guild/internal/journal/fold"
	"guild/internal/journal/journaltest"
	"guild/nook"
)

// The test binary is run as a second process that does what a node does with the directory of Nook, and kills itself.
const (
	childDir = "ACTIVITY_TEST_DIR"
	childAt  = "ACTIVITY_TEST_AT" // the step before which it dies
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := live(dir, os.Getenv(childAt)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	journaltest.Main(m)
}

// live imports, drains the spool and writes the files once. It dies before the step deadly: its steps are numbered, and named
// by what it does: "3 record".
func live(dir, deadly string) error {
	steps := 0
	before := func(what string) {
		steps++
		if what = fmt.Sprint(steps, " ", what); what == deadly {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		fmt.Println(what)
	}
	f, ctx := NewFold(), context.Background()
	j, err := journal.Open(ctx, journal.Options{Dir: filepath.Join(dir, "journal"), Node: "child", Now: time.Now,
		Folds: []fold.Fold{f}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	s := New(Config{Journal: j, Now: time.Now, Owner: "node", Key: ownKey}, f)
	files := NewFiles(filepath.Join(dir, "nook"), s)
	before("import")
	if _, err := files.Import(ctx); err != nil {
		return err
	}
	record := func(_ string, e nook.Event) error {
		before("record")
		_, err := s.Report(ctx, Own, []nook.Event{e})
		before("remove")
		return err
	}
	refused := func(file string, why error) { panic(file + why.Error()) }
	if _, err := (hooks.Spool{Dir: filepath.Join(dir, "nook", "spool")}).Drain(time.Now(), record, refused); err != nil {
		return err
	}
	files.put = func(path string, b []byte) error {
		before("write " + filepath.Base(path))
		return durable.Write(path, func(w io.Writer) error {
			if _, err := w.Write(b[:len(b)/2]); err != nil {
				return err
			}
			before("write the rest of " + filepath.Base(path))
			_, err := w.Write(b[len(b)/2:])
			return err
		})
	}
	if err := files.Write(ctx); err != nil {
		return err
	}
	before("end")
	return j.Close()
}

// lives runs a child, and returns its steps. It must have died if there is a deadly one.
func lives(t *testing.T, dir, deadly string) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childAt+"="+deadly)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); deadly == "" && err != nil || deadly != "" && (!ok || exit.ExitCode() != -1) {
		t.Fatalf("before %q: %v", deadly, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// home makes a home with an empty journal, a history to import, and n events in the spool.
func home(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = journaltest.Dir(t)
	if err := errors.Join(journal.Init(filepath.Join(dir, "journal")), os.Mkdir(filepath.Join(dir, "nook"), 0o700),
		os.WriteFile(filepath.Join(dir, "nook", "events.json"), []byte(before(30)), 0o600)); err != nil {
		t.Fatal(err)
	}
	spool(t, dir, 0, n)
	return dir
}

// spool writes events from a number on into the spool.
func spool(t *testing.T, dir string, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		e := completed("ada", fmt.Sprint(i), 1000)
		e.ID, e.Timestamp = fmt.Sprint("event-", i), time.Now().UnixMilli()
		if err := (hooks.Spool{Dir: filepath.Join(dir, "nook", "spool")}).Write(e); err != nil {
			t.Fatal(err)
		}
	}
}

// mustBeWhole fails the test unless each of n events is in the journal once, the history is imported once, and the files, if
// they must be there, say the same.
func mustBeWhole(t *testing.T, what, dir string, n int) {
	t.Helper()
	f := NewFold()
	s := at(journaltest.Reopen(t, filepath.Join(dir, "journal"), f), f, time.Now())
	defer s.c.Journal.Close()
	lines, err := s.Lines(t.Context(), Own)
	ids := map[string]bool{}
	for _, l := range lines {
		ids[l.Event.ID] = true
	}
	if err != nil || len(lines) != n || len(ids) != n {
		t.Errorf("%s: %d events with %d ids, %v, want %d", what, len(lines), len(ids), err, n)
	}
	if p := s.Profile(Own); p.Heritage == nil || len(p.Heritage.Tier) == 0 || p.Imported.Lifetime.Total() == 0 {
		t.Errorf("%s: the history is not imported: %+v", what, p.Heritage)
	}
	got := content(t, filepath.Join(dir, "nook"), "spool")
	want, err := s.Exports(t.Context(), Own)
	if err != nil {
		t.Fatal(err)
	}
	if got["events.json"] != string(want["events.json"]) || got["events.json.imported"] != before(30) || len(got["sparks.json"]) != len(want["sparks.json"]) {
		t.Errorf("%s: the files differ: %d events", what, strings.Count(got["events.json"], `"event"`))
	}
	if _, err := nook.DecodeProfile([]byte(got["profile.json"])); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// mustNotBeTorn fails the test if a file is there and not whole.
func mustNotBeTorn(t *testing.T, what, dir string) {
	t.Helper()
	for name, b := range content(t, filepath.Join(dir, "nook"), "spool") {
		var err error
		switch name {
		case "profile.json":
			_, err = nook.DecodeProfile([]byte(b))
		case "events.json", "events.json.imported":
			_, err = nook.DecodeEvents([]byte(b))
		case "sparks.json":
			_, err = nook.DecodeLedger([]byte(b))
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestKillBetweenSpoolJournalAndFiles kills a process before each of its steps, and starts the next one on what is left.
func TestKillBetweenSpoolJournalAndFiles(t *testing.T) {
	const events = 3
	whole := lives(t, home(t, events), "")
	for _, deadly := range whole {
		dir := home(t, events)
		lives(t, dir, deadly)
		mustNotBeTorn(t, "before "+deadly, dir)
		lives(t, dir, "")
		mustBeWhole(t, "before "+deadly, dir, events)
	}
	t.Logf("killed before each of %q", whole)
}

// TestKillAgainAndAgain kills processes at any time, while a hook goes on to spool. make soak has more rounds.
func TestKillAgainAndAgain(t *testing.T) {
	rounds := 12
	if os.Getenv("GUILD_SOAK") != "" {
		rounds = 500
	}
	const each = 5
	dir, died := home(t, 0), 0
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(rand.N(150*time.Millisecond), func() { cmd.Process.Kill() })
		spool(t, dir, round*each, each)
		if cmd.Wait() != nil {
			died++
		}
		kill.Stop()
		mustNotBeTorn(t, fmt.Sprint("round ", round), dir)
	}
	lives(t, dir, "")
	mustBeWhole(t, "at the end", dir, rounds*each)
	t.Logf("%d of %d processes were killed", died, rounds)
}
