package btcdtest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Free returns an address at which nothing listens.
func Free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Run starts a program with a home directory, and returns what ends it. The end of the test ends it too, and shows the end of what it
// printed if the test has failed.
func Run(t *testing.T, home, program string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(os.Interrupt)
			late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			late.Stop()
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(program), said.Bytes()[max(0, said.Len()-4000):])
		}
	})
	return stop
}

// Until repeats a question to a program that is starting or working, four times a second for at most two minutes.
func Until(t *testing.T, what string, done func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pause := time.NewTicker(250 * time.Millisecond)
	defer pause.Stop()
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			t.Fatalf("%s: never: %v", what, err)
		}
	}
}

// Certificate reads the certificate that a program has written.
func Certificate(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no certificate yet", path)
	}
	return x509.ParseCertificate(block.Bytes)
}
