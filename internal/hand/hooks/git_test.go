package hooks_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/internal/hand/hooks"
	"guild/nook"
)

// repository is a scratch repository whose hooks report to a spool.
type repository struct {
	t     *testing.T
	dir   string
	home  string // NOOK_HOME
	spool hooks.Spool
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	home := filepath.Join(t.TempDir(), `it's "a" home $(touch x)`)
	r := &repository{t: t, dir: t.TempDir(), home: home, spool: hooks.Spool{Dir: filepath.Join(home, "spool")}}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repository) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "NOOK_HOME=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	return cmd
}

// git runs git, which must succeed, and returns what it prints.
func (r *repository) git(args ...string) string {
	r.t.Helper()
	out, err := r.command(args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (r *repository) commit(message string) string {
	r.t.Helper()
	return r.git("commit", "-q", "--allow-empty", "-m", message)
}

func (r *repository) install() {
	r.t.Helper()
	if _, err := hooks.InstallGit(r.t.Context(), r.dir, hooks.Config{AgentID: `agent "1" it's`, Home: r.home}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repository) uninstall() {
	r.t.Helper()
	if _, err := hooks.UninstallGit(r.t.Context(), r.dir); err != nil {
		r.t.Fatal(err)
	}
}

// triggers drains the spool and returns the sorted triggers of its events.
func (r *repository) triggers() string {
	r.t.Helper()
	var all []string
	for _, e := range drain(r.t, r.spool) {
		if e.AgentID != `agent "1" it's` || e.Type != nook.TypeCompleted || e.ID == "" {
			r.t.Errorf("unexpected event %+v", e)
		}
		all = append(all, e.Trigger)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// drain returns all events of a spool, of which none may be refused.
func drain(t *testing.T, s hooks.Spool) []nook.Event {
	t.Helper()
	var all []nook.Event
	record := func(_ string, e nook.Event) error { all = append(all, e); return nil }
	refused := func(file string, why error) { t.Errorf("%s is refused: %v", file, why) }
	if _, err := s.Drain(time.Now().Add(time.Second), record, refused); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCommitsAreReported(t *testing.T) {
	r := newRepository(t)
	r.install()
	for _, c := range []struct{ message, want string }{
		{"begin", "git.commit"},
		{"fix: the reader stops at a NUL", "git.bugfix git.commit"},
		{"Fix(spool)!: a race", "git.bugfix git.commit"},
		{"hotfix: restart", "git.bugfix git.commit"},
		{"reader: stop later\n\nFixes #12", "git.bugfix git.commit"},
		{"reader: stop later (fixed owner/repo#7)", "git.bugfix git.commit"},
		{"this fixes GH-3", "git.bugfix git.commit"},
		{"prefix: not a fix", "git.commit"},
		{"feat: closes #12", "git.commit"},
		{"fixture #12", "git.commit"},
		{"BUGFIX: fixed: the reader", "git.bugfix git.commit"},
		{"reader: fixes the stop, see #12", "git.commit"},
		{"the issue #12 was fixed", "git.commit"},
		{"* ? [a-z]", "git.commit"},
		{"suffixes #12", "git.commit"},
		{"a message with \"quotes\", $(touch y) and \\", "git.commit"},
	} {
		if out := r.commit(c.message); out != "" {
			t.Errorf("%q: the hook printed %q", c.message, out)
		}
		if got := r.triggers(); got != c.want {
			t.Errorf("%q: %s, want %s", c.message, got, c.want)
		}
	}
	entries, err := filepath.Glob(filepath.Join(r.dir, "[xy]"))
	if err != nil || len(entries) > 0 {
		t.Errorf("something was executed: %v %v", entries, err)
	}
}

func TestReleasesAreReported(t *testing.T) {
	r := newRepository(t)
	r.install()
	r.commit("begin")
	r.triggers()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"tag", "v1.0.0"}, "git.release"},
		{[]string{"tag", "-a", "-m", "two", "module/v2"}, "git.release"},
		{[]string{"tag", "-a", "-m", "two", "release-2.0"}, "git.release"},
		{[]string{"tag", "-f", "v1.0.0", "HEAD"}, ""},
		{[]string{"tag", "before-rebase"}, ""},
		{[]string{"branch", "v3.0"}, ""},
		{[]string{"tag", "-d", "v1.0.0"}, ""},
	} {
		r.git(c.args...)
		if got := r.triggers(); got != c.want {
			t.Errorf("git %v: %q, want %q", c.args, got, c.want)
		}
	}
	// Somebody else's tags come with a fetch.
	other := newRepository(t)
	other.commit("theirs")
	other.git("tag", "v9.0")
	r.git("fetch", "-q", other.dir, "tag", "v9.0")
	r.git("fetch", "-q", "--tags", other.dir)
	if got := r.triggers(); got != "" {
		t.Errorf("fetched tags are reported: %s", got)
	}
}

// hookOf writes a hook of somebody else.
func (r *repository) hookOf(folder, name, text string) string {
	r.t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func TestEarlierHooksStillRun(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a script that exits", "#!/bin/sh\necho \"$0 $#\" >>log\nexit 3\n", ".git/hooks/post-commit 0\n"},
		{"a script with flags", "#!/usr/bin/env -S sh -e\necho \"$0 $#\" >>log\nfalse\necho no >>log\n", ".git/hooks/post-commit 0\n"},
		{"a script that reads a file beside it", "#!/bin/bash\n. \"$(dirname \"$0\")/helper\"\n", "helped post-commit\n"},
		{"another program", "#!/usr/bin/awk -f\nBEGIN { print \"awk\" >>\"log\" }\n", "awk\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRepository(t)
			folder := filepath.Join(r.dir, ".git", "hooks")
			path := r.hookOf(folder, "post-commit", c.text)
			r.hookOf(folder, "helper", "echo helped $(basename \"$0\") >>log\n")
			r.install()
			r.install() // again, as after an update
			r.commit("begin")
			if got := r.read("log"); got != c.want {
				t.Errorf("the earlier hook wrote %q, want %q", got, c.want)
			}
			if got := r.triggers(); got != "git.commit" {
				t.Errorf("reported: %q", got)
			}
			r.uninstall()
			if b, err := os.ReadFile(path); err != nil || string(b) != c.text {
				t.Errorf("not restored: %q, %v", b, err)
			}
			if left, _ := filepath.Glob(filepath.Join(folder, "*nook*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func (r *repository) read(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

func TestEarlierTransactionHookDecides(t *testing.T) {
	r := newRepository(t)
	r.commit("begin")
	path := r.hookOf(filepath.Join(r.dir, ".git", "hooks"), "reference-transaction",
		"#!/bin/sh\nin=$(cat)\necho \"$1 $in\" >>log\ncase $in in *refs/tags/v6.6*) exit 1 ;; esac\n")
	r.install()
	r.git("tag", "v1.0")
	if log := r.read("log"); !strings.Contains(log, "committed ") || !strings.Contains(log, "refs/tags/v1.0") {
		t.Errorf("the earlier hook got %q", log)
	}
	if out, err := r.command("tag", "v6.6").CombinedOutput(); err == nil {
		t.Errorf("a refused tag was made: %s", out)
	}
	if got := r.triggers(); got != "git.release" {
		t.Errorf("reported: %q", got)
	}
	r.uninstall()
	if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "v6.6") {
		t.Errorf("not restored: %q, %v", b, err)
	}
}

func TestHooksPathIsRespected(t *testing.T) {
	r := newRepository(t)
	r.git("config", "core.hooksPath", "their hooks")
	r.install()
	r.commit("begin")
	if got := r.triggers(); got != "git.commit" {
		t.Errorf("reported: %q", got)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "their hooks", "post-commit")); err != nil {
		t.Error(err)
	}
}

func TestWorktreesReport(t *testing.T) {
	r := newRepository(t)
	r.commit("begin")
	other := filepath.Join(t.TempDir(), "other")
	r.git("worktree", "add", "-q", other)
	r.dir = other
	r.install()
	r.commit("in the worktree")
	r.git("commit", "-q", "--amend", "--allow-empty", "-m", "fix: again")
	if got := r.triggers(); got != "git.bugfix git.commit git.commit" {
		t.Errorf("reported: %q", got)
	}
}

func TestHookWrittenOverOursStays(t *testing.T) {
	r := newRepository(t)
	r.install()
	path := r.hookOf(filepath.Join(r.dir, ".git", "hooks"), "post-commit", "#!/bin/sh\n# new\n")
	r.uninstall()
	if b, err := os.ReadFile(path); err != nil || string(b) != "#!/bin/sh\n# new\n" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, ".git", "hooks", "reference-transaction")); err == nil {
		t.Error("reference-transaction is still there")
	}
}

func TestCommitWithoutSpoolSucceeds(t *testing.T) {
	for name, spoil := range map[string]func(r *repository) error{
		"the home is a file":    func(r *repository) error { return os.WriteFile(r.home, nil, 0o600) },
		"the spool is a file":   func(r *repository) error { return os.WriteFile(r.spool.Dir, nil, 0o600) },
		"the spool is full":     func(r *repository) error { return fill(r.spool.Dir) },
		"the file system is so": func(r *repository) error { return os.Symlink("/proc/nowhere", r.spool.Dir) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			r.install()
			if name != "the home is a file" {
				if err := os.MkdirAll(r.home, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := spoil(r); err != nil {
				t.Fatal(err)
			}
			if out := r.commit("begin"); out != "" {
				t.Errorf("git printed %q", out)
			}
			if names, _ := filepath.Glob(filepath.Join(r.spool.Dir, "git-*")); len(names) > 0 {
				t.Errorf("spooled: %v", names)
			}
		})
	}
}

// fill puts as many files into a spool as may be there.
func fill(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i := range hooks.MaxFiles {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", i)), []byte(`{"type":"agent.idle","agentId":"a"}`), 0o600); err != nil {
			return err
		}
	}
	return nil
}
