package namespaces_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// ordinary is the id of a user without privileges and, usually, without processes.
const ordinary = 61_234

// userTests are the tests that TestOrdinaryUser runs again.
const userTests = "^(TestNamespaces|TestBasePrivileges|TestConcurrentRunUsers|TestConcurrentRunsLeaveNothing|TestForkLeavesNothing|" +
	"TestRunEndsWithJudge|TestForkEndsWithJudge|TestCommandNotFound|TestLimitsOfShortCommand|TestCopiesExceedDisk|TestForkCopies|" +
	"TestMissingKernelFeatures|TestFirstProcessSurvivesSignals|TestRootfs|TestIdleRunMemory)$"

// TestOrdinaryUser runs this package's tests again as an ordinary user, if we are root.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("all of this package's tests run as an ordinary user anyway")
		return
	}
	if testing.Short() {
		t.Skip("runs the whole package again")
	}
	out, err := asOrdinaryUser(t, "-test.v", "-test.run", userTests).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// asOrdinaryUser returns a command that runs this test binary as another user with a home directory of its own.
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
