package age

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"guild/nutshell/vault"
	"guild/nutshell/vault/vaulttest"
)

func TestAgeCommandInteropPassphrase(t *testing.T) {
	dir := t.TempDir()
	s := sealer(t, Config{Recipients: []string{Passphrase}, UI: says("correct horse")})
	sealed, err := s.Seal(t.Context(), vault.NewSecret([]byte(vaulttest.Document)))
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := filepath.Join(dir, "ours.age"), filepath.Join(dir, "theirs.age")
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(ours, sealed, 0o600); err != nil {
		t.Fatal(err)
	}
	onTerminal(t, "correct horse\n", command(t), "-d", "-o", plain, ours)
	got, err := os.ReadFile(plain)
	if err != nil || string(got) != vaulttest.Document {
		t.Fatalf("age opened %q, %v", got, err)
	}
	onTerminal(t, "correct horse\ncorrect horse\n", command(t), "-p", "-o", theirs, plain)
	sealed, err = os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	open, err := s.Open(t.Context(), sealed)
	if err != nil || string(open.Reveal()) != vaulttest.Document {
		t.Errorf("we opened nothing: %v", err)
	}
}

// onTerminal runs a program that reads passphrases from its terminal.
func onTerminal(t *testing.T, typed string, name string, args ...string) {
	t.Helper()
	near, far := terminal(t)
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if _, err := near.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	read := make(chan struct{})
	go func() {
		_, _ = told.ReadFrom(near) // ends with an error when the far end is closed
		close(read)
	}()
	err := cmd.Run()
	far.Close()
	<-read
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, told.String())
	}
}

// terminal is a pseudo terminal: bytes written to near are typed at far.
func terminal(t *testing.T) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if err := unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}
