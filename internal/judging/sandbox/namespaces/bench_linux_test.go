package namespaces_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/namespaces"
)

// fastest benchmarks f and also reports its fastest run, which depends less on load.
func fastest(b *testing.B, f func()) {
	f() // warm up
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Microseconds()), "min-µs/op")
}

// bare returns a bwrap command with roughly the files that a run sees, and without limits, filter or supervision.
func bare(argv ...string) []string {
	return append([]string{
		"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000", "--hostname", "box",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--",
	}, argv...)
}

func command(b *testing.B, argv ...string) func() {
	if _, err := exec.LookPath(argv[0]); err != nil {
		b.Skip(err)
	}
	return func() {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
}

func inside(b *testing.B, s sandbox.Spec) func() {
	r := &namespaces.Runner{}
	s.Env = []string{"PATH=/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"}
	return func() {
		var out, complaint writer
		res, err := r.Run(b.Context(), s, sandbox.IO{Stdout: &out, Stderr: &complaint})
		if err != nil || res.Exit != 0 || len(res.Breaches) > 0 {
			b.Fatalf("%+v %v\n%s%s", res, err, out, complaint)
		}
	}
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }

func BenchmarkTrue(b *testing.B) {
	b.Run("namespaces", func(b *testing.B) { fastest(b, inside(b, sandbox.Spec{Argv: []string{"/bin/true"}})) })
	b.Run("bwrap", func(b *testing.B) { fastest(b, command(b, bare("/bin/true")...)) })
	b.Run("bare", func(b *testing.B) { fastest(b, command(b, "/bin/true")) })
}

func BenchmarkPython(b *testing.B) {
	python := []string{"/usr/bin/python3", "-c", "pass"}
	b.Run("namespaces", func(b *testing.B) { fastest(b, inside(b, sandbox.Spec{Argv: python})) })
	b.Run("bwrap", func(b *testing.B) { fastest(b, command(b, bare(python...)...)) })
	b.Run("bare", func(b *testing.B) { fastest(b, command(b, python...)) })
}

func BenchmarkPytest(b *testing.B) {
	dir := b.TempDir()
	test := "import pytest\n@pytest.mark.parametrize('n', range(15))\ndef test(n): assert n * n >= n\n"
	if err := os.WriteFile(filepath.Join(dir, "test_a.py"), []byte(test), 0o644); err != nil {
		b.Fatal(err)
	}
	pytest := []string{"/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"}
	b.Run("namespaces", func(b *testing.B) {
		fastest(b, inside(b, sandbox.Spec{
			Argv: append(pytest, "test_a.py"), Copies: []sandbox.Copy{{Host: dir, Inside: sandbox.Workspace}},
		}))
	})
	b.Run("bare", func(b *testing.B) { fastest(b, command(b, append(pytest, filepath.Join(dir, "test_a.py"))...)) })
}
