//go:build linux && (amd64 || arm64)

package confine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/judging/sandbox"
)

// stageVariable makes the test binary the first step of a supervised run: it installs the filter of the profile that
// the variable names, and executes its arguments.
const stageVariable = "CONFINE_TEST_STAGE"

// unaccompanied stands for the filter of a run without namespaces, with a Landlock that does not confine signals.
const unaccompanied sandbox.Profile = "alone"

func TestMain(m *testing.M) {
	if p, staged := os.LookupEnv(stageVariable); staged {
		if err := stage(sandbox.Profile(p)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(126)
	}
	os.Exit(m.Run())
}

// stage writes the listener's number to descriptor 3 and waits for a byte on descriptor 4.
func stage(p sandbox.Profile) error {
	runtime.LockOSThread() // the filter is for one thread, and exec keeps that one
	if err := loopbackUp(); err != nil {
		return err
	}
	f := supervised(p)
	if p == unaccompanied {
		f = alone(sandbox.Standard, 5)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if err := json.NewEncoder(os.NewFile(3, "listener")).Encode(fd); err != nil {
		return err
	}
	if _, err := os.NewFile(4, "go").Read(make([]byte, 1)); err != nil {
		return err
	}
	return unix.Exec(os.Args[1], os.Args[1:], []string{"PATH=/usr/bin:/bin"})
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request)
}

// ran holds the result of a supervised run.
type ran struct {
	*Supervisor
	out    string
	killed bool // for a breach
}

// run runs a command under a profile's filter, with a network and a process namespace of its own.
func run(t *testing.T, p sandbox.Profile, network bool, argv ...string) ran {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	number, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	held, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, argv...)
	cmd.Env = []string{stageVariable + "=" + string(p)}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out, &out, []*os.File{tell, held}
	pidfd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		PidFD:       &pidfd, Pdeathsig: unix.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Skip("no namespaces here: " + err.Error())
	}
	tell.Close()
	held.Close()
	defer number.Close()
	defer release.Close()
	defer unix.Close(pidfd)

	var fd int
	if err := json.NewDecoder(number).Decode(&fd); err != nil {
		cmd.Wait()
		t.Fatalf("stage: %v %s", err, out.String())
	}
	listener, err := takeListener(pidfd, fd)
	if err != nil {
		t.Fatal(err)
	}
	r := ran{}
	if p == unaccompanied {
		r.Supervisor = SuperviseAlone(listener, func(pid int) bool { return pid == 1 }) // its id in its namespace
	} else {
		r.Supervisor = Supervise(listener, network)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	release.Write([]byte{1})
	select {
	case <-ended:
	case <-r.Breach():
		r.killed = true
		cmd.Process.Kill()
		<-ended
	}
	r.Close()
	r.out = strings.TrimSpace(out.String())
	return r
}

func python(t *testing.T, p sandbox.Profile, program string) ran {
	t.Helper()
	return run(t, p, false, "/usr/bin/python3", "-I", "-c", program)
}

