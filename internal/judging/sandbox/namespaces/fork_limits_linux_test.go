package namespaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

func TestForkLimits(t *testing.T) {
	r := warm(t)
	quick := func(s *sandbox.Spec) { s.Limits.Wall = time.Second }
	second := func(s *sandbox.Spec) { s.Limits.CPU = time.Second }
	for _, c := range []struct {
		name, lines, killed string
		change              func(*sandbox.Spec)
	}{
		{"asleep", "import time\ntime.sleep(100)", sandbox.KilledWall, quick},
		{"ignores signals", "import signal, time\n[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]\ntime.sleep(100)", sandbox.KilledWall, quick},
		{"busy", "while True: pass", sandbox.KilledCPU, second},
		{"busy children", "os.fork()\nos.fork()\nwhile True: pass", sandbox.KilledCPU, second},
		{"memory", "b = []\nwhile True: b.append(bytearray(8<<20))", sandbox.KilledMemory, nil},
		{"processes", "import time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(9)", sandbox.KilledPids, nil},
		{"output", "while True: print('y' * 1000)", sandbox.KilledOutput, nil},
		{"results", "while True: os.write(3, b'y' * 1000)", sandbox.KilledOutput, nil},
		{"disk", "import time\ntry:\n  for i in range(9):\n    open('/tmp/%d' % i, 'wb').write(bytes(9000000))\nexcept OSError: pass\ntime.sleep(9)", sandbox.KilledDisk, nil},
		{"files", "import time\ntry:\n  for i in range(30000):\n    open('/box/work/%d' % i, 'wb')\nexcept OSError: pass\ntime.sleep(9)", sandbox.KilledDisk, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			change := func(*sandbox.Spec) {}
			if c.change != nil {
				change = c.change
			}
			if got := forked(t, r, does(c.lines, change)); got.killed != c.killed {
				t.Errorf("killed by %q, want %q: %.500s", got.killed, c.killed, fmt.Sprintf("%+v", got))
			}
		})
	}
}

// atOnce lists programs that reach a limit and end before a poll may notice it.
var atOnce = []struct{ name, lines, killed string }{
	{"disk", "try: open('/tmp/x', 'wb').write(bytes(40 << 20))\nexcept OSError: pass", sandbox.KilledDisk},
	{"shared memory", "try: open('/dev/shm/x', 'wb').write(bytes(40 << 20))\nexcept OSError: pass", sandbox.KilledDisk},
	{"files", "try:\n  for i in range(30000): os.mknod('/tmp/%d' % i)\nexcept OSError: pass", sandbox.KilledDisk},
	{"almost all of the disk", "open('/tmp/x', 'wb').write(bytes(31 << 20))", ""},
	{"threads", "import threading, time\ntry:\n  while True: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n" +
		"except RuntimeError: os._exit(0)", sandbox.KilledPids},
	{"processes", "try:\n  while os.fork(): pass\n  os._exit(0)\nexcept OSError: pass", sandbox.KilledPids},
}

func TestForkLimitsOfShortRun(t *testing.T) {
	r := warm(t)
	for _, c := range atOnce {
		t.Run(c.name, func(t *testing.T) {
			if got := forked(t, r, does(c.lines, func(s *sandbox.Spec) { s.Limits.Disk = 32 << 20 })); got.killed != c.killed {
				t.Errorf("killed by %q, want %q: %.500s", got.killed, c.killed, fmt.Sprintf("%+v", got))
			}
		})
	}
}

func TestLimitsOfShortCommand(t *testing.T) {
	for _, c := range atOnce {
		t.Run(c.name, func(t *testing.T) {
			s := sandbox.Spec{Argv: []string{"python3", "-c", "import os\n" + c.lines}}
			s.Limits.Disk = 32 << 20
			if res, out := attempt(t, &Runner{}, s); res.Killed != c.killed {
				t.Errorf("killed by %q, want %q: %.500s", res.Killed, c.killed, fmt.Sprintf("%+v %s", res, out))
			}
		})
	}
}

