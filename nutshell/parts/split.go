package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
	"guild/nutshell/object"
)

// MaxParts limits the number of parts of a task.
const MaxParts = 100

// TooFewError is a task with fewer criteria, checklist items and scripts than parts.
type TooFewError struct{ Have, Want int }

func (e *TooFewError) Error() string {
	return fmt.Sprintf("%d parts need as many criteria, checklist items or test scripts, and the task has %d", e.Want, e.Have)
}

// ErrNotTask is returned for a bundle that is not a task.
var ErrNotTask = errors.New("only a request can be split")

// SplitOptions are the options of Split.
type SplitOptions struct {
	WithVault bool                               // put the vault in every part; otherwise no part has credentials
	Exclude   func(path string, isDir bool) bool // what is not part of the bundle, as .nutignore says; may be nil
}

// Part is one part of a task.
type Part struct {
	Number    Number
	ID        string
	Title     string
	Criteria  []string // the ids of its criteria
	Checklist []string
	Scripts   []string // acceptance.test_scripts
	Tree      fs.FS    // the bundle; it reads from the tree that was split
}

// Split splits the task m with the files fsys into n parts, with ids from newID. The reward of the ClawNet extension, the
// place where it was published and hidden tests stay with the whole. It is a *TooFewError if a part would have nothing
// to do; the other errors are those of nutshell.ParseCriteria and of reading.
func Split(ctx context.Context, m *nutshell.Manifest, fsys fs.FS, n int, o SplitOptions, newID func() (string, error)) ([]Part, error) {
	if n < 2 || n > MaxParts {
		return nil, fmt.Errorf("%d parts are not between 2 and %d", n, MaxParts)
	}
	if m.BundleType() == nutshell.TypeDelivery {
		return nil, ErrNotTask
	}
	s, err := newSplitter(ctx, m, fsys, o)
	if err != nil {
		return nil, err
	}
	shares, err := s.deal(n)
	if err != nil {
		return nil, err
	}
	var all []Part
	for i, share := range shares {
		id, err := newID()
		if err != nil {
			return nil, err
		}
		p, err := s.part(Number{i + 1, n}, id, share)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// splitter splits a task.
type splitter struct {
	whole        *nutshell.Manifest
	fsys         fs.FS
	files        []string
	criteriaFile string             // its path; empty if there are none
	criteria     *nutshell.Criteria // nil if there are none
	scripts      map[string]bool    // the test scripts, wherever they are named
	loose        []string           // scripts that no criterion uses
	withVault    bool
}

func newSplitter(ctx context.Context, m *nutshell.Manifest, fsys fs.FS, o SplitOptions) (*splitter, error) {
	s := &splitter{whole: m, fsys: fsys, scripts: make(map[string]bool), withVault: o.WithVault}
	var err error
	s.files, err = nutshell.RegularFiles(ctx, fsys, func(p string, isDir bool) bool {
		return p == nutshell.HiddenDir || o.Exclude != nil && o.Exclude(p, isDir)
	})
	if err != nil {
		return nil, err
	}
	if !o.WithVault {
		s.files = slices.DeleteFunc(s.files, m.HoldsCredentials)
	}
	if err := s.readCriteria(path.Clean(m.Acceptance().CriteriaFile)); err != nil {
		return nil, err
	}
	used := make(map[string]bool)
	if s.criteria != nil {
		for _, c := range s.criteria.Criteria {
			used[path.Clean(c.Script)] = c.Script != ""
			s.scripts[path.Clean(c.Script)] = c.Script != ""
		}
	}
	for _, p := range m.Acceptance().TestScripts {
		if s.scripts[path.Clean(p)] = true; !used[path.Clean(p)] {
			s.loose = append(s.loose, p)
		}
	}
	return s, nil
}

func (s *splitter) readCriteria(name string) error {
	if _, ok := slices.BinarySearch(s.files, name); !ok {
		return nil
	}
	raw, err := nutshell.ReadDocument(s.fsys, name)
	if err != nil {
		return err
	}
	s.criteriaFile = name
	s.criteria, err = nutshell.ParseCriteria(raw)
	return err
}

// share is the work of one part.
type share struct {
	criteria  []nutshell.Criterion
	checklist []string
	loose     []string
}

// deal deals out criteria, checklist items and scripts in turn.
func (s *splitter) deal(n int) ([]share, error) {
	shares, next := make([]share, n), 0
	hand := func() *share { next++; return &shares[(next-1)%n] }
	if s.criteria != nil {
		for _, c := range s.criteria.Criteria {
			h := hand()
			h.criteria = append(h.criteria, c)
		}
	}
	for _, item := range s.whole.Acceptance().Checklist {
		h := hand()
		h.checklist = append(h.checklist, item)
	}
	for _, p := range s.loose {
		h := hand()
		h.loose = append(h.loose, p)
	}
	if next < n {
		return nil, &TooFewError{next, n}
	}
	return shares, nil
}

// part makes the bundle of one part.
func (s *splitter) part(number Number, id string, h share) (Part, error) {
	p := Part{Number: number, ID: id, Title: s.whole.Task().Title + " (" + number.String() + ")", Checklist: h.checklist}
	needs := make(map[string]bool)
	for _, script := range h.loose {
		needs[path.Clean(script)] = true
	}
	for _, c := range h.criteria {
		p.Criteria = append(p.Criteria, c.ID)
		needs[path.Clean(c.Script)] = true
	}
	for _, script := range s.whole.Acceptance().TestScripts {
		if needs[path.Clean(script)] {
			p.Scripts = append(p.Scripts, script)
		}
	}
	files := make(map[string]source)
	for _, name := range s.files {
		if !s.scripts[name] || needs[name] {
			files[name] = source{fsys: s.fsys, name: name}
		}
	}
	if err := s.writeCriteria(files, h.criteria); err != nil {
		return Part{}, err
	}
	manifest, err := s.manifest(p, len(h.criteria) > 0, files)
	if err != nil {
		return Part{}, err
	}
	files[nutshell.ManifestFile] = source{text: manifest}
	p.Tree = newView(files)
	return p, nil
}

// writeCriteria replaces the criteria file by one with some of the criteria.
func (s *splitter) writeCriteria(files map[string]source, some []nutshell.Criterion) error {
	if s.criteria == nil {
		return nil
	}
	delete(files, s.criteriaFile)
	if len(some) == 0 {
		return nil
	}
	o, err := readObject(s.criteria.Raw)
	if err != nil {
		return err
	}
	var raw []jsontext.Value
	for _, c := range some {
		raw = append(raw, jsontext.Value(c.Raw))
	}
	list, err := encode(raw)
	if err != nil {
		return err
	}
	text, err := document(o.With("criteria", list))
	files[s.criteriaFile] = source{text: text}
	return err
}

// manifest returns the manifest of a part.
func (s *splitter) manifest(p Part, hasCriteria bool, files map[string]source) ([]byte, error) {
	m, err := nutshell.ParseManifest(s.whole.Bytes())
	if err != nil {
		return nil, err
	}
	gone := []string{"acceptance.hidden_tests", "extensions.clawnet.reward", "extensions.clawnet.task_id", "extensions.clawnet.server", "compression"}
	if !hasCriteria {
		gone = append(gone, "acceptance.criteria_file")
	}
	if !s.withVault {
		gone = append(gone, "credentials.vault", "apis.credential_ref")
	}
	for _, field := range gone {
		if err := m.Remove(field); err != nil {
			return nil, err
		}
	}
	type change struct {
		path  string
		value any
	}
	changes := []change{{"id", p.ID}, {"parent_id", s.whole.ID()}, {"task.title", p.Title}}
	if a := s.whole.Acceptance(); a.Checklist != nil {
		changes = append(changes, change{"acceptance.checklist", notNil(p.Checklist)})
	}
	if a := s.whole.Acceptance(); a.TestScripts != nil {
		changes = append(changes, change{"acceptance.test_scripts", notNil(p.Scripts)})
	}
	tree, listed, err := s.tree(files)
	if err != nil {
		return nil, err
	}
	if listed {
		changes = append(changes, change{"files.tree", tree})
	}
	for _, c := range changes {
		if err := m.Set(c.path, c.value); err != nil {
			return nil, err
		}
	}
	if err := m.SetExtension(Extension, p.Number); err != nil {
		return nil, err
	}
	return m.Bytes(), nil
}

// notNil returns a list that is written as [] if it is empty.
func notNil(list []string) []string { return append([]string{}, list...) }

// tree returns files.tree with only the files that the part has unchanged.
func (s *splitter) tree(files map[string]source) (lines []jsontext.Value, listed bool, err error) {
	raw, listed := s.whole.Member("files.tree")
	if !listed {
		return nil, false, nil
	}
	lines = []jsontext.Value{}
	known := s.whole.Files().Tree
	for i, line := range object.Elements(jsontext.Value(raw)) {
		if i < len(known) {
			if f, ok := files[path.Clean(known[i].Path)]; ok && f.fsys != nil {
				lines = append(lines, line)
			}
		}
	}
	return lines, true, nil
}
