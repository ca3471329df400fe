// Package project makes a request bundle of a project, which is a directory of source code, in a git repository or not,
// and finds what a delivery changes in it. It decides where each file of the project is in the bundle: tests are below
// tests/, where a delivery cannot replace them, hidden ones below tests/hidden, which stays with the customer, and all else
// is below files/.
package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"guild"
	"guild/internal/hand/git"
	"guild/nutshell"
)

// Wish describes the work that a customer wants done in a project.
type Wish struct {
	Dir      string
	Sentence string
	Test     string   // command that runs the tests; found if empty
	Hidden   []string // files and folders below Dir whose tests stay with the customer
	Task     string   // to route by; the language if empty
}

// Made describes the bundle that was made.
type Made struct {
	Task      string // to route by; empty if the language is not known
	Title     string
	Commit    string             // that the files are of; empty without git
	Files     []string           // of the project that are sent, without the tests
	Tests     []string           // of the project that are sent
	Hidden    []string           // of the project that stay
	Changed   []string           // tracked files whose changes are left out, because they are not committed
	Untracked []string           // files that are left out, because git does not track them
	LeftOut   []nutshell.Skipped // of the commit
	Framework string             // that judges; empty if the project has a criteria.json
	Command   string             // that runs the tests; empty as above
	Weak      string             // why the judge runs the command beside the delivery; empty if it does not
	Secret    guild.Hash         // of the hidden tests, which nobody else may learn
}

// maxTitle limits a title, in bytes.
const maxTitle = 120

// Make writes the directory of a bundle for a wish into to, which is empty. Two calls for the same files and wish write
// the same bytes. The error is ErrNoTests if no tests are named or found, git.ErrUnborn if nothing is committed, or a
// *PathError for a path of the wish that is not in the project.
func Make(ctx context.Context, w Wish, to string) (Made, error) {
	root, err := os.OpenRoot(to)
	if err != nil {
		return Made{}, err
	}
	defer root.Close()
	t, err := open(ctx, w.Dir)
	if err != nil {
		return Made{}, err
	}
	defer t.dir.Close()
	m := &maker{wish: w, tree: t, root: root, from: map[string]string{}, open: sha256.New(), secret: sha256.New()}
	m.Commit, m.Changed, m.Untracked, m.LeftOut = t.commit, t.changed, t.untracked, t.leftOut
	m.Title, _, _ = strings.Cut(strings.TrimSpace(w.Sentence), "\n")
	m.Title = guild.Cut(m.Title, maxTitle)
	for _, step := range []func(context.Context) error{m.findHidden, m.choose, m.copyFiles, m.copyHidden, m.describe} {
		if err := step(ctx); err != nil {
			return Made{}, err
		}
	}
	m.Secret = guild.Hash(m.secret.Sum(nil))
	return m.Made, nil
}

// PathError is the error for a path that the customer named and the project does not have.
type PathError struct {
	Path      string
	Untracked bool // it is there, but not committed
}

func (e *PathError) Error() string {
	if e.Untracked {
		return fmt.Sprintf("%s is not committed", e.Path)
	}
	return fmt.Sprintf("%s is not in the project", e.Path)
}

// maker makes one bundle.
type maker struct {
	Made
	wish  Wish
	tree  *tree
	root  *os.Root // of the bundle
	plan  plan
	roots []string          // of the hidden tests
	from  map[string]string // path in the bundle → in the project

	open, secret hash.Hash // of everything that is written: what is sent, and what stays
}

// findHidden lists the hidden tests. They leave the project's files also where git tracks them.
func (m *maker) findHidden(context.Context) error {
	for _, name := range m.wish.Hidden {
		root := path.Clean(filepath.ToSlash(name))
		if !fs.ValidPath(root) || root == "." {
			return fmt.Errorf("hidden tests: %.200q is not a path within the project", name)
		}
		m.roots = append(m.roots, root)
	}
	if info, err := m.tree.dir.Stat(nutshell.HiddenDir); err == nil && info.IsDir() {
		m.roots = append(m.roots, nutshell.HiddenDir)
	}
	for _, root := range m.roots {
		files, err := m.tree.below(root)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(files) == 0 {
			return &PathError{Path: root}
		}
		if err != nil {
			return fmt.Errorf("hidden tests: %w", err)
		}
		m.Hidden = append(m.Hidden, files...)
	}
	slices.Sort(m.Hidden)
	m.Hidden = slices.Compact(m.Hidden)
	m.tree.files = slices.DeleteFunc(m.tree.files, func(f git.File) bool { _, is := within(f.Path, m.roots); return is })
	m.Untracked = slices.DeleteFunc(m.Untracked, func(p string) bool { _, is := within(p, m.roots); return is })
	m.Changed = slices.DeleteFunc(m.Changed, func(p string) bool { _, is := within(p, m.roots); return is })
	return nil
}

