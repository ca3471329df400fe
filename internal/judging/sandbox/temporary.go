package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// TempDir creates a temporary directory for this process. It also removes directories with the same prefix that killed
// processes have left: their runs have ended with them, or no longer need the files.
func TempDir(prefix string) (string, error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*-*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && isGone(n) && !isMounted(dir) {
			RemoveTree(dir) // fails for another user's directory
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// RemoveTree removes a directory, whatever permissions a run has set on the directories in it.
func RemoveTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			root.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// isGone reports whether /proc shows that a process does not exist. Without a /proc it returns false.
func isGone(pid int) bool {
	if _, err := os.Stat("/proc/self"); err != nil {
		return false
	}
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return errors.Is(err, fs.ErrNotExist)
}

// isMounted reports whether something is mounted on a directory or in it. Removing the directory would empty that too.
func isMounted(dir string) bool {
	b, err := os.ReadFile("/proc/self/mounts")
	return err != nil || strings.Contains(string(b), " "+dir+"/") || strings.Contains(string(b), " "+dir+" ")
}
