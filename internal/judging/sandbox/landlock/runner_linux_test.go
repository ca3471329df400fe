package landlock

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// skipWithout skips the test if this tier is not usable.
func skipWithout(t *testing.T) {
	t.Helper()
	if abi() == 0 || confine.AloneFilter(sandbox.Standard, 7) == nil {
		t.Skip("no Landlock here")
	}
}

func TestCageSignals(t *testing.T) {
	skipWithout(t)
	if abi() < 6 {
		t.Skip("this Landlock does not know signals")
	}
	before := unix.Kill(unix.Getppid(), 0)
	r, err := newRules(abi())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	c, err := newCage(r, confine.AloneFilter(sandbox.Standard, abi()), true)
	if err != nil {
		t.Fatal(err)
	}
	s := confine.SuperviseAlone(c.listener, func(int) bool { return false })
	if !c.scoped {
		t.Error("signals would reach others")
	}
	c.do(func() { err = unix.Kill(unix.Getppid(), 0) })
	if err != unix.EPERM {
		t.Errorf("a signal to the parent: %v", err)
	}
	c.close()
	s.Close()
	if after := unix.Kill(unix.Getppid(), 0); after != before {
		t.Errorf("from another thread: %v, %v before", after, before)
	}
}

// ran is a result with its output.
type ran struct {
	sandbox.Result
	stdout, stderr, results string
}

// sh runs a script with small limits, but with enough time for a busy machine. change may alter them.
func sh(t *testing.T, script string, change ...func(*sandbox.Spec)) ran {
	t.Helper()
	skipWithout(t)
	s := sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", script},
		Env:  []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"},
		Limits: sandbox.Limits{
			Wall: time.Minute, CPU: 30 * time.Second, Memory: 256 << 20, Disk: 32 << 20, Output: 64 << 10, Pids: 50,
		},
	}
	for _, c := range change {
		c(&s)
	}
	var stdout, stderr, results bytes.Buffer
	streams := sandbox.IO{Stdin: strings.NewReader("hello\n"), Stdout: &stdout, Stderr: &stderr, Results: &results}
	res, err := Runner{}.Run(t.Context(), s, streams)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return ran{res, strings.TrimSpace(stdout.String()), stderr.String(), results.String()}
}

func py(t *testing.T, program string, change ...func(*sandbox.Spec)) ran {
	t.Helper()
	change = append(change, func(s *sandbox.Spec) { s.Argv = []string{"/usr/bin/python3", "-I", "-c", program} })
	return sh(t, "", change...)
}

// prints fails the test unless the run exited with 0 and printed want.
func (r ran) prints(t *testing.T, want string) {
	t.Helper()
	if r.Exit != 0 || r.Killed != "" || r.stdout != want || len(r.Breaches) != 0 {
		t.Errorf("exit %d %s %s\nstdout: %s\nstderr: %s\nwant:   %s\nbreaches %+v", r.Exit, r.Signal, r.Killed, r.stdout, r.stderr, want, r.Breaches)
	}
}

func TestProbe(t *testing.T) {
	skipWithout(t)
	c := Runner{}.Probe(t.Context())
	if !c.Usable || c.Tier != Tier || c.Reason != "" || c.Remedy != "" || !strings.HasPrefix(c.MAC, "landlock ") || len(c.Gaps) == 0 {
		t.Errorf("%+v", c)
	}
}

func TestStreams(t *testing.T) {
	got := sh(t, "cat; echo oops >&2; echo result >&3; ls -d /dev/fd/4 /dev/fd/5")
	if got.stdout != "hello" || !strings.HasPrefix(got.stderr, "oops\n") || got.results != "result\n" || strings.Count(got.stderr, "No such file") != 2 {
		t.Errorf("%+v", got)
	}
	sh(t, "pwd | sed 's|.*/box|/box|'; cd "+sandbox.Home+" && echo there").prints(t, "/box/work\nthere")
	py(t, "import os; print(*sorted(k for k in os.environ if k not in ('LC_CTYPE', 'PWD')))").prints(t, "LANG PATH TMPDIR")
}

