package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestInitForJSONAsksNothing(t *testing.T) {
	_, tty := terminal(t)
	home := t.TempDir()
	p := &program{home: home, in: tty, out: tty, err: io.Discard, now: time.Now}
	if _, err := p.runInit(t.Context(), initOptions{AsJSON: true}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(home, "config.toml")); err != nil || !bytes.Contains(text, []byte("\n#auto = false\n")) {
		t.Errorf("strangers may be benchmarked (%v)", err)
	}
}

func TestInitAsksForBenchmarks(t *testing.T) {
	t.Setenv("ACCESSIBLE", "1")
	t.Setenv("TERM", "xterm")
	for answer, want := range map[string]string{"2\n": "\nauto = true\n", "\n": "\n#auto = false\n"} {
		person, tty := terminal(t)
		home := t.TempDir()
		p := &program{home: home, in: tty, out: tty, err: io.Discard, now: time.Now}
		done := make(chan error, 1)
		go func() {
			_, err := p.runInit(t.Context(), initOptions{})
			done <- err
		}()
		read(t, person, "between 1 and 2")
		if _, err := io.WriteString(person, answer); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(home, "config.toml")); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("after %q %q is missing in the config (%v)", answer, want, err)
		}
	}
}
