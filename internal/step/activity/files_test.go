package activity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"guild/internal/journal"
	"guild/internal/journal/fold"
	"guild/internal/journal/journaltest"
	"guild/nook"
)

// place writes files into a new directory.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// content returns the files of a directory but some, by name.
func content(t *testing.T, dir string, but ...string) map[string]string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range all {
		if slices.Contains(but, e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// before is an events.json with n events, one in each hour of the year 2025.
func before(n int) string {
	var logs []nook.EventLog
	for i := range n {
		e := completed("old", fmt.Sprint("unit ", i), 10_000)
		e.Timestamp = 1_735_689_600_000 + int64(i)*3_600_000
		logs = append(logs, nook.EventLog{ID: e.ID, AgentID: e.AgentID, Event: e, Sparks: 1e12, Timestamp: e.Timestamp})
	}
	b, err := nook.EncodeExport(logs)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// fresh returns a step on an empty journal.
func fresh(t *testing.T) *Step {
	t.Helper()
	f := NewFold()
	return at(journaltest.Open(t, f), f, time.Now())
}

func TestFilesAreWrittenAfterChanges(t *testing.T) {
	s, dir := fresh(t), t.TempDir()
	f := NewFiles(dir, s)
	write := func() map[string]string {
		t.Helper()
		if err := f.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
		return content(t, dir)
	}
	if got := write(); len(got) != 0 {
		t.Errorf("an empty account is written: %v", got)
	}
	for i := range 3 {
		if _, err := s.Report(t.Context(), Own, []nook.Event{completed("ada", fmt.Sprint(i), 1000)}); err != nil {
			t.Fatal(err)
		}
		got := write()
		logs, err := nook.DecodeEvents([]byte(got["events.json"]))
		if err != nil || len(logs) != i+1 || len(got) != 3 {
			t.Errorf("%d events, %v, %d files", len(logs), err, len(got))
		}
	}
	if _, err := s.Report(t.Context(), "team", []nook.Event{completed("ada", "x", 1000)}); err != nil {
		t.Fatal(err)
	}
	if _, behind := f.Changes(); behind {
		t.Error("the activity of another root changes the files")
	}
	if err := os.Remove(filepath.Join(dir, "events.json")); err != nil {
		t.Fatal(err)
	}
	f = NewFiles(dir, s) // a restart
	if got := write(); got["events.json"] == "" {
		t.Error("the first write after a start is left out")
	}
}

func TestHistoryIsImportedOnce(t *testing.T) {
	s, dir := fresh(t), place(t, map[string]string{"events.json": before(700), "profile.json": `{"rootIdentity": "local"}`})
	f := NewFiles(dir, s)
	if n, err := f.Import(t.Context()); n != 700 || err != nil {
		t.Fatal(n, err)
	}
	p := s.Profile(Own)
	if p.Heritage == nil || p.Heritage.Imported < 500*nook.Spark || p.Sparks != 0 {
		t.Errorf("%+v, %s sparks", p.Heritage, p.Sparks)
	}
	last := s.c.Journal.Last()
	if n, err := f.Import(t.Context()); n != 0 || err != nil || s.c.Journal.Last() != last {
		t.Errorf("again: %d, %v", n, err)
	}
	if _, err := s.Report(t.Context(), Own, []nook.Event{completed("ada", "x", 1000)}); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := content(t, dir)
	if got["events.json.imported"] != before(700) || !strings.Contains(got["profile.json"], ownKey) {
		t.Errorf("%d bytes remain of the history; %.200s", len(got["events.json.imported"]), got["profile.json"])
	}
	if n, err := f.Import(t.Context()); n != 0 || err != nil {
		t.Errorf("its own export: %d, %v", n, err)
	}
}

func TestFilesThatAreNotImportedStay(t *testing.T) {
	valid := before(3)
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"cut off":        {map[string]string{"events.json": valid[:len(valid)-20]}, "events.json"},
		"no list":        {map[string]string{"events.json": "{}"}, "events.json"},
		"a bad event":    {map[string]string{"events.json": strings.Replace(before(300), `"unit 299"`, `"\u0007"`, 1)}, "element 299"},
		"another's":      {map[string]string{"events.json": valid, "profile.json": `{"rootIdentity": "npub1theirs"}`}, "npub1theirs"},
		"broken profile": {map[string]string{"events.json": valid, "profile.json": `{"rootId`}, "profile.json"},
		"imported twice": {map[string]string{"events.json": valid, "events.json.imported": valid}, "keep one"},
	} {
		s, dir := fresh(t), place(t, c.files)
		f := NewFiles(dir, s)
		if n, err := f.Import(t.Context()); err == nil || n != 0 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d, %v, want %q", name, n, err, c.want)
		}
		if s.c.Journal.Last() != 0 {
			t.Errorf("%s: %d entries are recorded", name, s.c.Journal.Last())
		}
		if _, err := s.Report(t.Context(), Own, []nook.Event{completed("ada", "x", 1000)}); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(t.Context()); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
		if got := content(t, dir); fmt.Sprint(got) != fmt.Sprint(c.files) {
			t.Errorf("%s: the files are now %.300v", name, got)
		}
	}
}

func TestHistoryIsNeitherFollowedNorAwaited(t *testing.T) {
	for name, hide := range map[string]func(path string) error{
		"a link": func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"huge":   func(path string) error { return os.WriteFile(path, make([]byte, nook.MaxExport+1), 0o600) },
	} {
		s, dir := fresh(t), t.TempDir()
		if err := hide(filepath.Join(dir, "events.json")); err != nil {
			t.Fatal(err)
		}
		if n, err := NewFiles(dir, s).Import(t.Context()); err == nil || n != 0 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// TestInterruptedImport stops an import after each of its entries, and starts again.
func TestInterruptedImport(t *testing.T) {
	whole := fresh(t)
	if n, err := NewFiles(place(t, map[string]string{"events.json": before(2500)}), whole).Import(t.Context()); n != 2500 || err != nil {
		t.Fatal(n, err)
	}
	if whole.c.Journal.Last() < 3 {
		t.Fatalf("%d entries are too few to stop between", whole.c.Journal.Last())
	}
	for stop := uint64(0); stop <= whole.c.Journal.Last(); stop++ {
		s, dir := fresh(t), place(t, map[string]string{"events.json": before(2500)})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := NewFiles(dir, s)
		if stop == 0 {
			cancel()
		} else {
			go func() {
				changed, end := s.c.Journal.Changed()
				defer end()
				for s.c.Journal.Last() < stop {
					<-changed
				}
				cancel()
			}()
		}
		_, err := first.Import(ctx)
		n, again := NewFiles(dir, s).Import(t.Context())
		if err != nil && (n != 2500 || again != nil) || err == nil && n != 0 {
			t.Errorf("after %d entries: %v, then %d, %v", stop, err, n, again)
		}
		if got, want := s.Profile(Own), whole.Profile(Own); got.Heritage == nil || got.Heritage.Imported != want.Heritage.Imported || got.Imported != want.Imported {
			t.Errorf("after %d entries: %+v, want %+v", stop, got.Heritage, want.Heritage)
		}
	}
}

// BenchmarkWrite writes the files of 100,000 events.
func BenchmarkWrite(b *testing.B) {
	f := NewFold()
	dir := b.TempDir()
	if err := journal.Init(filepath.Join(dir, "journal")); err != nil {
		b.Fatal(err)
	}
	j, err := journal.Open(b.Context(), journal.Options{Dir: filepath.Join(dir, "journal"), Node: "bench", Now: time.Now, Folds: []fold.Fold{f}, NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	s := at(j, f, time.Now())
	const events = 100_000
	for i := 0; i < events; i += MaxReport {
		var all []nook.Event
		for k := range MaxReport {
			e := completed(fmt.Sprint("agent-", k%50), fmt.Sprint("issue-", i+k), 5000)
			e.ID = fmt.Sprintf("%064x", i+k)
			all = append(all, e)
		}
		if _, err := s.Report(b.Context(), Own, all); err != nil {
			b.Fatal(err)
		}
	}
	files := NewFiles(b.TempDir(), s)
	for b.Loop() {
		files.written = -1
		if err := files.Write(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(files.dir, name))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/1e6, strings.TrimSuffix(name, ".json")+"-MB")
	}
}