func TestEndings(t *testing.T) {
	if got := sh(t, "exit 7"); got.Exit != 7 || got.Signal != "" || got.Usage.MemoryPeak <= 0 {
		t.Errorf("%+v", got.Result)
	}
	if got := sh(t, "kill -SEGV $$"); got.Exit != 139 || got.Signal != "SIGSEGV" {
		t.Errorf("%+v", got.Result)
	}
	missing := func(s *sandbox.Spec) { s.Argv = []string{"/no/such/program"} }
	if got := sh(t, "", missing); got.Exit != 127 {
		t.Errorf("%+v", got.Result)
	}
}

func TestHostIsHidden(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{secret, "/etc/shadow", "/etc/hostname", "/proc/self/environ", "/proc/1/cmdline", fmt.Sprintf("/proc/%d/environ", os.Getpid())} {
		sh(t, "cat "+path+" 2>/dev/null || echo refused").prints(t, "refused")
	}
	for _, dir := range []string{"/", "/root", "/home", "/proc", "/sys", "/tmp", "/var", filepath.Dir(secret)} {
		sh(t, "ls "+dir+" 2>/dev/null || echo refused").prints(t, "refused")
	}
	for _, path := range []string{"/x", "/usr/x", "/etc/x", "/tmp/guild-x", "/dev/shm/guild-x", "/dev/x", secret, "/usr/bin/env"} {
		sh(t, "echo x 2>/dev/null >"+path+" || echo refused").prints(t, "refused")
		if path != secret && !strings.HasPrefix(path, "/usr/bin") && exists(path) {
			t.Errorf("%s was made", path)
		}
	}
	sh(t, "rm -f "+secret+" 2>/dev/null || echo refused; ln "+secret+" x 2>/dev/null || echo refused").prints(t, "refused\nrefused")
	sh(t, "echo fine >$TMPDIR/x && cat $TMPDIR/x").prints(t, "fine")
	sh(t, "chmod 0 "+secret+"; chmod 0 /usr/bin/env; touch -t 200001010000 "+secret+"; echo tried").prints(t, "tried")
	info, err := os.Stat(secret)
	if err != nil || info.Mode().Perm() != 0o644 || info.ModTime().Year() == 2000 {
		t.Errorf("%v %v", info, err)
	}
}

func TestNoCapabilities(t *testing.T) {
	py(t, "import ctypes\nh = (ctypes.c_uint32 * 2)(0x20080522, 0)\nd = (ctypes.c_uint32 * 6)(*[9] * 6)\n"+
		"print(ctypes.CDLL(None).capget(h, d), list(d)[:2], list(d)[3:5], ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))").prints(t, "0 [0, 0] [0, 0] 1")
}

func TestSockets(t *testing.T) {
	got := py(t, "import socket\ntry: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nexcept OSError as e: print(e.errno)")
	got.prints(t, "13")
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "datagrams was refused") || got.Usage.Refused == 0 {
		t.Errorf("warnings %q, refused %d", got.Warnings, got.Usage.Refused)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	port := l.Addr().(*net.TCPAddr).Port
	py(t, fmt.Sprintf("import socket\nprint(socket.socket().connect_ex(('127.0.0.1', %d)), socket.socket(socket.AF_UNIX).connect_ex(%q))", port, u.Addr())).prints(t, "111 13")
	py(t, "import socket\nfor s in socket.socket(), socket.socket(socket.AF_UNIX):\n for f in (lambda: s.bind(('127.0.0.1', 0) if s.family == 2 else 'x'), s.listen):\n  try: f(); print('done')\n  except OSError as e: print(e.errno)").prints(t, "13\n13\n13\n13")
	py(t, "import socket\na, b = socket.socketpair()\na.sendmsg([b'fine'])\nprint(b.recv(9).decode())").prints(t, "fine")
}

func TestEscapes(t *testing.T) {
	for name, call := range map[string]string{ // a kernel without the filter would refuse these too
		"ptrace": "ptrace(0x4200, 1, 0, 0)", "mount": "mount(b'no', b'/no/such', b'none', 0, None)",
		"unshare": "unshare(0x10000001)", "chroot": "chroot(b'/no/such')", "setns": "setns(-1, 0)",
		"process_vm_readv": "process_vm_readv(-1, None, 0, None, 0, 0)", "socket": "socket(17, 3, 0)",
	} {
		got := py(t, "import ctypes\nctypes.CDLL(None)."+call+"\nprint('came back')")
		if got.stdout != "" || len(got.Breaches) != 1 || got.Breaches[0].Syscall != name {
			t.Errorf("%s: stdout %q, breaches %+v", name, got.stdout, got.Breaches)
		}
	}
}