func TestEscapeEndsRun(t *testing.T) {
	// Without the filter the kernel would refuse these arguments too.
	for call, want := range map[string]guild.Breach{
		"c.ptrace(0x4200, 7, 0, 0)":                     {Syscall: "ptrace", Detail: "request 0x4200 of process 7 (pid 1)"},
		"c.mount(b'no', b'/no/such', b'none', 0, None)": {Syscall: "mount", Detail: `"no" at "/no/such", type "none" (pid 1)`},
		"c.unshare(0x10020000 | 1)":                     {Syscall: "unshare", Detail: "CLONE_NEWUSER|CLONE_NEWNS (pid 1)"},
		"c.setns(-1, 0)":                                {Syscall: "setns", Detail: "descriptor -1, flags 0x0 (pid 1)"},
		"c.chroot(b'/no/such')":                         {Syscall: "chroot", Detail: `"/no/such" (pid 1)`},
		"c.umount2(b'/no/such', 0)":                     {Syscall: "umount2", Detail: `"/no/such" (pid 1)`},
		"c.process_vm_readv(-1, None, 0, None, 0, 0)":   {Syscall: "process_vm_readv", Detail: "process -1 (pid 1)"},
		"c.socket(17, 3, 0)":                            {Syscall: "socket", Detail: "AF_PACKET, SOCK_RAW, protocol 0 (pid 1)"},
		"c.socket(40, 1, 0)":                            {Syscall: "socket", Detail: "AF_VSOCK, SOCK_STREAM, protocol 0 (pid 1)"},
		"c.socket(2, 3, 255)":                           {Syscall: "socket", Detail: "AF_INET, SOCK_RAW, protocol 255 (pid 1)"},
		"c.open_by_handle_at(-100, None, 0)":            {Syscall: "open_by_handle_at", Detail: "-100, 0x0, 0x0 (pid 1)"},
		"c.syscall(56, 0x20000011, 0, 0, 0, 0)":         {Syscall: "clone", Detail: "CLONE_NEWPID (pid 1)"},
		"c.syscall(317, 1, 8, None)":                    {Syscall: "seccomp", Detail: "a filter with a listener (pid 1)"},
		"c.syscall(321, 99, None, 0)":                   {Syscall: "bpf", Detail: "command 99 (pid 1)"},
		"c.syscall(250, 99, 0, 0)":                      {Syscall: "keyctl", Detail: "command 99 (pid 1)"},
		"c.syscall(298, None, -1, 0, -1, 0)":            {Syscall: "perf_event_open", Detail: "0x0, -1, 0x0 (pid 1)"},
		"c.syscall(323, 0xffff)":                        {Syscall: "userfaultfd", Detail: "flags 0xffff (pid 1)"},
		"c.syscall(438, -1, -1, 0)":                     {Syscall: "pidfd_getfd", Detail: "-1, -1, 0x0 (pid 1)"},
		"c.syscall(0x40000000 + 39)":                    {Syscall: "x32", Detail: "call 39 (pid 1)"},
	} {
		t.Run(call, func(t *testing.T) {
			if strings.Contains(call, "syscall") && runtime.GOARCH != "amd64" {
				t.Skip("numbers of amd64")
			}
			r := python(t, sandbox.Standard, "import ctypes, os, time\nc = ctypes.CDLL(None)\n"+call+"\nprint('came back')")
			if !r.killed || r.out != "" || !slices.Equal(r.Breaches(), []guild.Breach{want}) {
				t.Errorf("killed %v, out %q, breaches %+v", r.killed, r.out, r.Breaches())
			}
		})
	}
}

func TestBreachOfGrandchild(t *testing.T) {
	r := python(t, sandbox.Standard, "import os, time, ctypes\nif os.fork() == 0:\n if os.fork() == 0: ctypes.CDLL(None).chroot(b'/no/such'); print('came back')\n time.sleep(9)\nos.wait()")
	got := r.Breaches()
	if !r.killed || r.out != "" || len(got) != 1 || got[0].Syscall != "chroot" || strings.HasSuffix(got[0].Detail, "(pid 1)") {
		t.Errorf("killed %v, out %q, breaches %+v", r.killed, r.out, got)
	}
}

// machineCode executes bytes as a function.
const machineCode = `
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=7)
m.write(bytes.fromhex(%q))
f = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
print('came back', f())
`

func TestBreachOfOtherABI(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("int 0x80 is of x86")
	}
	program := fmt.Sprintf(machineCode, "b814000000cd80c3") // mov eax, 20; int 0x80; ret
	want := []guild.Breach{{Syscall: "foreign architecture", Detail: "call 20 as architecture 0x40000003 (pid 1)"}}
	if exec.Command("/usr/bin/python3", "-I", "-c", program).Run() != nil {
		want = nil // a kernel without 32-bit calls ends the process itself
	}
	r := python(t, sandbox.Standard, program)
	if r.killed != (want != nil) || r.out != "" || !slices.Equal(r.Breaches(), want) {
		t.Errorf("killed %v, out %q, breaches %+v", r.killed, r.out, r.Breaches())
	}
}