func TestForkBreaches(t *testing.T) {
	r := warm(t)
	call := "import ctypes\nc = ctypes.CDLL(None)\nprint(%s, 'came back')"
	for name, expr := range map[string]string{
		"ptrace":           "c.ptrace(0, 0, 0, 0)",
		"mount":            "c.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
		"unshare":          "c.unshare(0x10000000)",
		"process_vm_readv": "c.process_vm_readv(1, None, 0, None, 0, 0)",
	} {
		t.Run(name, func(t *testing.T) {
			got := forked(t, r, does(fmt.Sprintf(call, expr)))
			if len(got.breaches) != 1 || got.breaches[0].Syscall != name || strings.Contains(got.stdout, "came back") {
				t.Errorf("%+v", got)
			}
		})
	}
	const attempt = "import socket\ns = socket.socket(socket.%s, socket.%s)\ns.settimeout(2)\n" +
		"try: s.connect(('%s', 80)); s.send(b'x')\nexcept OSError as e: print(e.errno)"
	for _, c := range [][3]string{
		{"AF_INET", "SOCK_STREAM", "192.0.2.1"}, {"AF_INET", "SOCK_DGRAM", "192.0.2.1"}, {"AF_INET6", "SOCK_STREAM", "2001:db8::1"},
	} {
		t.Run(c[2]+" "+c[1], func(t *testing.T) {
			got := forked(t, r, does(fmt.Sprintf(attempt, c[0], c[1], c[2])))
			if len(got.breaches) != 1 || got.breaches[0].Syscall != "connect" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestForkFirstProcess(t *testing.T) {
	r := warm(t)
	got := forked(t, r, does(`
import signal
for s in signal.valid_signals():
    try: os.kill(1, s)
    except OSError: pass
for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/fd/0", "/proc/1/root/etc/passwd", "/proc/1/maps"):
    try: print(path, open(path, "rb").read())
    except OSError: pass
print("alive")`))
	if got.stdout != "alive\n" || got.exit != 0 {
		t.Errorf("%+v", got)
	}
}

func TestForkCopies(t *testing.T) {
	r := warm(t)
	in, over, tests := t.TempDir(), t.TempDir(), t.TempDir()
	long := strings.Repeat("long", 60)
	for path, content := range map[string]string{
		filepath.Join(in, "a"): "first", filepath.Join(in, "sub", "ü\n"): "odd", filepath.Join(in, long): "long name",
		filepath.Join(over, "a"): "later", filepath.Join(tests, "t", "test_x.py"): "assert True",
		filepath.Join(over, "big"): strings.Repeat("0123456789abcdef", 200_000),
	} {
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copies := func(s *sandbox.Spec) {
		s.Copies = []sandbox.Copy{
			{Host: in, Inside: sandbox.Workspace}, {Host: over, Inside: sandbox.Workspace},
			{Host: tests, Inside: "/judge/tests", ReadOnly: true}, {Host: in, Inside: "/box/home/x", ReadOnly: true},
		}
	}
	got := forked(t, r, does(`
read = lambda p: open(p).read()
print(read("a"), read("sub/ü\n"), read("`+long+`"), len(read("big")), read("/judge/tests/t/test_x.py"), os.access("a", os.X_OK))
open("a", "w").write("mine")
for p in ("/judge/tests/x", "/judge/tests/t/test_x.py", "/box/judge/tests/x", "/box/judge/tests/t/test_x.py", "/box/home/x/a"):
    try: open(p, "w"); print("written", p)
    except OSError as e: pass
for change in (lambda: os.rename("/judge/tests", "/judge/other"), lambda: os.rename("/box/judge/tests", "/box/judge/other")):
    try: change(); print("moved")
    except OSError: pass
print(read("a"), read("/judge/tests/t/test_x.py"))`, copies))
	if want := "later odd long name 3200000 assert True True\nmine assert True\n"; got.stdout != want {
		t.Errorf("%+v", got)
	}
	os.Symlink("/etc/passwd", filepath.Join(over, "link"))
	if _, err := run(t, r, does("pass", copies)); err == nil || errors.Is(err, errNotForked) {
		t.Errorf("a link was copied: %v", err)
	}
}

func TestForkChannel(t *testing.T) {
	r := warm(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	s := does("import socket\ns = socket.socket(fileno=4)\ns.send(s.recv(100) + b' back')")
	ours.WriteString("there and")
	if _, err := r.Run(t.Context(), s, sandbox.IO{Channel: theirs}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, _ := ours.Read(b)
	if string(b[:n]) != "there and back" {
		t.Errorf("%q", b[:n])
	}
	if n, err := ours.Read(b); n != 0 || err == nil {
		t.Errorf("the channel is still open: %d %v", n, err)
	}
}

func TestForkStopped(t *testing.T) {
	r := warm(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := writer(func([]byte) { cancel() })
	s := does("import time\nprint('started', flush=True)\ntime.sleep(100)")
	if _, err := r.warm.run(ctx, r.base, s, sandbox.IO{Stdout: started}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := r.warm.run(ctx, r.base, s, sandbox.IO{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestForkAfterKilledTemplate(t *testing.T) {
	r := warm(t)
	s := does("print('fine')")
	says(t, r, s, "", "fine")
	first, err := r.warm.take(r.base, s)
	if err != nil {
		t.Fatal(err)
	}
	r.warm.giveBack(first)
	first.kill()
	<-first.gone
	says(t, r, s, "", "fine")
}

func TestTemplateFailure(t *testing.T) {
	r := warm(t)
	for name, setup := range map[string]string{
		"ModuleNotFoundError": "import nothing_of_that_name\n" + body("pass"),
		"writes":              "print('hello')\n" + body("pass"),
	} {
		_, err := run(t, r, program(setup))
		if !errors.Is(err, errNotForked) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTemplateCount(t *testing.T) {
	r := warm(t)
	for i := range maxTemplates + 2 {
		says(t, r, program(body(fmt.Sprintf("print(%d)", i))), "", fmt.Sprint(i))
	}
	if n := len(r.warm.warm); n != maxTemplates {
		t.Errorf("%d templates", n)
	}
}

func TestRandomOfForks(t *testing.T) {
	r := warm(t)
	s := program("import random, uuid, tempfile\n" + body("print(random.random(), os.urandom(8), uuid.uuid4(), tempfile.mktemp())"))
	if a, b := forked(t, r, s), forked(t, r, s); a.stdout == b.stdout {
		t.Errorf("twice %s", a.stdout)
	}
}
