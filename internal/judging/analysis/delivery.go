package analysis

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"guild/internal/judging/sandbox"
)

// Limits on what is read.
const (
	maxEntries = 20_000  // files and directories of a delivery
	maxFiles   = 200     // Python files
	maxSource  = 4 << 20 // bytes of Python
)

// files lists the files that a delivery puts into the workspace.
type files struct {
	dirs   []string // a later one replaces files of an earlier one
	python []string // Python files, relative to the workspace
}

// survey lists the Python files. artifacts/files/x.py is the same file as artifacts/x.py.
func survey(delivery string) (files, error) {
	delivery, err := filepath.Abs(delivery)
	if err != nil {
		return files{}, err
	}
	artifacts := filepath.Join(delivery, "delivery", "artifacts")
	var f files
	found := map[string]bool{}
	var size int64
	for _, dir := range []string{artifacts, filepath.Join(artifacts, "files")} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		f.dirs = append(f.dirs, dir)
		err := walk(dir, func(name string, info fs.FileInfo) {
			if strings.HasSuffix(name, ".py") && !(dir == artifacts && strings.HasPrefix(filepath.ToSlash(name), "files/")) {
				found[name] = true
				size += info.Size()
			}
		})
		if err != nil {
			return files{}, err
		}
	}
	if len(found) > maxFiles || size > maxSource {
		return files{}, fmt.Errorf("%d Python files of %d bytes are too many to read", len(found), size)
	}
	for name := range found {
		f.python = append(f.python, name)
	}
	slices.Sort(f.python)
	return f, nil
}

// walk calls visit for the regular files of a hostile tree. Anything except files and directories is an error.
func walk(dir string, visit func(name string, info fs.FileInfo)) error {
	n := 0
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n++
		if n > maxEntries {
			return fmt.Errorf("more than %d files", maxEntries)
		}
		if d.IsDir() {
			return nil
		}
		if !d.Type().IsRegular() {
			return errors.New("it has something that is not a file")
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err == nil {
			visit(name, info)
		}
		return err
	})
}

// inside returns the Python files' names in the sandbox.
func (f files) inside() []string {
	places := make([]string, 0, len(f.python))
	for _, name := range f.python {
		places = append(places, sandbox.Workspace+"/"+filepath.ToSlash(name))
	}
	return places
}

// copies returns copies of the Python files only, so that no delivered file can configure a tool.
func (f files) copies() []sandbox.Copy {
	wanted := map[string]bool{}
	for _, name := range f.python {
		for part := filepath.ToSlash(name); part != "."; part = path.Dir(part) {
			wanted[part] = true
		}
	}
	var list []sandbox.Copy
	for i, dir := range f.dirs {
		list = append(list, sandbox.Copy{Host: dir, Inside: sandbox.Workspace, Skip: func(name string) bool {
			name = filepath.ToSlash(name)
			return !wanted[name] || i == 0 && len(f.dirs) > 1 && name == "files"
		}})
	}
	return list
}

// workspace returns the copies for a judged run: the bundle's files, the delivery over them, and the tests without the
// hidden ones, which a delivery must never read.
func (f files) workspace(bundle string) []sandbox.Copy {
	var list []sandbox.Copy
	for _, place := range []struct{ dir, inside string }{{"files", sandbox.Workspace}, {"tests", sandbox.Judge + "/tests"}} {
		dir, err := filepath.Abs(filepath.Join(bundle, place.dir))
		if info, statErr := os.Lstat(dir); err != nil || statErr != nil || !info.IsDir() {
			continue
		}
		list = append(list, sandbox.Copy{Host: dir, Inside: place.inside, ReadOnly: place.dir == "tests", Skip: func(name string) bool {
			return place.dir == "tests" && (name == "criteria.json" || name == "hidden")
		}})
	}
	for _, dir := range f.dirs {
		list = append(list, sandbox.Copy{Host: dir, Inside: sandbox.Workspace})
	}
	return list
}
