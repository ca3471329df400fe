package check

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"guild/nutshell"
)

// Idle returns the hidden tests in a directory of work that nothing runs, by their paths: no criterion, script or other
// hidden test names them. It returns none if the manifest or the criteria cannot be read, which Tree reports, if something
// runs that may find its tests by itself, or if there are more than maxHidden.
func Idle(fsys fs.FS) []string {
	m, err := nutshell.ReadManifest(fsys)
	if err != nil {
		return nil
	}
	hidden := hiddenFiles(fsys)
	if len(hidden) == 0 || len(hidden) > maxHidden {
		return nil
	}
	a := m.Acceptance()
	scripts := slices.Clone(a.TestScripts)
	var texts []string
	for _, name := range []string{path.Clean(cmp.Or(a.CriteriaFile, nutshell.CriteriaFile)), hiddenCriteria} {
		raw, err := nutshell.ReadDocument(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil
		}
		doc, err := nutshell.ParseCriteria(raw)
		if err != nil {
			return nil
		}
		for _, one := range doc.Criteria {
			if blank(one.Script) && !slices.Contains(asked, cmp.Or(one.Type, doc.Framework)) {
				return nil
			}
			script, _, _ := strings.Cut(one.Script, "::") // one test of a file
			scripts = append(scripts, script)
		}
		texts = append(texts, string(raw)) // a case may name files, too
	}
	for _, script := range scripts {
		text, err := nutshell.ReadDocument(fsys, path.Clean(script))
		if err == nil && strings.Contains(string(text), path.Base(nutshell.HiddenDir)) {
			return nil
		}
	}
	beside := make(map[string]string, len(hidden)) // the text of each hidden test, which may use another
	for _, p := range hidden {
		text, _ := nutshell.ReadDocument(fsys, p)
		beside[p] = string(text)
	}
	var idle []string
	for _, p := range hidden {
		name := strings.TrimSuffix(path.Base(p), path.Ext(p))
		within := func(script string) bool { return strings.HasPrefix(p+"/", path.Clean(script)+"/") }
		mentions := func(text string) bool { return strings.Contains(text, name) }
		other := func(q string) bool { return q != p && mentions(beside[q]) }
		own := p == hiddenCriteria || slices.Contains(loaded, path.Base(p))
		if !own && !slices.ContainsFunc(scripts, within) && !slices.ContainsFunc(texts, mentions) && !slices.ContainsFunc(hidden, other) {
			idle = append(idle, p)
		}
	}
	return idle
}

// maxHidden limits the hidden tests that are compared with each other.
const maxHidden = 200

// hiddenCriteria are criteria that stay with the customer.
const hiddenCriteria = nutshell.HiddenDir + "/criteria.json"

var (
	asked  = []string{"io", "api_test", "sql_check"} // criteria that are their own tests, and need no script
	loaded = []string{"conftest.py", "__init__.py"}  // pytest loads them by itself
)

// hiddenFiles returns the paths of the hidden tests in a tree.
func hiddenFiles(fsys fs.FS) (all []string) {
	if _, err := fs.Stat(fsys, nutshell.HiddenDir); err != nil {
		return nil
	}
	// Nobody can see the tests in a folder that cannot be read.
	_ = fs.WalkDir(fsys, nutshell.HiddenDir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && p != nutshell.SaltsFile {
			all = append(all, p)
		}
		return nil
	})
	return all
}
