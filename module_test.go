package guild_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gomodule "golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// The test renames a copy of the commit, offers it through a module proxy and fetches it from there, as any user
// would. A replace line would hide a path that cannot be fetched.
func TestRenamedModuleCanBeFetched(t *testing.T) {
	const renamed, version = "example.com/acme/guild", "v0.1.0"
	source, proxy, user := copyOfCheckout(t), t.TempDir(), t.TempDir()
	command(t, source, "scripts/module", renamed)
	command(t, source, "go", "list", "-deps", "-test", "./...") // finds every import
	command(t, source, "go", "list", "-C", "bench", "-deps", "-test", "./...")

	offered := filepath.Join(proxy, renamed, "@v")
	if err := os.MkdirAll(offered, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(offered, "list"), version+"\n")
	write(t, filepath.Join(offered, version+".info"), `{"Version":"`+version+`","Time":"2026-11-25T00:00:00Z"}`)
	write(t, filepath.Join(offered, version+".mod"), string(mod))
	packed, err := os.Create(filepath.Join(offered, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := modzip.CreateFromDir(packed, gomodule.Version{Path: renamed, Version: version}, source); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}

	// The go.mod files of the requirements come from the module cache, which has them.
	t.Setenv("GOPROXY", "file://"+proxy+",file://"+strings.TrimSpace(command(t, ".", "go", "env", "GOMODCACHE"))+"/cache/download")
	t.Setenv("GONOSUMDB", renamed)
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOMODCACHE", filepath.Join(user, "cache"))
	t.Cleanup(func() { command(t, user, "go", "clean", "-modcache") })
	write(t, filepath.Join(user, "go.mod"), "module user\n\ngo 1.26\n")
	write(t, filepath.Join(user, "main.go"), `package main

import (
	"fmt"

	"`+renamed+`/canon"
)

func main() {
	b, err := canon.Canonical([]byte(`+"`"+`{"b":1.0,"a":null}`+"`"+`))
	fmt.Println(string(b), err)
}
`)
	command(t, user, "go", "get", renamed+"/canon@"+version)
	if got, want := command(t, user, "go", "run", "."), "{\"a\":null,\"b\":1.0} <nil>\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// copyOfCheckout copies the files that git tracks or would track.
func copyOfCheckout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name := range strings.SplitSeq(command(t, ".", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// command runs a command in a directory and returns its output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	if strings.Contains(name, "/") {
		name = filepath.Join(dir, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, problems.String())
	}
	return string(out)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
