package judge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"guild"
	"guild/internal/exam"
	"guild/internal/judge"
	"guild/internal/sandbox/tiers"
)

// hostile says what the deliveries of testdata/hostile.txtar come to. A SUCCESS of one that does not solve the
// task is a forgery that pytest beside the submission cannot prevent: it is why such verdicts are weak.
var hostile = []struct {
	delivery string
	want     guild.Outcome
}{
	{"honest", guild.Success},
	{"honest_in_src", guild.Success},
	{"honest_repeats_files", guild.Success},
	{"wrong", guild.Failure},
	{"mostly_right", guild.Partial},
	{"nothing", guild.Failure},
	{"no_function", guild.Failure},
	{"syntax_error", guild.Failure},
	{"raises", guild.Failure},
	{"not_utf8_output", guild.Failure},

	{"conftest_forges", guild.Failure},
	{"sitecustomize", guild.Failure},
	{"configuration", guild.Failure},
	{"shadows_modules", guild.Failure},
	{"reads_the_tests", guild.Failure},
	{"reads_the_expectations", guild.Success},

	{"skips", guild.Failure},
	{"skips_the_module", guild.Failure},
	{"xfails", guild.Failure},
	{"deselects", guild.Failure},
	{"collect_only_by_option", guild.Failure},
	{"exits_at_import", guild.Error},
	{"sys_exit_at_import", guild.Failure},
	{"exits_in_a_call", guild.Error},
	{"exits_pytest", guild.Failure},
	{"raises_base_exception", guild.Error},
	{"closes_descriptors", guild.Error},
	{"crashes", guild.Error},
	{"kills_everybody", guild.Failure},
	{"writes_descriptor_3", guild.Error},
	{"floods_descriptors", guild.Violation},

	{"endless_loop", guild.Error},
	{"sleeps", guild.Error},
	{"fork_bomb", guild.Error},
	{"thread_bomb", guild.Error},
	{"eats_memory", guild.Error},
	{"fills_the_disk", guild.Error},
	{"floods_stdout", guild.Error},
	{"floods_quietly", guild.Success},
	{"leaves_a_daemon", guild.Success},

	{"connects_out", guild.Violation},
	{"sends_a_datagram", guild.Violation},
	{"ptrace", guild.Violation},
	{"mount", guild.Violation},
	{"unshare", guild.Violation},

	{"patches_reports", guild.Failure},
	{"replaces_the_tests", guild.Failure},
	{"always_equal", guild.Success},          // forged
	{"patches_the_call", guild.Success},      // forged
	{"walks_to_the_examiner", guild.Success}, // forged
}

func TestHostileDeliveriesComeToWhatTheTableSays(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/hostile.txtar")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	e := newEngine(t)
	for _, h := range hostile {
		listed[h.delivery] = true
		t.Run(h.delivery, func(t *testing.T) {
			t.Parallel()
			v, evidence, err := e.Judge(t.Context(), "testdata/add", unpack(t, archive, h.delivery))
			if err != nil {
				t.Fatal(err)
			}
			if v.Outcome != h.want || v.Expected != 5 && v.Outcome != guild.Violation {
				t.Errorf("%s (%s), want %s; %d of %d\n%.3000s", v.Outcome, v.Cause, h.want, v.Passed, v.Expected, evidence)
			}
			if v.Strength != guild.Weak {
				t.Error("pytest beside the submission is weak")
			}
			if v.Outcome != guild.Success && v.Cause == "" {
				t.Error("no cause")
			}
		})
	}
	for _, f := range archive.Files {
		if name, _, _ := strings.Cut(f.Name, "/"); !listed[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
}

// unpack makes the directory of an unpacked delivery from the files below name.
func unpack(t *testing.T, a *txtar.Archive, name string) string {
	t.Helper()
	files := map[string]string{}
	for _, f := range a.Files {
		if inside, found := strings.CutPrefix(f.Name, name+"/"); found {
			files[inside] = string(f.Data)
		}
	}
	return deliver(t, files)
}

// deliver makes the directory of an unpacked delivery with these artifacts.
func deliver(t *testing.T, artifacts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	lay(t, filepath.Join(dir, "delivery", "artifacts"), artifacts)
	return dir
}

// lay writes files below dir.
func lay(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func newEngine(t testing.TB) *judge.Judge {
	t.Helper()
	runner, caps, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatalf("%v; %s", err, caps.Remedy)
	}
	return &judge.Judge{Exam: &exam.Engine{Runner: runner}, Caps: caps}
}
