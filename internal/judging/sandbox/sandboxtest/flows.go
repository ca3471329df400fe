package sandboxtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/internal/judging/sandbox"
)

// program runs a Program twice: a runner that keeps its first part warm must keep no other state.
func program(t *testing.T, r runner) {
	greeter := &sandbox.Program{Name: "greeter", Setup: `
import os, sys
seen = []
def main():
    seen.append(sys.stdin.read())
    os.write(3, b"result")
    print(*seen, os.getcwd(), os.environ.get("WHO"), sys.flags.isolated)
`}
	for _, who := range []string{"alice", "bob"} {
		got := with(t, r, who, "", func(s *sandbox.Spec) {
			s.Argv, s.Program = []string{"/usr/bin/python3", "-I", "-B"}, greeter
			s.Env = append(s.Env, "WHO="+who)
		})
		got.prints(t, who+" "+sandbox.Workspace+" "+who+" 1")
		if got.results != "result" {
			t.Errorf("results %q", got.results)
		}
	}
	fails := &sandbox.Program{Name: "fails", Setup: "def main(): raise SystemExit(7)"}
	got := sh(t, r, "", func(s *sandbox.Spec) { s.Argv, s.Program = []string{"/usr/bin/python3", "-I"}, fails })
	if got.Exit != 7 {
		t.Errorf("exit %d, stderr %s", got.Exit, got.stderr)
	}
}

// channel connects two runs, and checks that one notices the end of the other.
func channel(t *testing.T, r runner) {
	const answerer = `
import socket
s = socket.socket(fileno=4)
n = 0
while line := s.makefile().readline():
    s.sendall(line.upper().encode()); n += 1
print("the end after", n)
`
	const asker = `
import os, signal, socket
s = socket.socket(fileno=4)
for word in ("one", "two"):
    s.sendall((word + "\n").encode())
    print(s.recv(100).decode().strip(), flush=True)
%s
`
	for _, c := range []struct{ name, end string }{
		{"an ordinary end", ""},
		{"an early exit, a child left behind", "os.fork() or os.execvp('sleep', ['sleep', '100'])\nos._exit(3)"},
		{"a killed one", "os.kill(os.getpid(), signal.SIGKILL)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			here, there := socketPair(t)
			answered := make(chan ran, 1)
			go func() { answered <- pyOn(t, r, answerer, here) }()
			asked := pyOn(t, r, fmt.Sprintf(asker, c.end), there)
			if asked.stdout != "ONE\nTWO\n" {
				t.Errorf("asked: %+v %s", asked, asked.stderr)
			}
			(<-answered).prints(t, "the end after 2")
			for _, f := range []*os.File{here, there} {
				if err := f.Close(); !errors.Is(err, os.ErrClosed) {
					t.Errorf("the runner left its end open: %v", err)
				}
			}
		})
	}
	here, there := socketPair(t)
	there.Close()
	fds := "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
	pyOn(t, r, fds, here).prints(t, "[0, 1, 2, 3, 4]")
}

// pyOn runs a Python program that has one end of a channel.
func pyOn(t *testing.T, r runner, program string, end *os.File) ran {
	t.Helper()
	var got ran
	s := small()
	s.Argv = []string{"/usr/bin/python3", "-I", "-c", program}
	var out, complaint strings.Builder
	res, err := r.Run(t.Context(), s, sandbox.IO{Stdout: &out, Stderr: &complaint, Channel: end})
	if err != nil {
		t.Errorf("run: %v", err)
	}
	got.Result, got.stdout, got.stderr = res, out.String(), complaint.String()
	return got
}

// socketPair returns two ends of a connected stream socket.
func socketPair(t *testing.T) (a, b *os.File) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(shortTemp(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.DialTimeout("unix", l.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if a, err = dialled.(*net.UnixConn).File(); err != nil {
		t.Fatal(err)
	}
	if b, err = accepted.(*net.UnixConn).File(); err != nil {
		t.Fatal(err)
	}
	return a, b
}
