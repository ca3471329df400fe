package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestTempDirRemovesLeftovers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	made := func(name string) string {
		dir := filepath.Join(os.TempDir(), name)
		for _, sub := range []string{"a/b", "a/c"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(dir, "a"), 0o500); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	gone := made(fmt.Sprintf("guild-x-%d-1", ended.Process.Pid))
	kept := []string{
		made(fmt.Sprintf("guild-x-%d-1", os.Getppid())), made("guild-x-y-1"), made(fmt.Sprintf("guild-y-%d-1", ended.Process.Pid)),
	}
	dir, err := TempDir("guild-x-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Errorf("%s is still there", gone)
	}
	for _, there := range append(kept, dir) {
		if _, err := os.Stat(there); err != nil {
			t.Error(err)
		}
		RemoveTree(there)
	}
}
