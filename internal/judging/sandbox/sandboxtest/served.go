package sandboxtest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"guild/internal/judging/sandbox"
)

// served checks that a run without a network reaches IO.Serve, and nothing else.
func served(t *testing.T, r runner) {
	program := fmt.Sprintf(`
import socket
for word in ("one", "two"):
    s = socket.create_connection(("127.0.0.1", %d))
    s.sendall((word + "\n").encode())
    print(s.makefile().readline().strip(), flush=True)
try:
    socket.create_connection(("127.0.0.1", %[1]d + 1))
except ConnectionRefusedError:
    print("nothing else")
`, sandbox.ServePort)
	s := small()
	s.Argv = []string{"/usr/bin/python3", "-I", "-c", program}
	var out, stderr strings.Builder
	ended := false
	streams := sandbox.IO{Stdout: &out, Stderr: &stderr, Serve: func(l net.Listener) { answerInCapitals(l); ended = true }}
	res, err := r.Run(t.Context(), s, streams)
	if !r.has(t, sandbox.ServesInside) {
		if err == nil {
			t.Error("it runs without what it was asked for")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	ran{Result: res, stdout: out.String(), stderr: stderr.String()}.prints(t, "ONE\nTWO\nnothing else")
	if len(res.Breaches) > 0 {
		t.Errorf("breaches %v", res.Breaches)
	}
	if !ended {
		t.Error("Run did not wait for Serve")
	}
}

// answerInCapitals answers each line of each connection in capitals, until the listener is closed.
func answerInCapitals(l net.Listener) {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		open.Go(func() {
			defer c.Close()
			for lines := bufio.NewScanner(c); lines.Scan(); {
				fmt.Fprintln(c, strings.ToUpper(lines.Text()))
			}
		})
	}
}
