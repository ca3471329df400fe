package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"guild"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/step/judge"
)

// bundles returns the names of the example bundles.
func bundles(t *testing.T) []string {
	t.Helper()
	manifests, err := filepath.Glob("*/nutshell.json")
	if err != nil || len(manifests) < 6 {
		t.Fatalf("found %d bundles, want six: %v", len(manifests), err)
	}
	for i := range manifests {
		manifests[i] = filepath.Dir(manifests[i])
	}
	return manifests
}

// manifest has the members of nutshell.json that are checked here.
type manifest struct {
	ID         string
	Type       string `json:"bundle_type"`
	Context    struct{ Requirements string }
	Acceptance struct {
		File    string   `json:"criteria_file"`
		Scripts []string `json:"test_scripts"`
	}
	Extensions struct{ Guild struct{ Task string } }
}

func read(t *testing.T, name string) manifest {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(name, "nutshell.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

func TestBundlesMatchManifests(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range bundles(t) {
		m := read(t, name)
		if m.ID != "nut-example-"+name || m.Type != "request" || seen[m.ID] {
			t.Errorf("%s: id %q, type %q", name, m.ID, m.Type)
		}
		seen[m.ID] = true
		if !slices.Contains([]string{"python", "javascript", "go", "shell"}, m.Extensions.Guild.Task) {
			t.Errorf("%s: task %q", name, m.Extensions.Guild.Task)
		}
		for _, file := range append(m.Acceptance.Scripts, m.Acceptance.File, m.Context.Requirements) {
			if info, err := os.Stat(filepath.Join(name, file)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s names %q, which is no file", name, file)
			}
		}
	}
}

// TestProvidersGetWhatTheyDeserve lets each of the demo's providers work on each bundle and judges the delivery.
func TestProvidersGetWhatTheyDeserve(t *testing.T) {
	runner, caps, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	engine := &judge.Judge{Exam: &exam.Engine{Runner: runner, Cache: cache(t)}, Caps: caps}
	deserved := map[string][]guild.Outcome{
		"able":   {guild.Success},
		"sloppy": {guild.Partial, guild.Failure},
		"cheat":  {guild.Failure, guild.Error, guild.Violation},
	}
	for _, name := range bundles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle, err := filepath.Abs(name)
			if err != nil {
				t.Fatal(err)
			}
			vetted(t, engine.Exam, bundle)
			for worker, want := range deserved {
				v, _, err := engine.Judge(t.Context(), bundle, deliver(t, worker, bundle))
				if err != nil {
					t.Fatalf("%s: %v", worker, err)
				}
				if !slices.Contains(want, v.Outcome) {
					t.Errorf("%s: %s (%d of %d tests, %s), want one of %v", worker, v.Outcome, v.Passed, v.Expected, v.Cause, want)
				}
				if worker == "able" {
					allStrong(t, v)
				}
			}
		})
	}
}

// vetted checks that every test of a bundle shows something, and that some fail on its own files.
func vetted(t *testing.T, e *exam.Engine, bundle string) {
	t.Helper()
	v, err := e.Vet(t.Context(), bundle, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Problems) > 0 {
		t.Errorf("problems %q", v.Problems)
	}
	for _, c := range v.Criteria {
		if c.Strength != guild.Strong || c.Untried != "" {
			t.Errorf("%s can become %s: %s; not tried: %s", c.ID, c.Strength, c.Because, c.Untried)
		}
		for _, test := range c.Tests {
			if test.Nothing {
				t.Errorf("%s shows nothing: %s", test.ID, test.Because)
			}
		}
	}
}

// allStrong checks that every test of a verdict is strong, so that the bundle has none that proves nothing.
func allStrong(t *testing.T, v guild.Verdict) {
	t.Helper()
	if v.Strength != guild.Strong {
		t.Errorf("the verdict is %s", v.Strength)
	}
	for _, test := range v.Tests {
		if test.Strength != guild.Strong {
			t.Errorf("%s is %s: %s", test.ID, test.Strength, test.Because)
		}
	}
}

// TestLyingProgramsNotStrong judges programs that compute nothing.
func TestLyingProgramsNotStrong(t *testing.T) {
	runner, caps, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	engine := &judge.Judge{Exam: &exam.Engine{Runner: runner}, Caps: caps}
	bundle, err := filepath.Abs("top-words")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"exit 0", "exit 1", "exit 2", "cat", `echo "$@"`, "echo 'two 2\none 1'", "echo usage >&2; exit 2"} {
		delivery := t.TempDir()
		artifacts := filepath.Join(delivery, "delivery", "artifacts")
		if err := os.MkdirAll(artifacts, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(artifacts, "top-words.sh"), []byte(program), 0o644); err != nil {
			t.Fatal(err)
		}
		v, _, err := engine.Judge(t.Context(), bundle, delivery)
		if err != nil {
			t.Fatal(err)
		}
		if v.Outcome == guild.Success || v.Strength == guild.Strong || v.Strengths.Strong > 0 {
			t.Errorf("%s: %s, %s, %+v", program, v.Outcome, v.Strength, *v.Strengths)
		}
	}
}

// cache returns the directory in which the judge keeps Go's standard library between runs of this test, because
// building it takes longer than the rest of the test.
func cache(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		return t.TempDir()
	}
	return filepath.Join(dir, "guild-test")
}

// deliver runs a worker as internal/step/work does, but without the sandbox, and returns the delivery's directory.
func deliver(t *testing.T, worker, bundle string) string {
	t.Helper()
	delivery := t.TempDir()
	artifacts := filepath.Join(delivery, "delivery", "artifacts")
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), filepath.Join("workers", worker))
	run.Env = []string{"PATH=/usr/bin:/bin", "GUILD_BUNDLE=" + bundle, "GUILD_DELIVERY=" + artifacts, "GUILD_JOB=test"}
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", worker, err, out)
	}
	return delivery
}
