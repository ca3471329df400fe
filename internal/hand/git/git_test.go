package git_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild/internal/hand/git"
)

// repository is a repository for one test.
type repository struct {
	*testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"} {
		t.Setenv(name, "Ann")
	}
	for _, name := range []string{"GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "ann@example.com")
	}
	r := repository{t, t.TempDir()}
	r.git("init", "-q")
	return r
}

// git runs git and returns what it prints.
func (r repository) git(args ...string) string {
	r.Helper()
	out, err := exec.Command("git", append([]string{"-C", r.dir}, args...)...).CombinedOutput()
	if err != nil {
		r.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repository) write(name, content string) string {
	r.Helper()
	file := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
		r.Fatal(err)
	}
	return file
}

func (r repository) commit(files map[string]string) {
	r.Helper()
	for name, content := range files {
		r.write(name, content)
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "a commit")
}

func (r repository) read(name string) string {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.Error(err)
	}
	return string(b)
}

func (r repository) open() *git.Repo {
	r.Helper()
	repo, err := git.Open(r.Context(), r.dir)
	if err != nil {
		r.Fatal(err)
	}
	return repo
}

// change returns a change of a file from one content to another; "-" stands for no file.
func (r repository) change(name, before, after string) git.Change {
	dir := r.TempDir()
	c := git.Change{Path: name, After: filepath.Join(dir, "after")}
	files := map[string]string{c.After: after}
	if before != "-" {
		c.Before = filepath.Join(dir, "before")
		files[c.Before] = before
	}
	for file, content := range files {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			r.Fatal(err)
		}
	}
	return c
}

