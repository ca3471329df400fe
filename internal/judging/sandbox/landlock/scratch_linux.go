package landlock

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"guild/internal/judging/sandbox"
)

// scratch is the host directory that a run writes to. It contains the directories of the sandbox, such as Workspace.
type scratch struct {
	base string
	root *os.Root
}

// newScratch creates the directory with those of the sandbox in it. base is its real path, without links.
func newScratch() (*scratch, error) {
	base, err := sandbox.TempDir("guild-landlock-")
	if err != nil {
		return nil, err
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, errors.Join(err, os.Remove(base))
	}
	s := &scratch{base, root}
	for _, place := range []string{sandbox.Workspace, sandbox.Home, sandbox.Judge, sandbox.Temp} {
		if err := root.MkdirAll(local(place), 0o700); err != nil {
			return nil, errors.Join(err, s.remove())
		}
	}
	return s, nil
}

// local returns a path of the sandbox relative to the scratch directory.
func local(place string) string { return strings.TrimPrefix(filepath.Clean(place), "/") }

// at returns the host's path for a path of the sandbox.
func (s *scratch) at(place string) string { return filepath.Join(s.base, place) }

// places matches the sandbox's directories in a text, unless they are part of a longer path or word.
var places = regexp.MustCompile(`(^|[^\w./-])(` + sandbox.Workspace + `|` + sandbox.Home + `|` + sandbox.Judge + `)\b`)

// translate replaces the sandbox's directories in texts by the host's.
func (s *scratch) translate(texts []string) []string {
	var all []string
	for _, t := range texts {
		all = append(all, places.ReplaceAllString(t, "${1}"+strings.ReplaceAll(s.base, "$", "$$")+"${2}"))
	}
	return all
}

// unpack writes the copies, and removes the write permission of the read-only ones. No process of the run can restore
// it, because under the filter chmod does nothing.
func (s *scratch) unpack(copies []sandbox.Copy) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(sandbox.WriteCopies(w, copies)) }()
	defer r.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := s.unpackOne(h, tr); err != nil {
			return err
		}
	}
	for _, c := range copies {
		if !c.ReadOnly {
			continue
		}
		err := fs.WalkDir(s.root.FS(), filepath.ToSlash(local(c.Inside)), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			return s.root.Chmod(name, info.Mode().Perm()&0o555)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unpackOne writes one entry of the copies.
func (s *scratch) unpackOne(h *tar.Header, content io.Reader) error {
	name := filepath.Clean(h.Name)
	if h.Typeflag == tar.TypeDir {
		return s.root.MkdirAll(name, 0o755)
	}
	if err := s.root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, h.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// show makes a mount visible. Without namespaces it can only be a link in the sandbox's own directories, or the host's
// own path.
func (s *scratch) show(m sandbox.Mount) error {
	if m.Host == m.Inside {
		return nil
	}
	if !strings.HasPrefix(m.Inside, sandbox.Box+"/") && !strings.HasPrefix(m.Inside, sandbox.Judge+"/") {
		return fmt.Errorf("%s cannot be shown at %s without namespaces, only where it is", m.Host, m.Inside)
	}
	if err := s.root.MkdirAll(local(filepath.Dir(m.Inside)), 0o755); err != nil {
		return err
	}
	return os.Symlink(m.Host, s.at(m.Inside)) // the run has not started, so nothing can be at this path
}

// used returns the number of bytes written, and whether a limit is reached. Files that were unlinked but are still open
// are not counted.
func (s *scratch) used(l sandbox.Limits) (bytes int64, full bool) {
	var files int64
	fs.WalkDir(s.root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // the run removed it meanwhile
		}
		files++
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			bytes += info.Size()
		}
		if bytes >= l.Disk || files >= l.Inodes {
			full = true
			return fs.SkipAll
		}
		return nil
	})
	return bytes, full
}

// collect writes the files of Spec.Collect as a tar stream, after all processes have ended.
func (s *scratch) collect(w io.Writer, spec sandbox.Spec) (left int, err error) {
	root, err := s.root.OpenRoot(local(sandbox.Workspace))
	if err != nil {
		return 0, err
	}
	defer root.Close()
	return sandbox.WriteFiles(w, root, spec.Collect, spec.Limits)
}

// remove removes the directory, whatever permissions the run has set in it.
func (s *scratch) remove() error {
	defer s.root.Close()
	return sandbox.RemoveTree(s.base)
}
