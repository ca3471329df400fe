package exam

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"guild/internal/judging/sandbox"
)

// Directories in a judged sandbox.
const (
	judgeDir = sandbox.Judge
	testsDir = judgeDir + "/tests"
)

// maxFiles limits the number of files for one run.
const maxFiles = 20_000

// layout describes the files for the sandboxes of one examination.
type layout struct {
	files     string          // the request bundle's files/; empty if it has none
	artifacts []string        // the delivery's directories; a later one replaces files of an earlier one
	seen      map[string]bool // names in the workspace → whether it is a directory
	fault     string          // why nothing of the delivery can be run; empty if it can
	Delivered []string        // names of the delivered files, for the evidence
}

// layOut finds the directories. It checks the delivery before any of it is used.
func (j *examination) layOut(deliveryDir string) error {
	seen := map[string]bool{}
	j.layout.seen = seen
	if dir := filepath.Join(j.bundle, "files"); isDir(dir) {
		j.layout.files = dir
		if _, err := survey(dir, seen); err != nil {
			return undecided("the bundle's files: %w", err)
		}
	}
	if j.tests != "" {
		if _, err := survey(j.tests, map[string]bool{}); err != nil {
			return undecided("the bundle's tests: %w", err)
		}
	}
	artifacts := filepath.Join(deliveryDir, "delivery", "artifacts")
	for _, dir := range []string{artifacts, filepath.Join(artifacts, "files")} {
		if !isDir(dir) {
			continue
		}
		names, err := survey(dir, seen)
		if err != nil {
			j.layout.fault = "the delivery cannot be laid out: " + err.Error()
			return nil
		}
		j.layout.artifacts = append(j.layout.artifacts, dir)
		j.layout.Delivered = names
	}
	if len(j.layout.Delivered) == 0 {
		j.layout.fault = "the delivery has no artifacts"
	}
	return nil
}

// collision returns the name of a file that cannot be copied over the workspace, because the delivery has a directory
// there, or a file in place of a parent directory. It returns "" if all can.
func (j *examination) collision(files map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if j.layout.seen[name] {
			return name
		}
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if isDir, there := j.layout.seen[dir]; there && !isDir {
				return name
			}
		}
	}
	return ""
}

// inTheWay returns the name of a file below dir that cannot be copied to the directory at of the workspace, or "".
func (j *examination) inTheWay(dir, at string) string {
	names, err := survey(dir, map[string]bool{})
	if err != nil {
		return dir
	}
	files := map[string]string{}
	for _, name := range names {
		files[filepath.Join(at, name)] = ""
	}
	return j.collision(files)
}

func isDir(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir()
}

// survey lists the files of a tree, and adds its names to seen. It rejects links, devices, too many files or bytes, and
// a name that is a file in one tree and a directory in another.
func survey(dir string, seen map[string]bool) (files []string, err error) {
	var size int64
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		wasDir, known := seen[name]
		switch {
		case shortcuts(name) && d.IsDir():
			return fs.SkipDir
		case shortcuts(name):
			return nil
		case !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%q is not a file", name)
		case known && wasDir != d.IsDir():
			return fmt.Errorf("%q is both a file and a directory", name)
		case len(seen) >= maxFiles:
			return fmt.Errorf("more than %d files", maxFiles)
		}
		seen[name] = d.IsDir()
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		// The run needs room for the files that it writes.
		if size += info.Size(); size > sandbox.DefaultDisk/2 {
			return fmt.Errorf("more than %d bytes", sandbox.DefaultDisk/2)
		}
		files = append(files, name)
		return nil
	})
	return files, err
}

// showTests lets a run read tests/ below /judge, without the private files.
func (j *examination) showTests(s *sandbox.Spec) {
	if j.tests != "" {
		s.Copies = append(s.Copies, sandbox.Copy{Host: j.tests, Inside: testsDir, ReadOnly: true, Skip: private})
	}
}

// showTestsBeside does the same for a run that the delivery is part of. Such a run sees tests/hidden only if its criterion
// is hidden itself, or runs all tests.
func (j *examination) showTestsBeside(s *sandbox.Spec) {
	if j.tests != "" {
		s.Copies = append(s.Copies, sandbox.Copy{Host: j.tests, Inside: testsDir, ReadOnly: true, Skip: j.privateBeside})
	}
}

// privateBeside reports whether a file below tests/ is hidden from the runs that the delivery is part of.
func (j *examination) privateBeside(name string) bool {
	return private(name) || name == hiddenName && !j.hiddenShown
}

// showsHidden reports whether a criterion's runs beside the delivery need tests/hidden.
func (e Entry) showsHidden() bool {
	file, _, _ := strings.Cut(e.Script, "::")
	all := (file == "" || file == "tests") && slices.Contains([]string{"pytest", "go-test", "node-test", "jest"}, e.Framework)
	return e.hidden || all || file == "tests/"+hiddenName || strings.HasPrefix(file, "tests/"+hiddenName+"/")
}

// copies returns the copies for the workspace: the request's files and, if delivered is set, the delivery's files over
// them, except those that skip selects.
func (l layout) copies(delivered bool, skip func(string) bool) []sandbox.Copy {
	var c []sandbox.Copy
	if l.files != "" {
		c = append(c, sandbox.Copy{Host: l.files, Inside: sandbox.Workspace, Skip: shortcuts})
	}
	if !delivered {
		return c
	}
	without := func(name string) bool { return shortcuts(name) || skip != nil && skip(name) }
	for _, dir := range l.artifacts {
		c = append(c, sandbox.Copy{Host: dir, Inside: sandbox.Workspace, Skip: without})
	}
	return c
}

// shortcuts reports whether a name is npm's directory of links to programs. No run needs it, and links cannot be
// copied.
func shortcuts(name string) bool {
	return strings.HasSuffix("/"+filepath.ToSlash(name), "/node_modules/.bin")
}