func TestOtherProcesses(t *testing.T) {
	witness := exec.Command("/bin/sleep", "100")
	if err := witness.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { witness.Process.Kill(); witness.Wait() }()
	pid := witness.Process.Pid
	sh(t, fmt.Sprintf("kill -9 %d 2>/dev/null || echo refused; kill -9 %d 2>/dev/null || echo refused", pid, os.Getpid())).prints(t, "refused\nrefused")
	py(t, fmt.Sprintf("import resource\ntry: resource.prlimit(%d, resource.RLIMIT_CPU, (1, 1))\nexcept OSError as e: print(e.errno)", pid)).prints(t, "1")
	py(t, fmt.Sprintf("import os\ntry: os.sched_setaffinity(%d, [0])\nexcept OSError as e: print(e.errno)", pid)).prints(t, "1")
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("the witness: %v", err)
	}
}

func TestLimits(t *testing.T) {
	quick := func(s *sandbox.Spec) { s.Limits.Wall = time.Second }
	second := func(s *sandbox.Spec) { s.Limits.CPU = time.Second }
	fill := "for i in 1 2 3 4 5 6 7 8 9; do head -c 9000000 /dev/zero >%s/$i || sleep 9; done; sleep 9"
	for _, c := range []struct {
		want string
		got  ran
	}{
		{sandbox.KilledWall, sh(t, "sleep 100", quick)},
		{sandbox.KilledWall, sh(t, "trap '' TERM INT HUP; sleep 100 & sleep 100", quick)},
		{sandbox.KilledCPU, sh(t, "while :; do :; done", second)},
		{sandbox.KilledCPU, py(t, "import os\nos.fork()\nos.fork()\nwhile True: pass", second)},
		{sandbox.KilledMemory, py(t, "import time\nb = []\nwhile True: b.append(bytearray(8<<20)); time.sleep(0.01)")},
		{sandbox.KilledPids, py(t, "import os,time\nwhile True:\n try: os.fork()\n except OSError: time.sleep(9)")},
		{sandbox.KilledOutput, sh(t, "yes")},
		{sandbox.KilledDisk, sh(t, fmt.Sprintf(fill, "."))},
		{sandbox.KilledDisk, sh(t, fmt.Sprintf(fill, "$TMPDIR"))},
	} {
		if c.got.Killed != c.want {
			t.Errorf("killed by %q, want %q: %+v", c.got.Killed, c.want, c.got)
		}
	}
	few := func(s *sandbox.Spec) { s.Limits.Inodes = 500 }
	if got := py(t, "import time\nfor i in range(5000):\n open(f'{i}', 'w')\ntime.sleep(9)", few); got.Killed != sandbox.KilledDisk {
		t.Errorf("killed by %q", got.Killed)
	}
}

func TestMarkStays(t *testing.T) {
	py(t, "import resource\nfor l in ((5, 5), (resource.RLIM_INFINITY,) * 2):\n try: resource.setrlimit(10, l); print('done')\n except (OSError, ValueError) as e: print(e)").
		prints(t, "not allowed to raise maximum limit\nnot allowed to raise maximum limit")
	m := mark(77)
	if !m.in([]byte("Limit  Soft Limit\nMax file locks            77                   77                   locks\n")) ||
		m.in([]byte("Max file locks            unlimited            unlimited            locks\n")) || m.in([]byte("Max file locks")) {
		t.Error("a limits file is misread")
	}
}

func TestLeftovers(t *testing.T) {
	skipWithout(t)
	t.Setenv("TMPDIR", t.TempDir())
	before, fds := scratches(t), openFiles(t)
	sentinel := fmt.Sprintf("guild-leftover-%d", time.Now().UnixNano())
	py(t, "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.closerange(0, 9); time.sleep(1000)\n os._exit(0)\ntime.sleep(0.1)\nprint('parent') # "+sentinel).prints(t, "parent")
	sh(t, "sleep 1000 & mkdir -m 0 closed; exit 0 # "+sentinel)
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, _ := os.ReadFile(f); bytes.Contains(b, []byte(sentinel)) {
			t.Errorf("left: %s %q", f, b)
		}
	}
	if now := scratches(t); now > before {
		t.Errorf("%d directories, %d before", now, before)
	}
	if now := openFiles(t); now > fds {
		t.Errorf("%d descriptors, %d before", now, fds)
	}
}

