package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestNookIsGuildNook(t *testing.T) {
	dir := t.TempDir()
	nook := filepath.Join(dir, "nook")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", nook, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start := func() (string, int) {
		cmd := exec.CommandContext(t.Context(), nook, "log", "a b", "--json")
		cmd.Env = []string{"PATH="}
		out, err := cmd.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out), exit.ExitCode()
	}
	if out, code := start(); code != 1 || !strings.Contains(out, "hint: install guild") {
		t.Errorf("without guild: %d, %q", code, out)
	}
	script := "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(dir, "guild"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, code := start(); code != 7 || out != "nook|log|a b|--json|" {
		t.Errorf("%d, %q", code, out)
	}
}
