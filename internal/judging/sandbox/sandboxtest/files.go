package sandboxtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/internal/judging/sandbox"
)

func shared(t *testing.T, r runner) {
	in, out := t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(in, "a"), []byte("from outside"), 0o600)
	os.Mkdir(filepath.Join(in, "sub"), 0o700)
	os.WriteFile(filepath.Join(in, "sub", "run"), []byte("#!/bin/sh\necho ran"), 0o700)
	mounts := func(s *sandbox.Spec) {
		s.Mounts = []sandbox.Mount{{Host: in, Inside: "/in"}, {Host: out, Inside: "/out", Writable: true}}
	}
	sh(t, r, "cat /in/a; cp /in/a /out/b; echo x 2>/dev/null >/in/c || echo ' refused'", mounts).prints(t, "from outside refused")
	if b, err := os.ReadFile(filepath.Join(out, "b")); string(b) != "from outside" {
		t.Errorf("%q, %v", b, err)
	}

	below := filepath.Join(sandbox.Temp, "guild", "in") // like a directory in the host's /tmp
	sh(t, r, "cat "+below+"/a; touch "+sandbox.Temp+"/b", func(s *sandbox.Spec) {
		s.Mounts = []sandbox.Mount{{Host: in, Inside: below}}
	}).prints(t, "from outside")

	over := t.TempDir()
	os.WriteFile(filepath.Join(over, "a"), []byte("later"), 0o644)
	copies := func(s *sandbox.Spec) {
		s.Copies = []sandbox.Copy{{Host: in, Inside: sandbox.Workspace}, {Host: over, Inside: sandbox.Workspace}}
	}
	sh(t, r, "cat a; echo; sub/run; echo mine >a; cat a; echo x >&3", copies).prints(t, "later\nran\nmine")
	py(t, r, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])", copies).prints(t, "[0, 1, 2, 3]")
	if b, _ := os.ReadFile(filepath.Join(over, "a")); string(b) != "later" {
		t.Errorf("a copy was written back: %q", b)
	}

	os.Symlink("/etc/passwd", filepath.Join(over, "link"))
	s := sandbox.Spec{Argv: []string{"/bin/true"}}
	copies(&s)
	if _, err := r.Run(t.Context(), s, sandbox.IO{}); err == nil {
		t.Error("a link was copied")
	}
}