func scratches(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(os.TempDir(), "guild-landlock-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestCopiesAndCollect(t *testing.T) {
	skipWithout(t)
	in, tests := t.TempDir(), t.TempDir()
	for _, f := range []struct{ dir, name, content string }{{in, "a", "one"}, {tests, "t", "two"}} {
		if err := os.WriteFile(filepath.Join(f.dir, f.name), []byte(f.content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var files, out bytes.Buffer
	s := sandbox.Spec{
		Argv:    []string{"/bin/sh", "-c", "cat a /judge/t; echo x 2>/dev/null >/judge/t || echo ' sealed'; mkdir d; echo made >d/f; ln -s /etc/passwd link"},
		Env:     []string{"PATH=/usr/bin:/bin"},
		Copies:  []sandbox.Copy{{Host: in, Inside: sandbox.Workspace}, {Host: tests, Inside: sandbox.Judge, ReadOnly: true}},
		Collect: []string{"d", "link", "missing"},
	}
	res, err := Runner{}.Run(t.Context(), s, sandbox.IO{Stdout: &out, Files: &files})
	if err != nil || res.Exit != 0 || out.String() != "onetwo sealed\n" {
		t.Fatalf("%+v %v %q", res, err, out.String())
	}
	var names []string
	for tr := tar.NewReader(&files); ; {
		h, err := tr.Next()
		if err != nil {
			break
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "d/ d/f" {
		t.Errorf("collected %q", got)
	}
}

func TestMounts(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(in, "a"), []byte("from outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	sh(t, fmt.Sprintf("cat %s/a; cp %s/a %s/b; echo x 2>/dev/null >%s/c || echo ' refused'; cat %s/in/a", in, in, out, in, sandbox.Workspace), func(s *sandbox.Spec) {
		s.Mounts = []sandbox.Mount{{Host: in, Inside: in}, {Host: out, Inside: out, Writable: true}, {Host: in, Inside: sandbox.Workspace + "/in"}}
	}).prints(t, "from outside refused\nfrom outside")
	if b, err := os.ReadFile(filepath.Join(out, "b")); string(b) != "from outside" {
		t.Errorf("%q, %v", b, err)
	}
	s := sandbox.Spec{Argv: []string{"/bin/true"}, Mounts: []sandbox.Mount{{Host: in, Inside: "/elsewhere"}}}
	if _, err := (Runner{}).Run(t.Context(), s, sandbox.IO{}); err == nil {
		t.Error("it cannot be shown there")
	}
}

func TestWideProgram(t *testing.T) {
	for name, program := range map[string]string{
		"subprocess": "import subprocess\nprint(subprocess.run(['/bin/echo', 'fine'], capture_output=True, text=True).stdout)",
		"asyncio":    "import asyncio\nasync def f(): return await asyncio.to_thread(lambda: 'fine')\nprint(asyncio.run(f()))",
		"sqlite":     "import sqlite3\nc = sqlite3.connect('x.db')\nc.execute('create table t (a)')\nc.execute(\"insert into t values ('fine')\")\nc.commit()\nprint(c.execute('select a from t').fetchone()[0])",
		"temporary":  "import tempfile\nf = tempfile.NamedTemporaryFile('w+')\nf.write('fine'); f.seek(0); print(f.read())",
		"copies":     "import shutil\nopen('a', 'w').write('fine')\nshutil.copy2('a', 'b')\nprint(open('b').read())",
	} {
		t.Run(name, func(t *testing.T) { py(t, program).prints(t, "fine") })
	}
}

func TestStopped(t *testing.T) {
	skipWithout(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := writer(func(p []byte) (int, error) { cancel(); return len(p), nil })
	s := sandbox.Spec{Argv: []string{"/bin/sh", "-c", "echo started; sleep 100"}, Env: []string{"PATH=/usr/bin:/bin"}}
	if _, err := (Runner{}).Run(ctx, s, sandbox.IO{Stdout: out}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := (Runner{}).Run(t.Context(), sandbox.Spec{}, sandbox.IO{}); err == nil {
		t.Error("a run of nothing")
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
