package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"guild/internal/hand/taskserver/taskservertest"
	"guild/nutshell"
	"guild/nutshell/clawnet"
)

// TestKilledClaim kills claim after more and more time, without warning, until it comes through.
func TestKilledClaim(t *testing.T) {
	const files = 300
	program := filepath.Join(t.TempDir(), "nutshell") // by this name the test is the program
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, program)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := taskservertest.Start(taskservertest.Config{Peers: map[string]string{"a": "alice", "b": "bob"}})
	defer s.Close()
	home := t.TempDir()
	run := func(ctx context.Context, token string, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "GUILD_TASK_SERVER=" + s.URL, "GUILD_TASK_TOKEN=" + token}
		return cmd.CombinedOutput()
	}
	if out, err := run(t.Context(), "a", "publish", "--dir", manyFiles(t, files)); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	into := t.TempDir()
	work := filepath.Join(into, "work")
	killed := 0
	for patience := 2 * time.Millisecond; ; patience += patience / 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := run(ctx, "b", "claim", "task-1", "-o", work)
		interrupted := ctx.Err() != nil
		cancel()
		switch n := count(t, work); {
		case n != 0 && n != files+1:
			t.Fatalf("after %s there are %d files", patience, n)
		case n == 0 && err == nil:
			t.Fatal("claim said that it was done")
		case n == 0 && !interrupted:
			t.Fatalf("%s: %v", out, err)
		case n == 0:
			killed++
			continue
		}
		break
	}
	raw, err := os.ReadFile(filepath.Join(work, nutshell.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	m, err := nutshell.ParseManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	if e, _, err := clawnet.FromManifest(m); err != nil || e.TaskID != "task-1" || e.Server != s.URL {
		t.Errorf("it notes %q at %q, %v", e.TaskID, e.Server, err)
	}
	if killed == 0 {
		t.Error("it was never killed in time")
	}
}

// manyFiles makes a request with n files.
func manyFiles(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("nutshell.json", `{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-many", "task": {"title": "Many"}}`)
	for i := range n {
		write(fmt.Sprintf("f%d.txt", i), fmt.Sprint(i))
	}
	return dir
}

// count counts the files in a directory, 0 if there is none.
func count(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return len(entries)
}