func TestReadCommit(t *testing.T) {
	r := newRepository(t)
	if _, err := r.open().Head(t.Context()); !errors.Is(err, git.ErrUnborn) {
		t.Errorf("without a commit: %v", err)
	}
	if err := os.Symlink("a", filepath.Join(r.dir, "link")); err != nil {
		t.Fatal(err)
	}
	r.commit(map[string]string{"a": "1\n", "sub/with space": "", "sub/ümlaut": "3"})
	r.write("a", "changed\n")
	r.write("new/x", "")
	repo := r.open()
	head, err := repo.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files, err := repo.Files(t.Context(), head)
	if err != nil || len(files) != 4 || files[1].Mode != git.Link {
		t.Fatalf("%+v, %v", files, err)
	}
	var got []string
	err = repo.Read(t.Context(), files, 10, func(f git.File, content []byte) error {
		got = append(got, f.Path+"="+string(content))
		return nil
	})
	if want := []string{"a=1\n", "link=a", "sub/with space=", "sub/ümlaut=3"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if err := repo.Read(t.Context(), files, 1, func(git.File, []byte) error { return nil }); err == nil {
		t.Error("a file of 2 bytes was read, and 1 is allowed")
	}
	changed, untracked, err := repo.Changed(t.Context())
	if err != nil || !slices.Equal(changed, []string{"a"}) || !slices.Equal(untracked, []string{"new/x"}) {
		t.Errorf("changed %q, untracked %q, %v", changed, untracked, err)
	}
}

func TestSubdirectory(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1", "sub/b": "2"})
	r.write("sub/b", "3")
	r.write("c", "")
	repo, err := git.Open(t.Context(), filepath.Join(r.dir, "sub"))
	if err != nil || repo.Prefix != "sub/" {
		t.Fatalf("%+v, %v", repo, err)
	}
	files, err := repo.Files(t.Context(), "HEAD")
	if err != nil || len(files) != 1 || files[0].Path != "b" {
		t.Errorf("%+v, %v", files, err)
	}
	changed, untracked, err := repo.Changed(t.Context())
	if err != nil || !slices.Equal(changed, []string{"b"}) || len(untracked) > 0 {
		t.Errorf("changed %q, untracked %q, %v", changed, untracked, err)
	}
}

func TestNoRepository(t *testing.T) {
	t.Setenv("GIT_DIR", "/nowhere") // as in a hook
	if _, err := git.Open(t.Context(), t.TempDir()); !errors.Is(err, git.ErrNone) {
		t.Errorf("got %v", err)
	}
}

func TestCommitMergesLaterChanges(t *testing.T) {
	r := newRepository(t)
	base := "1\n2\n3\n4\n5\n6\n"
	r.commit(map[string]string{"a": base})
	r.commit(map[string]string{"a": "0\n" + base, "other": ""})
	changes := []git.Change{r.change("a", base, base+"7\n"), r.change("new/b", "-", "b\n")}
	changes[1].Executable = true
	made, err := r.open().Commit(t.Context(), changes, "Do it\n\nGuild-Receipt: r-1\n", "")
	if err != nil || made != r.git("rev-parse", "HEAD") {
		t.Fatalf("%s, %v", made, err)
	}
	if got := r.read("a"); got != "0\n"+base+"7\n" {
		t.Errorf("a is %q", got)
	}
	if info, err := os.Stat(filepath.Join(r.dir, "new/b")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("new/b: %v, %v", info, err)
	}
	if got := r.git("log", "-1", "--format=%s|%(trailers:key=Guild-Receipt,valueonly)"); !strings.HasPrefix(got, "Do it|r-1") {
		t.Errorf("the message is %q", got)
	}
	if _, err := r.open().Commit(t.Context(), changes[1:], "again", ""); !errors.Is(err, git.ErrNothing) {
		t.Errorf("again: %v", err)
	}
}

func TestCommitOnBranch(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1\n"})
	was := r.git("symbolic-ref", "--short", "HEAD")
	if _, err := r.open().Commit(t.Context(), []git.Change{r.change("a", "1\n", "2\n")}, "m", "guild/x"); err != nil {
		t.Fatal(err)
	}
	if now := r.git("symbolic-ref", "--short", "HEAD"); now != "guild/x" {
		t.Errorf("on %s", now)
	}
	r.git("checkout", "-q", was)
	if got := r.read("a"); got != "1\n" {
		t.Errorf("a is %q on the branch before", got)
	}
	if _, err := r.open().Commit(t.Context(), []git.Change{r.change("a", "1\n", "2\n")}, "m", "guild/x"); err == nil || r.git("symbolic-ref", "--short", "HEAD") != was {
		t.Errorf("a branch that exists: %v", err)
	}
}

func TestCommitConflicts(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1\n", "b": "1\n"})
	r.commit(map[string]string{"a": "mine\n"})
	changes := []git.Change{r.change("a", "1\n", "theirs\n"), r.change("b", "1\n", "2\n")}
	_, err := r.open().Commit(t.Context(), changes, "m", "")
	conflict, ok := errors.AsType[*git.ConflictError](err)
	if !ok || !slices.Equal(conflict.Paths, []string{"a"}) {
		t.Fatalf("got %v", err)
	}
	if got := r.read("a"); !strings.Contains(got, "<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>>") {
		t.Errorf("a is %q", got)
	}
	if _, err := r.open().Commit(t.Context(), changes, "m", ""); err == nil {
		t.Error("committed over conflicts")
	}
	r.git("cherry-pick", "--abort")
	if got := r.read("a"); got != "mine\n" {
		t.Errorf("a is %q afterwards", got)
	}
}

func TestUncommittedChangesStay(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1\n", "b": "1\n"})
	r.write("b", "mine\n")
	_, err := r.open().Commit(t.Context(), []git.Change{r.change("a", "1\n", "2\n")}, "m", "new")
	if dirty, ok := errors.AsType[*git.DirtyError](err); !ok || !slices.Equal(dirty.Paths, []string{"b"}) {
		t.Errorf("got %v", err)
	}
	r.git("checkout", "-q", "b")
	r.write("new", "untracked\n")
	if _, err := r.open().Commit(t.Context(), []git.Change{r.change("new", "-", "theirs\n")}, "m", ""); err == nil || r.read("new") != "untracked\n" {
		t.Errorf("an untracked file was replaced: %v, %q", err, r.read("new"))
	}
}

// A hook that the commit itself brings must not run.
func TestCommitRunsNoHook(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1\n"})
	r.git("config", "core.hooksPath", ".githooks")
	ran := filepath.Join(t.TempDir(), "ran")
	hook := "#!/bin/sh\ntouch " + ran + "\n"
	var changes []git.Change
	for _, name := range []string{"post-checkout", "post-commit", "prepare-commit-msg", "post-index-change", "reference-transaction"} {
		c := r.change(".githooks/"+name, "-", hook)
		c.Executable = true
		changes = append(changes, c)
	}
	if _, err := r.open().Commit(t.Context(), changes, "m", "new"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a hook ran")
	}
}

func TestPathOfGitIsRefused(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1\n"})
	for _, name := range []string{".git/config", "sub/.GIT/config", "../out"} {
		if _, err := r.open().Commit(t.Context(), []git.Change{r.change(name, "-", "x")}, "m", ""); err == nil {
			t.Errorf("%s was committed", name)
		}
	}
}

func TestUnusableRepositoryIsNoAbsentOne(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1"})
	bare := t.TempDir()
	r.git("clone", "-q", "--bare", ".", bare)
	r.write(".git/config", "[core\n")
	for _, dir := range []string{bare, r.dir, filepath.Join(r.dir, ".git")} {
		if _, err := git.Open(t.Context(), dir); err == nil || errors.Is(err, git.ErrNone) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestIgnoredFileStays(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{".gitignore": ".env\n", "a": "1"})
	r.write(".env", "mine")
	_, err := r.open().Commit(t.Context(), []git.Change{r.change(".env", "-", "theirs")}, "m", "new")
	dirty, ok := errors.AsType[*git.DirtyError](err)
	if !ok || !dirty.Untracked || r.read(".env") != "mine" || r.git("branch", "--list", "new") != "" {
		t.Errorf("%v, .env has %q", err, r.read(".env"))
	}
}

func TestSecondCommitOfSameChangeIsNothing(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1\n2\n3\n4\n5\n6\n7\n"})
	change := []git.Change{r.change("a", "1\n2\n3\n4\n5\n6\n7\n", "one\n2\n3\n4\n5\n6\n7\n")}
	if _, err := r.open().Commit(t.Context(), change, "m", ""); err != nil {
		t.Fatal(err)
	}
	r.commit(map[string]string{"a": "one\n2\n3\n4\n5\n6\nseven\n"})
	head, branch := r.git("rev-parse", "HEAD"), r.git("branch", "--show-current")
	_, err := r.open().Commit(t.Context(), change, "m", "again")
	if !errors.Is(err, git.ErrNothing) || r.git("rev-parse", "HEAD") != head || r.git("branch", "--show-current") != branch ||
		r.git("branch", "--list", "again") != "" || r.git("status", "--porcelain") != "" {
		t.Errorf("%v\n%s", err, r.git("status"))
	}
}

func TestCommitElsewhereIsRefused(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"README": "another project\n"})
	changes := []git.Change{r.change("src/a", "1\n", "2\n"), {Path: "src/new", After: r.change("new", "", "n\n").After}}
	if _, err := r.open().Commit(t.Context(), changes, "m", ""); !errors.Is(err, git.ErrElsewhere) || r.git("status", "--porcelain") != "" {
		t.Errorf("%v\n%s", err, r.git("status"))
	}
}

func TestCommitNeedsAName(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"a": "1\n"})
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		os.Unsetenv(name) // newRepository restores it
	}
	r.git("config", "user.useConfigOnly", "true")
	head := r.git("rev-parse", "HEAD")
	if _, err := r.open().Commit(t.Context(), []git.Change{r.change("a", "1\n", "2\n")}, "m", ""); !errors.Is(err, git.ErrNobody) || r.git("rev-parse", "HEAD") != head {
		t.Errorf("got %v", err)
	}
}

func TestLongObjectNames(t *testing.T) {
	r := newRepository(t)
	r.git("init", "-q", "--object-format=sha256", "long")
	long := repository{t, filepath.Join(r.dir, "long")}
	long.commit(map[string]string{"a": "1"})
	if _, err := long.open().Commit(t.Context(), []git.Change{long.change("b", "-", "2")}, "m", ""); err != nil || long.read("b") != "2" {
		t.Error(err)
	}
}
