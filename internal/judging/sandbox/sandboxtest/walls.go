package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/internal/judging/sandbox"
)

func host(t *testing.T, r runner) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/root", "/home", "/etc/shadow", "/sys/kernel", "/boot", "/var/lib", "/run", "/mnt", "/srv", secret} {
		// A runtime may have created an empty directory or a file of its own there.
		sh(t, r, "ls -A "+path+" 2>/dev/null | grep -v containerenv; echo nothing").prints(t, "nothing")
	}
	for _, path := range []string{"/x", "/usr/x", "/etc/x", "/dev/x", "/proc/sys/kernel/core_pattern", "/usr/bin/x"} {
		sh(t, r, "echo x 2>/dev/null >"+path+" && echo "+path+" || echo refused").prints(t, "refused")
	}
	for _, dir := range []string{sandbox.Workspace, sandbox.Home, sandbox.Temp, "/var/tmp", "/dev/shm"} {
		sh(t, r, "echo fine >"+dir+"/x && cat "+dir+"/x").prints(t, "fine")
	}
	sh(t, r, "pwd; ls -A").prints(t, sandbox.Workspace)
	user := "1000"
	if !r.has(t, sandbox.OrdinaryUser) {
		user = "0"
	}
	sh(t, r, "hostname; id -u; grep CapEff /proc/self/status | tr -d '0 \t'; grep NoNewPrivs /proc/self/status | tr -d ' \t'").
		prints(t, "box\n"+user+"\nCapEff:\nNoNewPrivs:1")
	sh(t, r, "ls /proc | grep -c '^[0-9]' | xargs test 8 -gt && echo few").prints(t, "few")
	args := sh(t, r, "cat /proc/1/cmdline /proc/1/environ")
	if home := os.Getenv("HOME"); strings.Contains(args.stdout, "HOME="+home) || home != "/" && strings.Contains(args.stdout, home+"/") {
		t.Errorf("the first process tells: %q", args.stdout)
	}
}

func network(t *testing.T, r runner) {
	const attempt = `
import socket, sys
s = socket.socket(socket.%s, socket.%s)
s.settimeout(2)
try: s.connect((%q, 80)); s.send(b"x")
except OSError as e: print(e.errno)
`
	for _, c := range []struct{ family, kind, address string }{
		{"AF_INET", "SOCK_STREAM", "192.0.2.1"},
		{"AF_INET", "SOCK_DGRAM", "192.0.2.1"},
		{"AF_INET6", "SOCK_STREAM", "2001:db8::1"},
	} {
		got := py(t, r, fmt.Sprintf(attempt, c.family, c.kind, c.address))
		got.prints(t, "101") // ENETUNREACH
		if !r.has(t, sandbox.ReportsNetwork) {
			continue
		}
		if len(got.Breaches) != 1 || got.Breaches[0].Syscall != "connect" {
			t.Errorf("%s %s: breaches %+v", c.kind, c.address, got.Breaches)
		} else if r.has(t, sandbox.ReportsAddresses) && !strings.Contains(got.Breaches[0].Detail, c.address) {
			t.Errorf("%s: the address is not in %q", c.address, got.Breaches[0].Detail)
		}
	}
	const loopback = `
import socket
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname())
l.accept()[0].send(b"hello"); print(c.recv(5).decode())
`
	got := py(t, r, loopback)
	got.prints(t, "hello")
	if len(got.Breaches) != 0 {
		t.Errorf("loopback is no breach: %+v", got.Breaches)
	}
}

func escapes(t *testing.T, r runner) {
	call := func(expr string) string {
		return "import ctypes; c = ctypes.CDLL(None, use_errno=True); r = " + expr + "; print('came back', r)"
	}
	for name, expr := range map[string]string{
		"ptrace":            "c.ptrace(0, 0, 0, 0)",
		"mount":             "c.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
		"unshare":           "c.unshare(0x10000000)",
		"setns":             "c.setns(0, 0)",
		"chroot":            "c.chroot(b'/tmp')",
		"process_vm_readv":  "c.process_vm_readv(1, None, 0, None, 0, 0)",
		"packet socket":     "c.socket(17, 3, 0)",
		"vsock":             "c.socket(40, 1, 0)",
		"bpf":               "c.syscall(__import__('platform').machine() == 'x86_64' and 321 or 280, 0, None, 0)",
		"open_by_handle_at": "c.open_by_handle_at(-100, None, 0)",
	} {
		t.Run(name, func(t *testing.T) {
			got := py(t, r, call(expr))
			reports := r.has(t, sandbox.ReportsEscapes)
			if reports && len(got.Breaches) != 1 {
				t.Errorf("stdout %q, exit %d %s, breaches %+v", got.stdout, got.Exit, got.Signal, got.Breaches)
			}
			if got.stdout != "" && strings.TrimSpace(got.stdout) != "came back -1" {
				t.Errorf("stdout %q, exit %d %s: it worked", got.stdout, got.Exit, got.Signal)
			}
		})
	}
	t.Run("in a grandchild", func(t *testing.T) {
		nested := "import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', %q])"
		got := py(t, r, fmt.Sprintf(nested, call("c.unshare(0x10000000)")))
		if strings.Contains(got.stdout, "came back 0") {
			t.Errorf("stdout %q", got.stdout)
		}
		if r.has(t, sandbox.ReportsDescendants) && (len(got.Breaches) != 1 || !slices.Contains([]string{"unshare", "seccomp"}, got.Breaches[0].Syscall)) {
			t.Errorf("breaches %+v", got.Breaches)
		}
	})
	t.Run("of the first process", func(t *testing.T) {
		end := py(t, r, "import os\nfor p in (1, -1):\n try: os.kill(p, 0 if p < 0 else 9)\n except OSError: pass\nprint('alive')")
		stop := sh(t, r, "kill -STOP 1; echo on", func(s *sandbox.Spec) {
			if !r.has(t, sandbox.KeepsFirst) { // it stops itself, so the limit must end it
				s.Limits.Wall = 3 * time.Second
			}
		})
		if r.has(t, sandbox.KeepsFirst) {
			end.prints(t, "alive")
			stop.prints(t, "on")
		} else if end.Exit == 0 || stop.Exit == 0 {
			t.Errorf("a run that loses its first process ends well: %+v, %+v", end, stop)
		}
	})
	sh(t, r, "kill -9 -1").killed(t, "")
}
