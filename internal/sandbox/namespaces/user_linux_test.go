package namespaces_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// ordinary is a user who has no rights and, usually, no processes.
const ordinary = 61_234

// ownTests are the ones that it is to pass.
const ownTests = "^(TestNamespaces|TestTheBase.*|TestRunsAtOnce.*|TestManyRuns.*|TestKilling.*|TestACommand.*|TestCopies.*|" +
	"TestWhatAMachine.*|TestTheFirstProcessCannot.*|TestARoot.*|TestAnIdle.*)$"

// TestAsAnOrdinaryUser runs this package's tests once more, if they run as root.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("all of this package's tests run as an ordinary user anyway")
		return
	}
	if testing.Short() {
		t.Skip("runs the whole package again")
	}
	out, err := asOrdinaryUser(t, "-test.v", "-test.run", ownTests).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// asOrdinaryUser is this test binary with the given arguments, as a user of its own with its own home.
func asOrdinaryUser(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "gu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	binary := filepath.Join(home, "namespaces.test")
	if err := copyFile(binary, "/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, ordinary, ordinary); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	return cmd
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}
