package guild_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// release writes an archive of the given files, and its checksum, as scripts/release does.
func release(t *testing.T, files map[string]string) (dir, archive string) {
	t.Helper()
	dir, name := t.TempDir(), "guild-1.0-"+runtime.GOOS+"-"+runtime.GOARCH
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for file, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	archive = filepath.Join(dir, name+".tar.gz")
	write(t, archive, b.String())
	write(t, filepath.Join(dir, "SHA256SUMS"), fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(b.Bytes()), name))
	return dir, archive
}

// install runs scripts/install with a prefix, and returns what is there afterwards and what was printed.
func install(t *testing.T, prefix, from string) (programs []string, printed string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "scripts/install", "--prefix", prefix, from)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	found, _ := os.ReadDir(filepath.Join(prefix, "bin")) // may be missing
	for _, f := range found {
		programs = append(programs, f.Name())
	}
	return programs, string(out), err
}

var honest = map[string]string{"guild": "#!/bin/sh\necho guild 1.0\n", "nook": "#!/bin/sh\n", "nutshell": "#!/bin/sh\n", "README.md": "read me"}

func TestInstall(t *testing.T) {
	dir, _ := release(t, honest)
	for _, from := range []string{dir, "file://" + dir, dir + "/"} {
		programs, printed, err := install(t, t.TempDir(), from)
		if err != nil || strings.Join(programs, " ") != "guild nook nutshell" || !strings.Contains(printed, "installed guild 1.0") {
			t.Errorf("from %s: %v, %q, %s", from, programs, err, printed)
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		spoil func(dir, archive string)
		want  string
	}{
		"a damaged archive":        {honest, func(_, archive string) { write(t, archive, "damaged") }, "is not what SHA256SUMS says"},
		"an archive without guild": {map[string]string{"nook": "", "nutshell": ""}, nil, "does not have guild"},
		"a guild that cannot run":  {map[string]string{"guild": "#!/bin/sh\nexit 1\n", "nook": "", "nutshell": ""}, nil, "does not run"},
		"a missing archive":        {honest, func(_, archive string) { os.Remove(archive) }, "cannot be read"},
		"missing checksums":        {honest, func(dir, _ string) { os.Remove(filepath.Join(dir, "SHA256SUMS")) }, "cannot be read"},
		"checksums of others":      {honest, func(dir, _ string) { write(t, filepath.Join(dir, "SHA256SUMS"), "x\n") }, "lists no archive"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, archive := release(t, c.files)
			if c.spoil != nil {
				c.spoil(dir, archive)
			}
			prefix := t.TempDir()
			if err := os.Mkdir(filepath.Join(prefix, "bin"), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(prefix, "bin", "guild"), "the earlier one")
			programs, printed, err := install(t, prefix, dir)
			if err == nil || !strings.Contains(printed, c.want) {
				t.Errorf("got %v and %q, want %q", err, printed, c.want)
			}
			earlier, err := os.ReadFile(filepath.Join(prefix, "bin", "guild"))
			if err != nil || string(earlier) != "the earlier one" || len(programs) != 1 {
				t.Errorf("left %v, %q, %v", programs, earlier, err)
			}
		})
	}
	if _, printed, err := install(t, t.TempDir(), "http://example.com"); err == nil || !strings.Contains(printed, "only https") {
		t.Errorf("plain http: %v, %s", err, printed)
	}
}