// readOnly tries to change read-only copies in every way.
func readOnly(t *testing.T, r runner) {
	tests, over := t.TempDir(), t.TempDir()
	write := func(dir, name, content string) {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(tests, "a.py", "first")
	write(tests, "deep/down/b.py", "below")
	write(tests, "deep/secret.json", "secret")
	write(tests, "criteria.json", "secret")
	write(over, "a.py", "later")
	write(over, "deep/c.py", "beside")
	skip := func(name string) bool { return name == "criteria.json" || name == "deep/secret.json" }
	for _, place := range []string{sandbox.Judge + "/tests", sandbox.Workspace + "/tests", sandbox.Home + "/tests", sandbox.Judge} {
		t.Run(place, func(t *testing.T) {
			got := sh(t, r, attack, func(s *sandbox.Spec) {
				s.Copies = []sandbox.Copy{
					{Host: tests, Inside: place, ReadOnly: true, Skip: skip}, {Host: over, Inside: place, ReadOnly: true},
				}
				s.Argv = append(s.Argv, "sh", place)
			})
			got.prints(t, "later below beside\n./a.py\n./deep/c.py\n./deep/down/b.py")
		})
	}
	for file, want := range map[string]string{tests + "/a.py": "first", over + "/a.py": "later"} {
		if b, err := os.ReadFile(file); string(b) != want {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	t.Run("a writable copy beside the workspace", func(t *testing.T) {
		sh(t, r, "cat /judge/x/a.py; echo mine >/judge/x/a.py; cat /judge/x/a.py", func(s *sandbox.Spec) {
			s.Copies = []sandbox.Copy{{Host: tests, Inside: sandbox.Judge + "/x", Skip: skip}}
		}).prints(t, "firstmine")
	})
	t.Run("a link", func(t *testing.T) {
		os.Symlink("/etc/passwd", filepath.Join(over, "link"))
		s := sandbox.Spec{Argv: []string{"/bin/true"}}
		s.Copies = []sandbox.Copy{{Host: over, Inside: sandbox.Judge, ReadOnly: true}}
		if _, err := r.Run(t.Context(), s, sandbox.IO{}); err == nil {
			t.Error("it was copied")
		}
	})
}

// attack tries to change the files in $1 and then prints them.
const attack = `
cd "$1" || exit 1
exec 2>/dev/null
touch /box/work/mine /box/home/mine /tmp/mine || echo "the workspace cannot be written"
echo x >a.py && echo "wrote a file"
echo x >new.py && echo "made a file"
echo x >deep/down/conftest.py && echo "made a file below"
mkdir d deep/d && echo "made a directory"
rm -f a.py || mv deep/down/b.py deep/down/z.py && echo "removed a file"
chmod 777 a.py && echo "changed a mode"
mv deep other && echo "moved a directory"
ln -s /etc/passwd deep/link && echo "made a link"
echo $(cat a.py) $(cat deep/down/b.py) $(cat deep/c.py)
find . -type f | sort
`

// collect collects the files of hostile programs.
func collect(t *testing.T, r runner) {
	const leave = `
import os, socket, subprocess
def put(name, content="x"):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    open(name, "w").write(content)
put("report.txt", "hello")
put("out/größe.txt", "big")
put("out/run"); os.chmod("out/run", 0o755)
put("other/not.txt")
os.symlink("/etc/passwd", "out/passwd"); os.symlink("/", "out/root"); os.symlink("/etc", "linked")
os.symlink("/etc/hostname", "host"); os.mkfifo("out/pipe"); os.link("report.txt", "out/hard.txt")
socket.socket(socket.AF_UNIX).bind("out/socket")
try: os.mknod("out/device", 0o020666, os.makedev(1, 3))
except OSError: pass
for i in range(100):
    f = open(f"out/huge{i}", "w")
    try: os.ftruncate(f.fileno(), 31 << 20)
    except OSError: break
here = os.getcwd()
os.mkdir("out/deep"); os.chdir("out/deep")
for _ in range(200): os.mkdir("d"); os.chdir("d")
os.chdir(here)
subprocess.Popen(["sh", "-c", "while :; do echo x >>out/growing; done"])
`
	s := small()
	s.Argv = []string{"/usr/bin/python3", "-I", "-c", leave}
	s.Collect = []string{"report.txt", "out", "linked", "host", "linked/passwd", "missing", "out/../missing"}
	got := gather(t, r, s)
	for name, want := range map[string]string{"report.txt": "hello", "out/größe.txt": "big", "out/run": "x", "out/hard.txt": "hello"} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	for name := range got {
		if strings.Count(name, "/") > 100 || strings.HasPrefix(name, "linked") || strings.HasPrefix(name, "other") || name == "host" {
			t.Errorf("%s was collected", name)
		}
	}
	for _, script := range []string{
		"echo x >a; mv /box/work /box/gone; ln -s /etc /box/work",
		"echo x >a; rm -rf /box/work; ln -s /usr /box/work",
		"echo x >a; rm a; ln -s /etc/passwd a; mkfifo b",
		"chmod 0 /box /box/work",
	} {
		s := small()
		s.Argv, s.Collect = []string{"/bin/sh", "-c", script}, []string{"a", "b", "passwd", "bin", "hostname"}
		if got := gather(t, r, s); len(got) > 1 || got["a"] != "" && got["a"] != "x\n" {
			t.Errorf("%s: %v", script, slices.Collect(maps.Keys(got)))
		}
	}
	s.Limits.Wall, s.Argv = 3*time.Second, []string{"/bin/sh", "-c", "echo early >report.txt; sleep 100"}
	if got := gather(t, r, s); got["report.txt"] != "early\n" && r.has(t, sandbox.CollectsKilled) {
		t.Errorf("of a killed run: %v", got)
	}
}

// gather runs s and returns the collected files, which must be plain and within the limits.
func gather(t *testing.T, r runner, s sandbox.Spec) map[string]string {
	t.Helper()
	var files, complaint bytes.Buffer
	if _, err := r.Run(t.Context(), s, sandbox.IO{Files: &files, Stderr: &complaint}); err != nil {
		t.Fatalf("run: %v, %s", err, complaint.String())
	}
	if int64(files.Len()) > s.Limits.Disk+s.Limits.Disk/2 {
		t.Errorf("%d bytes were collected", files.Len())
	}
	got := map[string]string{}
	for tr := tar.NewReader(&files); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return got
		} else if err != nil {
			t.Fatalf("collected: %v", err)
		}
		if h.Typeflag == tar.TypeReg {
			b, _ := io.ReadAll(tr)
			got[h.Name] = string(b)
		} else if h.Typeflag != tar.TypeDir {
			t.Errorf("%s is of type %c", h.Name, h.Typeflag)
		}
	}
}
