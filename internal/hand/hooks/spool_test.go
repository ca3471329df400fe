package hooks_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"guild/internal/hand/hooks"
	"guild/nook"
)

func newSpool(t *testing.T) hooks.Spool {
	t.Helper()
	return hooks.Spool{Dir: filepath.Join(t.TempDir(), "home", "spool")}
}

func TestSpooledEventsArrive(t *testing.T) {
	s := newSpool(t)
	if got := drain(t, s); got != nil {
		t.Errorf("a missing spool has %+v", got)
	}
	for _, e := range []nook.Event{
		{ID: "one", Type: nook.TypeCompleted, AgentID: "a", Tokens: 5, Timestamp: 1},
		{ID: "../../two", Type: nook.TypeIdle, AgentID: "a", Timestamp: 2},
		{ID: strings.Repeat("x", 128), Type: nook.TypeIdle, AgentID: "a", Timestamp: 3},
		{Type: nook.TypeIdle, AgentID: "a"},
		{Type: nook.TypeIdle, AgentID: "a"},
		{Type: nook.TypeHeartbeat, AgentID: "a", Timestamp: 4},
		{Type: nook.TypeHeartbeat, AgentID: "a", Timestamp: 5},
	} {
		if err := s.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	got := drain(t, s)
	if len(got) != 6 {
		t.Errorf("%d events, want 6, as the second heartbeat replaces the first: %+v", len(got), got)
	}
	ids := map[string]bool{}
	for _, e := range got {
		if e.Type != nook.TypeHeartbeat && (e.ID == "" || ids[e.ID]) {
			t.Errorf("id %q of %+v", e.ID, e)
		}
		ids[e.ID] = true
		if e.Timestamp == 0 || e.Timestamp > time.Now().UnixMilli() {
			t.Errorf("timestamp %d", e.Timestamp)
		}
	}
	if got := drain(t, s); got != nil {
		t.Errorf("drained twice: %+v", got)
	}
}

func TestUnrecordedEventsStay(t *testing.T) {
	s := newSpool(t)
	for _, id := range []string{"1", "2", "3"} {
		if err := s.Write(nook.Event{ID: id, Type: nook.TypeIdle, AgentID: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	full := errors.New("the journal is full")
	seen := 0
	n, err := s.Drain(time.Now(), func(string, nook.Event) error {
		if seen++; seen == 2 {
			return full
		}
		return nil
	}, func(file string, why error) { t.Errorf("%s: %v", file, why) })
	if n != 1 || !errors.Is(err, full) {
		t.Errorf("%d recorded, %v", n, err)
	}
	if got := drain(t, s); len(got) != 2 {
		t.Errorf("%d left, want 2", len(got))
	}
}

func TestHostileFilesAreRemoved(t *testing.T) {
	s := newSpool(t)
	secret := filepath.Join(t.TempDir(), "secret")
	valid := `{"type":"agent.idle","agentId":"a"}`
	in := func(name string) string { return filepath.Join(s.Dir, name) }
	if err := errors.Join(os.MkdirAll(in("dir.json"), 0o700), os.WriteFile(in("dir.json/keep"), nil, 0o600),
		os.WriteFile(secret, []byte(valid), 0o600),
		os.Symlink(secret, in("link.json")), os.Symlink("nowhere", in("dangling.json")),
		syscall.Mkfifo(in("fifo.json"), 0o600),
		os.WriteFile(in("half.json"), []byte(valid[:20]), 0o600), os.WriteFile(in("empty.json"), nil, 0o600),
		os.WriteFile(in("large.json"), []byte(strings.Repeat(" ", nook.MaxEvent)+valid), 0o600),
		os.WriteFile(in("refused.json"), []byte(`{"type":"agent.idle","agentId":"refused"}`), 0o600),
		os.WriteFile(in("other"), []byte("x"), 0o600),
		os.WriteFile(in(".tmp-new"), []byte(valid), 0o600), os.WriteFile(in(".tmp-old"), []byte(valid), 0o600),
		os.Chtimes(in(".tmp-old"), time.Time{}, time.Now().Add(-2*time.Hour)),
		os.WriteFile(in("good.json"), []byte(valid), 0o600)); err != nil {
		t.Fatal(err)
	}
	refused := map[string]bool{}
	n, err := s.Drain(time.Now(), func(_ string, e nook.Event) error {
		if e.AgentID == "refused" {
			return &nook.FieldError{Field: "timestamp", Problem: "in the future"}
		}
		return nil
	}, func(file string, why error) { refused[file] = true })
	if n != 1 || err != nil {
		t.Errorf("%d recorded, %v", n, err)
	}
	for _, name := range []string{"link.json", "dangling.json", "fifo.json", "half.json", "empty.json", "large.json", "refused.json"} {
		if !refused[name] {
			t.Errorf("%s is not refused", name)
		}
	}
	left, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != ".tmp-new dir.json other" {
		t.Errorf("left: %s", got)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != valid {
		t.Errorf("the file behind the link: %q, %v", b, err)
	}
}

func TestSpoolOfOthersIsRefused(t *testing.T) {
	home := t.TempDir()
	real := filepath.Join(home, "elsewhere")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	link := hooks.Spool{Dir: filepath.Join(home, "link")}
	if err := os.Symlink(real, link.Dir); err != nil {
		t.Fatal(err)
	}
	open := hooks.Spool{Dir: filepath.Join(home, "open")}
	if err := errors.Join(os.Mkdir(open.Dir, 0o700), os.Chmod(open.Dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []hooks.Spool{link, open} {
		if err := s.Write(nook.Event{Type: nook.TypeIdle, AgentID: "a"}); err == nil {
			t.Errorf("%s is written to", s.Dir)
		}
		if _, err := s.Drain(time.Now(), nil, nil); err == nil {
			t.Errorf("%s is read", s.Dir)
		}
	}
}

func TestFullSpoolTakesNothing(t *testing.T) {
	s := newSpool(t)
	if err := fill(s.Dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(nook.Event{Type: nook.TypeIdle, AgentID: "a"}); !errors.Is(err, hooks.ErrFull) {
		t.Errorf("%v", err)
	}
	if got := drain(t, s); len(got) != hooks.MaxFiles {
		t.Errorf("%d events", len(got))
	}
}

func TestInvalidEventsAreNotSpooled(t *testing.T) {
	s := newSpool(t)
	for _, e := range []nook.Event{{Type: nook.TypeIdle}, {Type: "x", AgentID: "a"}, {ID: "ä", Type: nook.TypeIdle, AgentID: "a"}} {
		if err := s.Write(e); err == nil {
			t.Errorf("%+v is spooled", e)
		}
	}
}

func TestWritersAndReaderTogetherLoseNothing(t *testing.T) {
	s := newSpool(t)
	const writers, each = 4, 100
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := s.Write(nook.Event{Type: nook.TypeIdle, AgentID: "a"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	got := 0
	for done := false; !done; {
		done = got == writers*each
		got += len(drain(t, s))
	}
	wg.Wait()
	if got != writers*each {
		t.Errorf("%d events, want %d", got, writers*each)
	}
}

func TestSpoolKeepsTheRoot(t *testing.T) {
	s := newSpool(t)
	for _, root := range []string{"", "team", "t\"\x01"} {
		s.Root = root
		for range 2 { // the second takes the place of the first
			if err := s.Write(nook.Event{ID: "one", Type: nook.TypeIdle, AgentID: "a"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[string]int{}
	n, err := s.Drain(time.Now(), func(root string, e nook.Event) error { got[root+" "+e.ID]++; return nil },
		func(file string, why error) { t.Errorf("%s: %v", file, why) })
	if want := map[string]int{" one": 1, "team one": 1, "t\"\x01 one": 1}; n != 3 || err != nil || !maps.Equal(got, want) {
		t.Errorf("%d events, %v: %v", n, err, got)
	}
}