// choose decides how the tests are run, and which files they are.
func (m *maker) choose(ctx context.Context) error {
	if i := slices.IndexFunc(m.tree.files, func(f git.File) bool { return f.Path == lists }); i >= 0 && m.wish.Test != "" {
		m.tree.files = slices.Delete(m.tree.files, i, i+1)
		m.LeftOut = append(m.LeftOut, nutshell.Skipped{Path: lists, Reason: "--test says how the work is tested"})
	}
	var names []string
	for _, f := range m.tree.files {
		names = append(names, f.Path)
	}
	packageJSON, err := m.tree.one(ctx, "package.json")
	if err != nil {
		return err
	}
	switch {
	case m.wish.Test != "":
		m.plan = parseCommand(m.wish.Test, npmTest(packageJSON))
	case slices.Contains(names, lists):
		m.plan = plan{}
	default:
		if m.plan, err = findTests(append(slices.Clone(names), m.Hidden...), packageJSON); err != nil {
			return err
		}
	}
	for _, p := range m.plan.paths {
		if err := m.checkPath(p, names); err != nil {
			return err
		}
	}
	m.split(names)
	if why := m.plan.apart(m.Tests); why != "" {
		m.plan = plan{framework: shell, command: m.plan.command, named: m.plan.named, weak: why}
		m.split(names)
	}
	m.Framework, m.Command, m.Weak = m.plan.framework, m.plan.command, m.plan.weak
	m.Task = m.wish.Task
	if m.Task == "" {
		m.Task = m.plan.language(names)
	}
	return nil
}

// split divides the files of the project into tests and others.
func (m *maker) split(names []string) {
	m.Tests, m.Files = nil, nil
	for _, name := range names {
		if m.plan.isTest(name) {
			m.Tests = append(m.Tests, name)
		} else {
			m.Files = append(m.Files, name)
		}
	}
}

// checkPath checks that the command names something that is sent, or hidden.
func (m *maker) checkPath(p string, names []string) error {
	file, _, _ := strings.Cut(p, "::")
	is := func(name string) bool { _, is := within(name, []string{file}); return is }
	if slices.ContainsFunc(names, is) || slices.ContainsFunc(m.Hidden, is) {
		return nil
	}
	return &PathError{Path: file, Untracked: slices.ContainsFunc(m.Untracked, is)}
}

// copyFiles writes the files of the project into the bundle.
func (m *maker) copyFiles(ctx context.Context) error {
	return m.tree.read(ctx, m.tree.files, func(f git.File, content []byte) error {
		if !m.plan.isTest(f.Path) {
			return m.write(path.Join(filesDir, f.Path), f.Path, content, f.Mode == git.Executable)
		}
		if strings.Contains("/"+f.Path, "/testdata/") { // the code may read it, too
			if err := m.write(path.Join(filesDir, f.Path), f.Path, content, f.Mode == git.Executable); err != nil {
				return err
			}
		}
		place := m.plan.place(f.Path)
		if strings.HasPrefix(place, nutshell.HiddenDir+"/") {
			return fmt.Errorf("%s would be a hidden test of the bundle: rename its folder, or keep it here with --hidden", f.Path)
		}
		return m.write(place, f.Path, content, f.Mode == git.Executable)
	})
}

// copyHidden writes the hidden tests, which packing leaves out.
func (m *maker) copyHidden(context.Context) error {
	for _, name := range m.Hidden {
		content, err := m.tree.own(name)
		if err != nil {
			return err
		}
		root, _ := within(name, m.roots)
		if err := m.write(m.plan.hiddenPlace(root, name), name, content, true); err != nil {
			return err
		}
	}
	return nil
}

// write makes a file of the bundle. name is that of the project's file, empty for one that the maker makes.
func (m *maker) write(to, name string, content []byte, executable bool) error {
	if other, taken := m.from[to]; taken {
		return fmt.Errorf("%s and %s would both be %s in the bundle: rename one, or leave it out in .nutignore", other, name, to)
	}
	m.from[to] = name
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	sum := m.open
	if strings.HasPrefix(to, nutshell.HiddenDir+"/") {
		sum = m.secret
	}
	fmt.Fprintf(sum, "%q %o %d\n", to, mode, len(content))
	sum.Write(content)
	if err := m.root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	return m.root.WriteFile(to, content, mode)
}

// id returns an id of what is sent, the same for the same files and wish.
func (m *maker) id() string { return "nut-" + hex.EncodeToString(m.open.Sum(nil)[:16]) }

// document returns v as JSON that people can read.
func document(v any) ([]byte, error) {
	raw, err := json.MarshalIndent(v, "", "  ")
	return append(raw, '\n'), err
}