func TestNetworkBreachAddress(t *testing.T) {
	const program = `
import socket
def attempt(kind, family, do):
    s = socket.socket(family, kind)
    try: do(s); print("done")
    except OSError as e: print(e.errno)
TCP, UDP, V4, V6 = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.AF_INET, socket.AF_INET6
`
	for attempt, want := range map[string]guild.Breach{
		`TCP, V4, lambda s: s.connect(("192.0.2.1", 80))`:                                    {Syscall: "connect", Detail: "192.0.2.1:80 tcp (pid 1)"},
		`UDP, V4, lambda s: s.connect(("192.0.2.1", 53))`:                                    {Syscall: "connect", Detail: "192.0.2.1:53 udp (pid 1)"},
		`TCP, V6, lambda s: s.connect(("2001:db8::1", 443))`:                                 {Syscall: "connect", Detail: "[2001:db8::1]:443 tcp (pid 1)"},
		`TCP, V6, lambda s: s.connect(("::ffff:192.0.2.9", 443))`:                            {Syscall: "connect", Detail: "192.0.2.9:443 tcp (pid 1)"},
		`UDP, V4, lambda s: s.sendto(b"x", ("192.0.2.1", 123))`:                              {Syscall: "sendto", Detail: "192.0.2.1:123 udp (pid 1)"},
		`UDP, V6, lambda s: s.sendmsg([b"x"], [], 0, ("2001:db8::1", 7))`:                    {Syscall: "sendmsg", Detail: "[2001:db8::1]:7 udp (pid 1)"},
		`TCP, V4, lambda s: s.sendto(b"x", 0x20000000, ("192.0.2.1", 80))`:                   {Syscall: "sendto", Detail: "192.0.2.1:80 tcp (pid 1)"},
		`TCP, V4, lambda s: [s.connect_ex(("192.0.2.1", 80)), s.connect(("192.0.2.1", 80))]`: {Syscall: "connect", Detail: "192.0.2.1:80 tcp (pid 1, 2 times)"},
	} {
		t.Run(attempt, func(t *testing.T) {
			for _, p := range []sandbox.Profile{sandbox.Standard, sandbox.Strict} {
				r := python(t, p, program+"attempt(*[("+attempt+")[i] for i in (0, 1, 2)])")
				if r.killed || r.out != "101" || !slices.Equal(r.Breaches(), []guild.Breach{want}) {
					t.Errorf("%s: killed %v, out %q, breaches %+v", p, r.killed, r.out, r.Breaches())
				}
			}
		})
	}
}

func TestAloneFilter(t *testing.T) {
	// These runs have an empty network, in case the kernel executes a call.
	for program, want := range map[string]struct {
		out      string
		breaches []guild.Breach
	}{
		"s.connect(('192.0.2.1', 80))":                               {"101", []guild.Breach{{Syscall: "connect", Detail: "192.0.2.1:80 tcp (pid 1)"}}},
		"s.sendto(b'x', 0x20000000, ('192.0.2.1', 80))":              {"101", []guild.Breach{{Syscall: "sendto", Detail: "192.0.2.1:80 tcp (pid 1)"}}},
		"s.sendmsg([b'x'], [], 0x20000000, ('192.0.2.1', 80))":       {"95", nil},
		"s.connect(('127.0.0.1', 80))":                               {"111", nil},
		"s.bind(('127.0.0.1', 0))":                                   {"13", nil},
		"s.listen()":                                                 {"13", nil},
		"socket.socket(2, 2)":                                        {"13", nil},
		"socket.socket(16, 3, 0)":                                    {"97", nil},
		"socket.socket(1, 2)":                                        {"93", nil},
		"socket.socketpair(1, 2)":                                    {"93", nil},
		"socket.socket(1, 1).connect('/no/such')":                    {"13", nil},
		"os.kill(os.getppid() or -1, 9)":                             {"1", nil},
		"os.kill(77, 0)":                                             {"1", nil},
		"os.kill(1, 0); raise OSError(0, '')":                        {"0", nil},
		"fcntl.fcntl(0, fcntl.F_SETOWN, 1)":                          {"1", nil},
		"fcntl.ioctl(0, 0x8901, 1)":                                  {"1", nil},
		"fcntl.ioctl(0, 0x40806685, bytes(128))":                     {"25", nil},
		"os.setpriority(os.PRIO_PROCESS, 1, 19)":                     {"1", nil},
		"os.chmod('/no/such', 0); raise OSError(0, '')":              {"0", nil},
		"os.truncate('/dev/null', 0); raise OSError(0, '')":          {"22", nil},
		"os.write(os.memfd_create('x'), b'x'); raise OSError(0, '')": {"0", nil},
	} {
		t.Run(program, func(t *testing.T) {
			r := python(t, unaccompanied, "import socket, os, fcntl\ns = socket.socket()\ntry: "+program+"; print('done')\nexcept OSError as e: print(e.errno)")
			if r.killed || r.out != want.out || !slices.Equal(r.Breaches(), want.breaches) {
				t.Errorf("killed %v, out %q, breaches %+v", r.killed, r.out, r.Breaches())
			}
		})
	}
	r := python(t, unaccompanied, "import ctypes\nctypes.CDLL(None).socket(2, 3, 255)\nprint('came back')")
	if !r.killed || r.out != "" {
		t.Errorf("a raw socket: killed %v, out %q", r.killed, r.out)
	}
}

