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

// TempDir makes a temporary directory of this process, and removes those with the same prefix that a process left
// because it was killed. Its runs ended with it, or can do nothing any more with what they had there.
func TempDir(prefix string) (string, error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*-*"))
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && isGone(n) && !isMounted(dir) {
			RemoveTree(dir) // another user's cannot be
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", prefix, os.Getpid()))
}

// RemoveTree removes a directory, whatever rights a run has given to the directories in it.
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

// isGone reports whether there is no such process, as far as /proc tells.
func isGone(pid int) bool {
	if _, err := os.Stat("/proc/self"); err != nil {
		return false
	}
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return errors.Is(err, fs.ErrNotExist)
}

// isMounted reports whether something is mounted in a directory, which would be emptied with it.
func isMounted(dir string) bool {
	b, err := os.ReadFile("/proc/self/mounts")
	return err != nil || strings.Contains(string(b), " "+dir+"/") || strings.Contains(string(b), " "+dir+" ")
}
