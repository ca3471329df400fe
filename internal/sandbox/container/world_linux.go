package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"guild/internal/sandbox"
)

// box is where the temporary file system is.
const box = "/box"

// bind is a file or directory of the host that is shown inside, in the order in which they are mounted.
type bind struct {
	host, inside string
	writable     bool
}

// etc are the files of a sandbox's /etc that are written for it.
func etc(uid int) map[string]string {
	return map[string]string{
		"passwd":        fmt.Sprintf("box:x:%d:%[1]d::%s:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", uid, sandbox.Home),
		"group":         fmt.Sprintf("box:x:%d:\nnogroup:x:65534:\n", uid),
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"hosts":         "127.0.0.1 localhost box\n::1 localhost\n",
		"hostname":      "box\n",
	}
}

// Parts of the host's /etc that programs need and that hold no secret; the second list only with a network.
var (
	hostEtc = []string{
		"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types",
	}
	hostEtcNetwork = []string{
		"resolv.conf", "gai.conf", "services", "protocols", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs",
		"pki/ca-trust/extracted", "ca-certificates", "ca-certificates.conf",
	}
)

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
			if err := os.Mkdir(filepath.Join(root, box, dir), 0o755); err != nil {
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
	for name, content := range etc(uid) {
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
	show := hostEtc
	if r.spec.Network {
		show = append(show[:len(show):len(show)], hostEtcNetwork...)
	}
	for _, name := range show {
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
	from, err := os.OpenRoot(c.Host)
	if err != nil {
		return err
	}
	defer from.Close()
	return fs.WalkDir(from.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if c.Skip != nil && name != "." && c.Skip(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		at := filepath.Join(to, name)
		switch {
		case d.IsDir():
			return os.MkdirAll(at, 0o755)
		case d.Type().IsRegular():
			return stageFile(from, name, at)
		default:
			return fmt.Errorf("%s: only files and directories are copied", name)
		}
	})
}

func stageFile(from *os.Root, name, at string) (err error) {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: only files and directories are copied", name)
	}
	out, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644|info.Mode().Perm()&0o111)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// shares divides a disk limit among the places that cannot be one file system here.
func shares(disk int64, judge bool) (boxes, temp, shm, judged int64) {
	shm, temp = disk/8, disk/4
	if judge {
		judged = disk / 8
	}
	return disk - shm - temp - judged, temp, shm, judged
}

// besideWorkspace reports whether a run needs a writable place at sandbox.Judge.
func besideWorkspace(s sandbox.Spec) bool {
	for _, c := range s.Copies {
		if !c.ReadOnly && strings.HasPrefix(path.Clean(c.Inside)+"/", sandbox.Judge+"/") {
			return true
		}
	}
	return false
}
