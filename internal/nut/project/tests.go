package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Frameworks that the judge runs apart from the delivery, and the one for all other commands.
const (
	pytest   = "pytest"
	nodeTest = "node-test"
	jest     = "jest"
	goTest   = "go-test"
	shell    = "shell"
)

// plan says how the tests of a project are run.
type plan struct {
	framework string
	command   string   // as it was given or found
	paths     []string // in the project that the command names; all tests if empty
	named     []string // files that another command may name, which no delivery replaces either
	weak      string   // why the judge cannot run the command apart from the delivery; empty if it can
}

// ErrNoTests is the error for a project whose tests are not known.
var ErrNoTests = errors.New("no tests found")

// parseCommand recognises a command that runs tests. npmTest is the test script of the project's package.json.
func parseCommand(command, npmTest string) plan {
	p := plan{framework: shell, command: command}
	for _, word := range strings.Fields(command) {
		p.named = append(p.named, path.Clean(word))
	}
	if strings.ContainsAny(command, "'\"\\$`;&|<>()*?{}#~\n") {
		p.weak = "the judge runs it as it is, beside the delivery"
		return p
	}
	words := strings.Fields(command)
	for _, prefix := range [][]string{{"uv", "run"}, {"poetry", "run"}, {"pipenv", "run"}, {"npx"}, {"npx", "--no"}, {"python", "-m"}, {"python3", "-m"}} {
		if len(words) > len(prefix) && slices.Equal(words[:len(prefix)], prefix) {
			words = words[len(prefix):]
		}
	}
	switch {
	case len(words) == 0:
	case words[0] == "pytest" || words[0] == "py.test":
		p.framework, words = pytest, words[1:]
	case words[0] == "jest":
		p.framework, words = jest, words[1:]
	case len(words) > 1 && words[0] == "node" && words[1] == "--test":
		p.framework, words = nodeTest, words[2:]
	case len(words) > 1 && words[0] == "go" && words[1] == "test":
		p.framework, words = goTest, words[2:]
	case slices.Contains([]string{"npm test", "npm run test", "yarn test", "pnpm test"}, strings.Join(words, " ")) && npmTest != "":
		if found := parseCommand(npmTest, ""); found.weak == "" {
			found.command = command
			return found
		}
	}
	if p.framework == shell {
		p.weak = "only pytest, node --test, jest and go test run apart from the delivery"
		return p
	}
	for _, word := range words {
		switch {
		case !strings.HasPrefix(word, "-"):
			p.paths = append(p.paths, strings.TrimSuffix(path.Clean(word), "/..."))
		case !harmless.MatchString(word):
			return plan{framework: shell, command: command, named: p.named, weak: fmt.Sprintf("%s with %s is run as it is, beside the delivery", p.framework, word)}
		}
	}
	p.paths = slices.DeleteFunc(p.paths, func(p string) bool { return p == "." || p == "..." })
	return p
}

// harmless matches flags that change what a test runner prints, and not which tests pass.
var harmless = regexp.MustCompile(`^-(q+|v+|s|x|r[a-zA-Z]|-verbose|-quiet|-color(=.*)?|-no-header|-ci|-silent|-tb=.*|-test-reporter=.*|count=1|v=true|race)$`)

// findTests finds the tests of a project by the names of its files. package.json may be nil.
func findTests(files []string, packageJSON []byte) (plan, error) {
	var found []plan
	if slices.Contains(files, "go.mod") && slices.ContainsFunc(files, goFile.MatchString) {
		found = append(found, plan{framework: goTest, command: "go test ./..."})
	}
	if script := npmTest(packageJSON); script != "" {
		found = append(found, parseCommand("npm test", script))
	}
	if slices.ContainsFunc(files, pythonFile.MatchString) {
		found = append(found, plan{framework: pytest, command: "pytest"})
	}
	switch len(found) {
	case 0:
		return plan{}, ErrNoTests
	case 1:
		return found[0], nil
	}
	var commands []string
	for _, p := range found {
		commands = append(commands, fmt.Sprintf("--test '%s'", p.command))
	}
	return plan{}, fmt.Errorf("%w that could be meant alone: choose %s", ErrNoTests, strings.Join(commands, " or "))
}

// npmTest returns the test script of a package.json, empty without a usable one.
func npmTest(packageJSON []byte) string {
	var p struct {
		Scripts struct {
			Test string `json:"test"`
		} `json:"scripts"`
	}
	if json.Unmarshal(packageJSON, &p) != nil || strings.Contains(p.Scripts.Test, "no test specified") {
		return ""
	}
	return p.Scripts.Test
}

// Names of test files, and of folders with all that belongs to tests.
var (
	pythonFile = regexp.MustCompile(`(^|/)(test_[^/]*|[^/]*_test)\.py$`)
	goFile     = regexp.MustCompile(`(^|/)[^/]*_test\.go$`)
	scriptFile = regexp.MustCompile(`(^|/)([^/]+[._-](test|spec)|test-[^/]+|test)\.[cm]?[jt]sx?$`)
	testFolder = regexp.MustCompile(`(^|/)(tests?|__tests__|__mocks__|spec)/`)
)

// isTest reports whether a file belongs to the tests, which the provider gets and cannot replace.
func (p plan) isTest(name string) bool {
	switch p.framework {
	case "":
		return strings.HasPrefix(name, testsDir+"/")
	case goTest:
		return goFile.MatchString(name) || strings.Contains("/"+name, "/testdata/")
	case pytest:
		return pythonFile.MatchString(name) || path.Base(name) == "conftest.py" || testFolder.MatchString(name)
	case nodeTest, jest:
		return scriptFile.MatchString(name) || testFolder.MatchString(name)
	}
	return slices.Contains(p.named, name) || pythonFile.MatchString(name) || path.Base(name) == "conftest.py" || goFile.MatchString(name) ||
		scriptFile.MatchString(name) || testFolder.MatchString(name) || strings.Contains("/"+name, "/testdata/")
}

// language returns the usual word for the task.
func (p plan) language(files []string) string {
	switch p.framework {
	case pytest:
		return "python"
	case nodeTest, jest:
		return "javascript"
	case goTest:
		return "go"
	}
	counts := map[string]int{}
	best := ""
	for _, name := range files {
		word := languages[path.Ext(name)]
		counts[word]++
		if word != "" && (best == "" || counts[word] > counts[best]) {
			best = word
		}
	}
	return best
}

// languages are the words for the endings of files.
var languages = map[string]string{
	".py": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascript", ".ts": "typescript",
	".tsx": "typescript", ".go": "go", ".rs": "rust", ".java": "java", ".kt": "kotlin", ".rb": "ruby", ".php": "php", ".c": "c",
	".h": "c", ".cc": "cpp", ".cpp": "cpp", ".hpp": "cpp", ".cs": "csharp", ".swift": "swift", ".sh": "shell", ".lua": "lua",
	".ex": "elixir", ".hs": "haskell", ".scala": "scala", ".pl": "perl", ".sql": "sql",
}
