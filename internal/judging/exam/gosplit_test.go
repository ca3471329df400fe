package exam

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild"
)

// goEngine returns an engine with a cache that survives the tests, because preparing it takes longer than everything else.
func goEngine(t *testing.T) *Engine {
	t.Helper()
	e := quick(t)
	if cache, err := os.UserCacheDir(); err == nil {
		e.Cache = filepath.Join(cache, "guild-judge-test")
	}
	return e
}

// foundGo examines a delivery with Go tests and returns the finding.
func foundGo(t *testing.T, e *Engine, files map[string]string, delivery string) Finding {
	t.Helper()
	r, err := e.Examine(t.Context(), goBundle(t, files, under(files, "f", "files/")), deliver(t, under(files, delivery, "")))
	if err != nil {
		t.Fatal(err)
	}
	return r.Findings[0]
}

func TestHonestGoProgramsPass(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	e := goEngine(t)
	wait, done := some()
	for name, files := range sample(programs(t, "gohonest.txtar"), 9) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			want := guild.Strong
			reason := ""
			for _, s := range []guild.Strength{guild.Mixed, guild.Weak} {
				if text, is := files[string(s)]; is {
					want, reason = s, strings.TrimSpace(text)
				}
			}
			f := foundGo(t, e, files, "a")
			if len(f.Tests) == 0 || Passed(f.Tests) != len(f.Tests) || f.Fault != "" || len(f.Breaches) > 0 || f.Strength != want {
				t.Errorf("%s (%s), %d of %d, %q, %v", f.Strength, f.Because, Passed(f.Tests), len(f.Tests), f.Fault, f.Breaches)
				unpassed(t, f)
				for _, run := range f.Runs {
					t.Logf("%s: exit %d\n%s%s%.300s", run.Argv, run.Result.Exit, run.Stdout, run.Stderr, run.Results)
				}
			}
			if !strings.Contains(f.Because, reason) {
				t.Errorf("because %q, want %q", f.Because, reason)
			}
		})
	}
}

// goFiles returns the files of an archive that is one program.
func goFiles(t *testing.T, archive string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for dir, inside := range programs(t, archive) {
		for name, text := range inside {
			files[dir+"/"+name] = text
		}
	}
	return files
}

// TestGoAttacksAreNotStrong examines a delivery that passes all tests without solving any task.
func TestGoAttacksAreNotStrong(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program")
	}
	f := foundGo(t, goEngine(t), goFiles(t, "goattacks.txtar"), "a")
	if len(f.Tests) < 12 || Passed(f.Tests) != len(f.Tests) {
		t.Errorf("%d of %d passed, want all of 12 at least", Passed(f.Tests), len(f.Tests))
		unpassed(t, f)
	}
	for _, test := range f.Tests {
		if test.Strength != guild.Weak {
			t.Errorf("%s is %s (%s), want weak", test.ID, test.Strength, test.Because)
		}
	}
}

func TestForgedGoProgramsAreNotStrong(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	e := goEngine(t)
	wait, done := some()
	for name, files := range sample(programs(t, "goforgeries.txtar"), 18) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			f := foundGo(t, e, files, "a")
			passed := Passed(f.Tests) == len(f.Tests) && f.Fault == ""
			if passed && f.Strength == guild.Strong {
				t.Errorf("passed, strong (%s)", f.Because)
			}
			if slices.ContainsFunc(f.Tests, Excused) {
				t.Errorf("excused: %+v", f.Tests)
			}
			why := strings.TrimSpace(files["why"])
			said := []string{f.Fault, f.Because}
			for _, test := range f.Tests {
				said = append(said, test.Because)
			}
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, why) }) {
				t.Errorf("%s because %q, want %q", f.Strength, said, why)
			}
			if why == "" && passed {
				t.Error("passed")
			}
		})
	}
}
