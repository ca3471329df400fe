package project

import (
	"fmt"
	"path"
	"strings"
)

// Places in a bundle that is made of a project.
const (
	filesDir = "files"
	testsDir = "tests"
	keptDir  = "tests/kept" // of tests that a command runs where they are in the project
	lists    = "tests/criteria.json"
	hidden   = "tests/hidden"
)

// top are the folders of a project whose content becomes that of tests/.
var top = []string{"tests/", "test/", "__tests__/", "spec/"}

// place returns the path in a bundle for a test of the project.
func (p plan) place(name string) string {
	switch p.framework {
	case "":
		return name
	case goTest: // laid over the workspace
		return path.Join(testsDir, name)
	case shell:
		return path.Join(keptDir, name)
	}
	for _, dir := range top {
		if rest, ok := strings.CutPrefix(name, dir); ok {
			return path.Join(testsDir, rest)
		}
	}
	return path.Join(testsDir, name)
}

// apart checks that tests find the project where the judge runs them, and returns why not. JavaScript tests name the
// modules by their place beside them.
func (p plan) apart(tests []string) string {
	if p.framework != nodeTest && p.framework != jest {
		return ""
	}
	for _, name := range tests {
		if scriptFile.MatchString(name) && p.place(name) == path.Join(testsDir, name) {
			return fmt.Sprintf("%s lies beside the code: tests in a folder tests/ run apart from the delivery", name)
		}
	}
	return ""
}

// hiddenPlace returns the path in the bundle's directory for a hidden test, which is below root in the project.
func (p plan) hiddenPlace(root, name string) string {
	if p.framework == shell {
		return path.Join(hidden, "kept", name)
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
	if rest == "" {
		rest = path.Base(name)
	}
	return path.Join(hidden, rest)
}
