package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"guild/internal/sandbox"
)

// bind is a file or directory of the host that is shown inside, in the order in which they are mounted.
type bind struct {
	host, inside string
	writable     bool
}

// skeleton makes a root directory below r.dir with the places where everything is mounted, and returns it with
// what is to be shown there. With linked, /tmp leads to the one file system that is the workspace, too.
func (r *run) skeleton(uid int, linked bool) (root string, binds []bind, err error) {
	root = filepath.Join(r.dir, "root")
	for _, dir := range []string{"usr", "etc", "proc", "dev", "box", "judge", "var", "sys", "run"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return "", nil, err
		}
	}
	for _, dir := range []string{"box", "judge"} { // what is mounted there takes its mode from it
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
		for _, dir := range []string{"work", "home", "tmp"} { // the engine copies them to what it mounts there
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
	files["hostname"] = "box\n" // or the engine puts one there
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(content), 0o644); err != nil {
			return "", nil, err
		}
	}
	more, err := r.binds()
	return root, append(binds, more...), err
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// binds are the parts of the host's /etc, the mounts and the read-only copies of this run.
func (r *run) binds() ([]bind, error) {
	var binds []bind
	for _, name := range sandbox.HostEtc(r.spec.Network) {
		if p := "/etc/" + name; exists(p) {
			binds = append(binds, bind{host: p, inside: p})
		}
	}
	staged, err := r.readOnly()
	if err != nil {
		return nil, err
	}
	for _, m := range r.spec.Mounts {
		binds = append(binds, bind{host: m.Host, inside: path.Clean(m.Inside), writable: m.Writable})
	}
	return append(binds, staged...), nil
}

// readOnly copies what may not be changed inside to a directory of the host's own, one for each place, and shows
// that. A run that has many should have a runner that can show files one by one.
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
		if err := stage(c, places[inside]); err != nil {
			return nil, fmt.Errorf("copy %s: %w", c.Host, err)
		}
	}
	return binds, nil
}

// stage copies a directory over what is at to.
func stage(c sandbox.Copy, to string) error {
	return c.Walk(func(e sandbox.Entry) error {
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
}

// shares divides a disk limit among the places that cannot be one file system here.
func shares(disk int64, judge bool) (boxes, temp, shm, judged int64) {
	shm, temp = disk/8, disk/4
	if judge {
		judged = disk / 8
	}
	return disk - shm - temp - judged, temp, shm, judged
}
