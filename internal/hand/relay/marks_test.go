package relay_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/hand/relay"
)

func reopen(t *testing.T, path string) *relay.Marks {
	t.Helper()
	m, err := relay.OpenWatermarks(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMarksAreStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "marks.json")
	m := reopen(t, path)
	m.Set("ws://a", "notes", 5)
	m.Set("ws://a", "notes", 3) // never back
	m.Set("ws://b", "notes", 7)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = reopen(t, path)
	for url, want := range map[string]nostr.Timestamp{"ws://a": 5, "ws://b": 7, "ws://c": 0} {
		if got := m.Get(url, "notes"); got != want {
			t.Errorf("%s: %d, want %d", url, got, want)
		}
	}
}

func TestMarksAreWrittenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "marks.json")
		m := reopen(t, path)
		m.Set("ws://a", "notes", 1)
		m.Set("ws://a", "notes", 2)
		if _, err := os.Stat(path); err == nil {
			t.Error("written at once")
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := reopen(t, path).Get("ws://a", "notes"); got != 2 {
			t.Errorf("after a second: %d", got)
		}
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("%d files", len(files))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestDamagedMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "marks.json")
	for _, content := range []string{"", "{", `{"ws://a":{"notes":"x"}}`, "null", "[]"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		m := reopen(t, path)
		m.Set("ws://a", "notes", 1)
		if err := m.Close(); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
	if got := reopen(t, path).Get("ws://a", "notes"); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestMarksCloseError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	m := reopen(t, filepath.Join(dir, "marks.json"))
	m.Set("ws://a", "notes", 1)
	if err := m.Close(); err == nil {
		t.Error("no error")
	}
}
