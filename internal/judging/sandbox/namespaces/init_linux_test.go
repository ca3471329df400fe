package namespaces

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFirstProcessBuild builds the embedded programs again and compares them.
func TestFirstProcessBuild(t *testing.T) {
	version, err := os.ReadFile("boxinit_version")
	if err != nil {
		t.Skip("without its source: " + err.Error())
	}
	if built := strings.TrimSpace(string(version)); built != runtime.Version() {
		t.Skipf("it was built by %s, this is %s", built, runtime.Version())
	}
	source, err := os.ReadFile("init_linux.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		line, generates := strings.CutPrefix(strings.TrimSpace(line), "//go:generate env ")
		if !generates {
			continue
		}
		name := strings.Fields(line[strings.Index(line, "-o "):])[1]
		t.Run(name, func(t *testing.T) { rebuild(t, line, name) })
	}
}

func rebuild(t *testing.T, line, name string) {
	t.Parallel()
	fresh := filepath.Join(t.TempDir(), name)
	build := exec.Command("sh", "-c", "exec env "+strings.Replace(line, "-o "+name, "-o "+fresh, 1))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what its source makes (%v): run go generate ./internal/judging/sandbox/namespaces", name, err)
	}
}
