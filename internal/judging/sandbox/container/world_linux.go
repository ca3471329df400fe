package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"guild/internal/judging/sandbox"
)

// bind is a file or directory of the host to mount inside.
type bind struct {
	host, inside string
	writable     bool
}

// skeleton creates a root directory below r.dir with all mount points, and returns it with the mounts in order. If
// linked is true, /tmp is a link into the file system of the workspace.
func (r *run) skeleton(uid int, linked bool) (root string, binds []bind, err error) {
	root = filepath.Join(r.dir, "root")
	for _, dir := range []string{"usr", "etc", "proc", "dev", "box", "judge", "var", "sys", "run"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return "", nil, err
		}
	}
	for _, dir := range []string{"box", "judge"} { // a mount gets the mode of its mount point
		if err := os.Chmod(filepath.Join(root, dir), 0o777); err != nil {
			return "", nil, err
		}
	}
	if err := os.Symlink("../tmp", filepath.Join(root, "var/tmp")); err != nil {
		return "", nil, err
	}
	if linked {
		if err := os.Symlink("box/tmp", filepath.Join(root, "tmp")); err != nil {
			return "", nil, err
		}
		for _, dir := range []string{"work", "home", "tmp"} { // the runtime copies these to the file system that it mounts
			if err := os.Mkdir(filepath.Join(root, sandbox.Box, dir), 0o755); err != nil {
				return "", nil, err
			}
		}
	}
	binds = []bind{{host: "/usr", inside: "/usr"}}
	if dir := "/usr/local/etc"; exists(dir) {
		empty := filepath.Join(r.dir, "empty")
		if err := os.Mkdir(empty, 0o755); err != nil {
			return "", nil, err
		}
		binds = append(binds, bind{host: empty, inside: dir})
	}
	dirs, _ := filepath.Glob("/lib*")
	for _, dir := range append(dirs, "/bin", "/sbin") {
		if to, err := os.Readlink(dir); err == nil {
			err = os.Symlink(to, filepath.Join(root, dir))
			if err != nil {
				return "", nil, err
			}
		} else if exists(dir) {
			binds = append(binds, bind{host: dir, inside: dir})
		}
	}
	files := sandbox.Etc(uid)
	files["hostname"] = "box\n" // otherwise the runtime writes one
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(content), 0o644); err != nil {
			return "", nil, err
		}
	}
	for _, name := range sandbox.HostEtc(r.spec.Network) {
		if p := "/etc/" + name; exists(p) {
			binds = append(binds, bind{host: p, inside: p})
		}
	}
	for _, m := range r.spec.Mounts {
		binds = append(binds, bind{host: m.Host, inside: path.Clean(m.Inside), writable: m.Writable})
	}
	staged, err := r.readOnly()
	return root, append(binds, staged...), err
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// readOnly copies the read-only copies to directories of the host, one for each place inside, and returns their mounts.
func (r *run) readOnly() ([]bind, error) {
	var binds []bind
	places := map[string]string{}
	for _, c := range r.spec.Copies {
		if !c.ReadOnly {
			continue
		}
		inside := path.Clean(c.Inside)
		if places[inside] == "" {
			places[inside] = filepath.Join(r.dir, fmt.Sprintf("copy%d", len(places)))
			binds = append(binds, bind{host: places[inside], inside: inside})
		}
		to := places[inside]
		err := c.Walk(func(e sandbox.Entry) error {
			at := filepath.Join(to, e.Name)
			if e.Content == nil {
				return os.MkdirAll(at, 0o755)
			}
			out, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, e.Mode)
			if err != nil {
				return err
			}
			_, err = io.Copy(out, e.Content)
			return errors.Join(err, out.Close())
		})
		if err != nil {
			return nil, fmt.Errorf("copy %s: %w", c.Host, err)
		}
	}
	return binds, nil
}
