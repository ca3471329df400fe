package exam

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Ready returns what keeps the deliveries for the files of a request from being judged, before any is there: which tools this
// machine lacks, each with what to do, and as an error why the criteria cannot be used. It runs nothing; Vet finds the rest.
func (e *Engine) Ready(tree fs.FS) (lacks []string, err error) {
	criteria, err := read(tree)
	if err != nil {
		return nil, err
	}
	for _, c := range criteria.Criteria {
		file, _, _ := strings.Cut(c.Script, "::")
		if _, err := fs.Stat(tree, cmp.Or(file, "tests")); file != "" && errors.Is(err, fs.ErrNotExist) {
			return nil, undecided("criterion %s: %s is not there", c.ID, file)
		}
		if lack := e.lack(tree, c); lack != "" && !slices.Contains(lacks, lack) {
			lacks = append(lacks, lack)
		}
	}
	return lacks, nil
}

// lack returns the tool that a criterion needs and this machine does not have, or "".
func (e *Engine) lack(tree fs.FS, c Entry) string {
	switch c.Framework {
	case "pytest":
		python := cmp.Or(e.Python, "/usr/bin/python3")
		if !isFile(python) {
			return "Python is not installed: apt-get install python3 python3-pytest"
		}
		for _, pattern := range []string{"/usr/lib/python3/dist-packages/pytest", "/usr/lib/python3*/site-packages/pytest", "/usr/local/lib/python3*/*-packages/pytest"} {
			if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
				return ""
			}
		}
		if e.Python == "" {
			return "pytest is not installed for " + python + ": apt-get install python3-pytest"
		}
	case "node-test", "jest":
		if lack := lackOfNode(); lack != "" {
			return lack
		}
		if _, err := fs.Stat(tree, "files/node_modules/jest/bin/jest.js"); c.Framework == "jest" && err != nil {
			j := &examination{engine: e}
			if _, _, err := j.findJest(); err != nil {
				return strings.TrimPrefix(err.Error(), ErrUndecided.Error()+": ")
			}
		}
	case "go-test":
		if _, _, err := e.goroot(); err != nil {
			return strings.TrimPrefix(err.Error(), ErrUndecided.Error()+": ")
		}
	}
	return ""
}

// lackOfNode says that Node.js is not installed, if that is so.
func lackOfNode() string {
	if slices.ContainsFunc([]string{"/usr/local/bin/node", "/usr/bin/node", "/bin/node"}, isFile) {
		return ""
	}
	return "Node.js is not installed: apt-get install nodejs"
}
