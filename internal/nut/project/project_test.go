package project_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"guild/internal/hand/git"
	"guild/internal/nut/project"
	"guild/nutshell"
)

// tree writes files into a new directory.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		add(t, dir, name, "# "+name+"\n")
	}
	return dir
}

func add(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// commit makes a repository of a directory.
func commit(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "m"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
}

// made makes a bundle's directory, and lists its files.
func made(t *testing.T, w project.Wish) (m project.Made, dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	if w.Sentence == "" {
		w.Sentence = "do it"
	}
	m, err := project.Make(t.Context(), w, dir)
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && p != nutshell.ManifestFile && p != "context/requirements.md" {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, dir, files
}

func TestLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		test         string
		hidden       []string
		files, want  []string
		weak         bool
		task, script string // script of the first criterion
	}{
		"pytest": {
			files: []string{"a.py", "tests/test_a.py", "tests/data/x.json", "pkg/test_b.py", "pkg/b.py"}, task: "python",
			want: []string{"files/a.py", "files/pkg/b.py", "tests/criteria.json", "tests/data/x.json", "tests/pkg/test_b.py", "tests/test_a.py"},
		},
		"one file of pytest": {
			test: "python3 -m pytest -q tests/test_a.py::test_x", files: []string{"a.py", "tests/test_a.py"}, task: "python",
			want: []string{"files/a.py", "tests/criteria.json", "tests/test_a.py"}, script: "tests/test_a.py::test_x",
		},
		"hidden beside named ones": {
			test: "pytest test/open", hidden: []string{"test/private"}, files: []string{"a.py", "test/open/test_a.py", "test/private/test_b.py"},
			want:   []string{"files/a.py", "tests/criteria.json", "tests/hidden/criteria.json", "tests/hidden/test_b.py", "tests/open/test_a.py"},
			script: "tests/open", task: "python",
		},
		"go": {
			hidden: []string{"more_test.go"}, files: []string{"go.mod", "q/q.go", "q/q_test.go", "more_test.go", "q/testdata/in"}, task: "go",
			want: []string{"files/go.mod", "files/q/q.go", "files/q/testdata/in", "tests/criteria.json", "tests/hidden/more_test.go", "tests/q/q_test.go", "tests/q/testdata/in"},
		},
		"node": {
			test: "node --test", files: []string{"src/a.js", "test/a.test.js"}, task: "javascript",
			want: []string{"files/src/a.js", "tests/a.test.js", "tests/criteria.json"},
		},
		"node beside the code": {
			test: "node --test", files: []string{"src/a.js", "src/a.test.js"}, weak: true, task: "javascript", script: "tests/run.sh",
			want: []string{"files/src/a.js", "tests/criteria.json", "tests/kept/src/a.test.js", "tests/run.sh"},
		},
		"a command": {
			test: "make check", hidden: []string{"tests/b"}, files: []string{"Makefile", "a.rs", "tests/a", "tests/b"}, weak: true, task: "rust", script: "tests/run.sh",
			want: []string{"files/Makefile", "files/a.rs", "tests/criteria.json", "tests/hidden/criteria.json", "tests/hidden/kept/tests/b", "tests/hidden/run.sh", "tests/kept/tests/a", "tests/run.sh"},
		},
		"a script": {
			test: "sh ./check.sh -v", files: []string{"a.sh", "check.sh"}, weak: true, task: "shell", script: "tests/run.sh",
			want: []string{"files/a.sh", "tests/criteria.json", "tests/kept/check.sh", "tests/run.sh"},
		},
		"a selection of pytest": {
			test: "pytest -k x", files: []string{"a.py", "test_a.py"}, weak: true, task: "python", script: "tests/run.sh",
			want: []string{"files/a.py", "tests/criteria.json", "tests/kept/test_a.py", "tests/run.sh"},
		},
		"a command instead of own criteria": {
			test: "pytest", files: []string{"a.py", "tests/criteria.json", "tests/test_a.py"}, task: "python",
			want: []string{"files/a.py", "tests/criteria.json", "tests/test_a.py"},
		},
		"own criteria": {
			files: []string{"a.py", "tests/criteria.json", "tests/test_a.py", "tests/hidden/test_b.py"}, task: "python",
			want: []string{"files/a.py", "tests/criteria.json", "tests/hidden/test_b.py", "tests/test_a.py"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, c.files...)
			m, to, got := made(t, project.Wish{Dir: dir, Test: c.test, Hidden: c.hidden})
			if !slices.Equal(got, c.want) {
				t.Errorf("without git:\n%q, want\n%q", got, c.want)
			}
			if (m.Weak != "") != c.weak || m.Task != c.task {
				t.Errorf("weak %q, task %q", m.Weak, m.Task)
			}
			raw, err := os.ReadFile(filepath.Join(to, nutshell.CriteriaFile))
			if err != nil {
				t.Fatal(err)
			}
			if m.Command != "" {
				criteria, err := nutshell.ParseCriteria(raw)
				if err != nil || len(criteria.Criteria) != 1 || criteria.Criteria[0].Script != c.script {
					t.Errorf("criteria %s, %v", raw, err)
				}
			}
			commit(t, dir)
			if m, _, got = made(t, project.Wish{Dir: dir, Test: c.test, Hidden: c.hidden}); !slices.Equal(got, c.want) || m.Commit == "" {
				t.Errorf("with git:\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func TestOnlyCommittedFiles(t *testing.T) {
	dir := tree(t, "a.py", "test_a.py", "secret.txt", ".nutignore")
	add(t, dir, ".nutignore", "secret.*\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	commit(t, dir)
	add(t, dir, "a.py", "changed")
	add(t, dir, "new.py", "")
	m, to, files := made(t, project.Wish{Dir: dir})
	if want := []string{"files/a.py", "tests/criteria.json", "tests/test_a.py"}; !slices.Equal(files, want) {
		t.Errorf("%q, want %q", files, want)
	}
	if raw, err := os.ReadFile(filepath.Join(to, "files/a.py")); err != nil || string(raw) != "# a.py\n" {
		t.Errorf("a.py is %q, %v", raw, err)
	}
	if !slices.Equal(m.Changed, []string{"a.py"}) || !slices.Equal(m.Untracked, []string{"new.py"}) || len(m.LeftOut) != 2 {
		t.Errorf("%+v", m)
	}
}

func TestSameWishMakesSameBundle(t *testing.T) {
	dir := tree(t, "a.py", "tests/test_a.py", "tests/private/test_b.py")
	ids := map[string]bool{}
	secrets := map[string]bool{}
	for _, content := range []string{"x", "x", "y"} {
		add(t, dir, "tests/private/test_b.py", content)
		m, to, _ := made(t, project.Wish{Dir: dir, Hidden: []string{"tests/private"}})
		manifest, err := nutshell.ReadManifest(os.DirFS(to))
		if err != nil {
			t.Fatal(err)
		}
		ids[manifest.ID()], secrets[m.Secret.String()] = true, true
	}
	if len(ids) != 1 || len(secrets) != 2 { // an id of the hidden tests would help to guess them
		t.Errorf("ids %v, secrets %v", ids, secrets)
	}
}

func TestRefusedWishes(t *testing.T) {
	unborn := tree(t, "test_a.py")
	if out, err := exec.Command("git", "-C", unborn, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	several := tree(t, "go.mod", "a_test.go", "test_a.py")
	for name, c := range map[string]struct {
		w    project.Wish
		want string
	}{
		"no tests":      {project.Wish{Dir: tree(t, "a.py")}, "no tests found"},
		"several tests": {project.Wish{Dir: several}, "choose --test 'go test ./...' or --test 'pytest'"},
		"no commit":     {project.Wish{Dir: unborn}, git.ErrUnborn.Error()},
		"no such path":  {project.Wish{Dir: tree(t, "test_a.py"), Test: "pytest test_b.py"}, "test_b.py is not in the project"},
		"no hidden":     {project.Wish{Dir: tree(t, "test_a.py"), Hidden: []string{"more"}}, "more is not in the project"},
		"hidden above":  {project.Wish{Dir: tree(t, "test_a.py"), Hidden: []string{"../more"}}, "not a path within the project"},
		"same place":    {project.Wish{Dir: tree(t, "tests/test_a.py", "test/test_a.py")}, "would both be tests/test_a.py"},
	} {
		c.w.Sentence = "do it"
		if _, err := project.Make(t.Context(), c.w, t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// bundle adds a manifest to files, each with its path as content if it has none.
func bundle(kind, extensions string, files map[string]string) fstest.MapFS {
	all := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"` + kind +
		`","id":"nut-a","task":{"title":"t"},"extensions":` + extensions + `}`)}}
	for name, content := range files {
		all[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return all
}

func TestChanges(t *testing.T) {
	request := bundle("request", `{"guild":{"project":{"framework":"pytest","prefix":"sub/"}}}`, map[string]string{
		"files/a.py": "a\n", "files/same.py": "s\n", "files/util.py": "u\n", "tests/test_a.py": "t\n", "tests/util.py": "v\n", "tests/criteria.json": "{}",
	})
	artifacts := map[string]string{
		"a.py": "b\n", "same.py": "s\n", "util.py": "w\n", "criteria.json": "{}", "tests/test_a.py": "loose\n", "tests/test_new.py": "n\n",
		".git/config": "x", "conftest.py": "x", "result.json": "{}", "files/over.py": "o\n", ".github/workflows/x.yml": "x",
	}
	delivered := map[string]string{}
	for name, content := range artifacts {
		delivered["delivery/artifacts/"+name] = content
	}
	changes, err := project.Changes(t.Context(), request, bundle("delivery", "{}", delivered))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		line := c.Change + " " + c.Path
		if c.LeftOut != "" {
			line = "- " + c.Path
		} else if c.Runs != "" {
			line += " !"
		}
		got = append(got, line)
	}
	want := []string{"- .git/config", "added .github/workflows/x.yml !", "changed a.py", "added conftest.py !", "added criteria.json",
		"added over.py", "- result.json", "- tests/test_a.py", "added tests/test_new.py", "changed util.py"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	for _, c := range changes {
		if c.Path == "a.py" && c.Text != "--- a/sub/a.py\n+++ b/sub/a.py\n@@ -1 +1 @@\n-a\n+b\n" {
			t.Errorf("the diff is %q", c.Text)
		}
	}
}

// TestModesInChanges has git apply what a delivery changes.
func TestModesInChanges(t *testing.T) {
	request := bundle("request", "{}", map[string]string{"files/a.sh": "a\n", "files/b.sh": "b\n", "files/c.sh": "c\n"})
	request["files/c.sh"].Mode = 0o755
	delivery := bundle("delivery", "{}", map[string]string{"delivery/artifacts/a.sh": "a\n", "delivery/artifacts/b.sh": "x\n",
		"delivery/artifacts/c.sh": "c\n", "delivery/artifacts/new one.sh": "n\n"})
	for _, name := range []string{"a.sh", "b.sh", "new one.sh"} {
		delivery["delivery/artifacts/"+name].Mode = 0o755
	}
	changes, err := project.Changes(t.Context(), request, delivery)
	if err != nil {
		t.Fatal(err)
	}
	dir := tree(t)
	for name, mode := range map[string]os.FileMode{"a.sh": 0o644, "b.sh": 0o644, "c.sh": 0o755} {
		add(t, dir, name, name[:1]+"\n")
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	var patch strings.Builder
	for _, c := range changes {
		patch.WriteString(c.Text)
	}
	cmd := exec.Command("git", "apply")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, patch.String())
	}
	for name, want := range map[string]string{"a.sh": "-rwxr-xr-x", "b.sh": "-rwxr-xr-x", "c.sh": "-rw-r--r--", "new one.sh": "-rwxr-xr-x"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().String() != want {
			t.Errorf("%s: %v, %v, want %s", name, info.Mode(), err, want)
		}
	}
}

func TestRunsItself(t *testing.T) {
	for name, want := range map[string]bool{
		".github/workflows/ci.yml": true, ".GitLab-CI.yml": true, ".husky/pre-commit": true, "sub/.envrc": true, "tests/conftest.py": true,
		"web/package.json": true, ".vscode/tasks.json": true, "hooks/pre-commit": true, ".eslintrc.cjs": true, "flake.nix": true, "CLAUDE.md": true, "x.pth": true, "jest.config.js": true, ".gitattributes": true,
		"a.py": false, "docs/hooks.md": false, "src/hooks/use.js": false, "README.md": false, "src/package.go": false,
	} {
		if got := project.RunsItself(name); (got != "") != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestHiddenTestsBehindALinkAreRefused(t *testing.T) {
	dir := tree(t, "a.py", "tests/test_a.py", "tests/private/test_h.py")
	if err := os.Symlink("tests/private", filepath.Join(dir, "private")); err != nil {
		t.Fatal(err)
	}
	_, err := project.Make(t.Context(), project.Wish{Dir: dir, Sentence: "do it", Hidden: []string{"private"}}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Error(err)
	}
}

func TestFolderCalledHiddenIsRefused(t *testing.T) {
	dir := tree(t, "go.mod", "hidden/a.go", "hidden/a_test.go")
	_, err := project.Make(t.Context(), project.Wish{Dir: dir, Sentence: "do it"}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "--hidden") {
		t.Error(err)
	}
}