func TestHonestProgram(t *testing.T) {
	for name, program := range map[string]string{
		"loopback":    "import socket\nl = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(l.getsockname())\nl.accept()[0].send(b'fine')\nprint(c.recv(4).decode())",
		"datagrams":   "import socket\na = socket.socket(2, 2)\na.bind(('127.0.0.1', 0))\nb = socket.socket(2, 2)\nb.sendto(b'fine', a.getsockname())\nprint(a.recv(4).decode())",
		"messages":    "import socket\na, b = socket.socketpair()\na.sendmsg([b'fi', b'ne'])\nprint(b.recv(4).decode())",
		"threads":     "import threading\nt = [threading.Thread(target=lambda: None) for _ in range(8)]\n[x.start() for x in t]\n[x.join() for x in t]\nprint('fine')",
		"subprocess":  "import subprocess\nprint(subprocess.run(['/bin/sh', '-c', 'echo fine'], capture_output=True, text=True).stdout)",
		"processes":   "import multiprocessing as m\nif __name__ == '__main__':\n with m.get_context('fork').Pool(2) as p: print(p.map(str.upper, ['f'])[0].lower() + 'ine')",
		"event loop":  "import asyncio\nasync def f():\n p = await asyncio.create_subprocess_exec('/bin/echo', 'fine', stdout=-1)\n return (await p.communicate())[0].decode()\nprint(asyncio.run(f()))",
		"database":    "import sqlite3\nc = sqlite3.connect(':memory:')\nprint(c.execute(\"select 'fine'\").fetchone()[0])",
		"shared":      "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, size=9)\ns.close(); s.unlink()\nprint('fine')",
		"unix":        "import socket\nl = socket.socket(socket.AF_UNIX)\nl.bind('\\0confine-test')\nl.listen()\nc = socket.socket(socket.AF_UNIX)\nc.connect('\\0confine-test')\nprint('fine')",
		"routes":      "import socket\nsocket.getaddrinfo('127.0.0.1', 80)\nsocket.socket(16, 3, 0)\nprint('fine')",
		"raw ability": "import socket\nprint('fine' if socket.has_ipv6 else 'no')",
	} {
		t.Run(name, func(t *testing.T) {
			r := python(t, sandbox.Standard, program)
			if r.killed || r.out != "fine" || len(r.Breaches()) != 0 || len(r.Warnings()) != 0 || r.Refused() != 0 {
				t.Errorf("killed %v, out %q, breaches %+v, warnings %q, refused %v", r.killed, r.out, r.Breaches(), r.Warnings(), refusedCalls(r.Supervisor))
			}
		})
	}
}

func TestStrictProfile(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	file := dir + "/test_plain.py"
	if err := os.WriteFile(file, []byte("import json\ndef test_one(tmp_path):\n (tmp_path / 'x').write_text(json.dumps([1])); assert True\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("/usr/bin/python3", "-c", "import pytest").Run(); err != nil {
		t.Fatal("there is no pytest: scripts/needs test")
	}
	r := run(t, sandbox.Strict, false, "/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", dir+"/t", file)
	if !strings.Contains(r.out, "1 passed") || len(r.Breaches()) != 0 || r.Refused() != 0 {
		t.Errorf("out %s, breaches %+v, refused %v", r.out, r.Breaches(), refusedCalls(r.Supervisor))
	}
}

func TestNameLookupWarning(t *testing.T) {
	r := python(t, sandbox.Standard, "import socket\ns = socket.socket(2, 2)\ns.connect(('127.0.0.1', 53))\nprint('fine')")
	if r.out != "fine" || len(r.Breaches()) != 0 || !slices.Equal(r.Warnings(), []string{"connect to look up a name at 127.0.0.1:53"}) {
		t.Errorf("out %q, breaches %+v, warnings %q", r.out, r.Breaches(), r.Warnings())
	}
}

func TestRefusedCallsCounted(t *testing.T) {
	r := python(t, sandbox.Standard, "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nfor _ in range(3): c.syscall(1000)\nprint(ctypes.get_errno())")
	if r.killed || r.out != "38" || r.Refused() != 3 || !slices.Equal(refusedCalls(r.Supervisor), []int32{1000}) || len(r.Breaches()) != 0 {
		t.Errorf("killed %v, out %q, refused %d %v", r.killed, r.out, r.Refused(), refusedCalls(r.Supervisor))
	}
}

func TestBreachesBounded(t *testing.T) {
	r := python(t, sandbox.Standard, "import socket\nfor i in range(200): socket.socket(2, 2).connect_ex(('192.0.2.1', 1000 + i))\nfor i in range(200): socket.socket(2, 2).connect_ex(('192.0.2.1', 1000))")
	got := r.Breaches()
	if len(got) != maxBreaches || !strings.HasSuffix(got[0].Detail, "201 times)") {
		t.Errorf("%d breaches, the first %+v", len(got), got[0])
	}
}

func TestThreadFlood(t *testing.T) {
	before := descriptors(t)
	r := python(t, sandbox.Standard, `
import ctypes, threading
c = ctypes.CDLL(None)
def f():
    for _ in range(200): c.syscall(1000)
t = [threading.Thread(target=f) for _ in range(20)]
[x.start() for x in t]
[x.join() for x in t]
print("fine")`)
	if r.out != "fine" || r.Refused() != 4000 {
		t.Errorf("out %q, refused %d", r.out, r.Refused())
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestSharedNetwork(t *testing.T) {
	// This run has an empty network too, so the error is the kernel's.
	r := run(t, sandbox.Standard, true, "/usr/bin/python3", "-I", "-c", "import socket\nprint(socket.socket().connect_ex(('192.0.2.1', 80)))")
	if r.out != "101" || len(r.Breaches()) != 0 {
		t.Errorf("out %q, breaches %+v", r.out, r.Breaches())
	}
}

func TestSupervisorEnds(t *testing.T) {
	r := python(t, sandbox.Standard, "print('fine')")
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		t.Error("the supervisor is still there")
	}
	r.Close() // a second time
}

func FuzzAddress(f *testing.F) {
	f.Add([]byte{2, 0, 0, 80, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0}, true)
	f.Add(append([]byte{10, 0, 0, 80, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8}, make([]byte, 16)...), false)
	f.Fuzz(func(t *testing.T, sockaddr []byte, sending bool) {
		a := parseAddress(sockaddr, sending)
		if a.where() == outside && (a.String() == "" || !a.Addr().IsValid()) {
			t.Errorf("% x is outside, but where is %q?", sockaddr, a)
		}
	})
}

func TestAddressKinds(t *testing.T) {
	v4 := func(a, b, c, d byte) []byte { return []byte{2, 0, 0, 80, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0} }
	for _, c := range []struct {
		sockaddr []byte
		sending  bool
		want     int
		text     string
	}{
		{v4(192, 0, 2, 1), false, outside, "192.0.2.1:80"},
		{v4(127, 3, 2, 1), false, loopback, "127.3.2.1:80"},
		{v4(0, 0, 0, 0), false, loopback, "0.0.0.0:80"},
		{append([]byte{0, 0}, v4(192, 0, 2, 1)[2:]...), true, outside, "192.0.2.1:80"},
		{append([]byte{0, 0}, v4(192, 0, 2, 1)[2:]...), false, nowhere, ""},
		{append([]byte{10, 0, 0, 80, 0, 0, 0, 0}, make([]byte, 20)...), false, loopback, "[::]:80"},
		{append([]byte{1, 0}, "/run/x"...), false, nowhere, ""},
		{[]byte{2}, false, nowhere, ""},
		{v4(1, 2, 3, 4)[:7], false, nowhere, ""},
		{nil, false, nowhere, ""},
	} {
		a := parseAddress(c.sockaddr, c.sending)
		if a.where() != c.want || c.text != "" && a.String() != c.text {
			t.Errorf("% x: %d %s, want %d %s", c.sockaddr, a.where(), a, c.want, c.text)
		}
	}
}

func TestFilterIsWellFormed(t *testing.T) {
	for name, f := range map[string]filter{
		"denylist": denylist(), "standard": supervised(sandbox.Standard), "strict": supervised(sandbox.Strict),
		"alone": alone(sandbox.Standard, 1),
	} {
		for i, ins := range f {
			if next := i + 1 + int(max(ins.Jt, ins.Jf)); ins.Code&7 == 5 && next >= len(f) {
				t.Errorf("%s: instruction %d jumps to %d of %d", name, i, next, len(f))
			}
		}
		if len(f.bytes()) != 8*len(f) || len(f) > 4096 {
			t.Errorf("%s: %d bytes for %d instructions", name, len(f.bytes()), len(f))
		}
		t.Logf("%s: %d instructions", name, len(f))
	}
	for _, p := range []sandbox.Profile{sandbox.Standard, sandbox.Strict} {
		t.Logf("%s: %d calls, %s", p, len(allowed(p)), ProfileHash(p))
	}
	if ProfileHash(sandbox.Standard) == ProfileHash(sandbox.Strict) {
		t.Error("two profiles are one")
	}
}

// takeListener copies the listener of a filter from a process, where it is descriptor fd.
func takeListener(pidfd, fd int) (*os.File, error) {
	got, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return nil, fmt.Errorf("take the listener of a filter: %w", err)
	}
	return os.NewFile(uintptr(got), "seccomp"), nil
}

// refusedCalls returns the numbers of the calls that Refused counts, sorted.
func refusedCalls(s *Supervisor) []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.refused))
}
