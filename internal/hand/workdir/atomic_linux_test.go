package workdir_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"guild/internal/hand/workdir"
	"guild/nutshell"
)

// The test binary is also the process that is killed, or that has no room on its disk, see TestMain.
const (
	envRole   = "GUILD_TEST_UNPACK" // what to be
	envBundle = "GUILD_TEST_BUNDLE"
	envDir    = "GUILD_TEST_DIR"
	envLimit  = "GUILD_TEST_LIMIT" // bytes read before it stops, or bytes that a file may have
)

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "stopping":
		os.Exit(unpackAndStop())
	case "running":
		fmt.Println("begun")
		os.Exit(report(extractFrom(os.Getenv(envBundle), os.Getenv(envDir))))
	case "narrow":
		os.Exit(unpackNarrowly())
	case "in a small disk":
		os.Exit(unpackInSmallDisk())
	}
	os.Exit(m.Run())
}

// report prints an error and returns the exit code.
func report(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("done")
	return 0
}

func extractFrom(bundle, dir string) error {
	f, err := os.Open(bundle)
	if err != nil {
		return err
	}
	defer f.Close()
	return extract(f, bundle, dir)
}

func extract(r io.ReaderAt, bundle, dir string) error {
	info, err := os.Stat(bundle)
	if err != nil {
		return err
	}
	_, err = workdir.Extract(context.Background(), r, info.Size(), nutshell.Limits{}, dir)
	return err
}

// halting prints a line and waits to be killed when the file is read beyond a position.
type halting struct {
	io.ReaderAt
	at int64
}

func (h halting) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > h.at {
		fmt.Println("halted")
		select {}
	}
	return h.ReaderAt.ReadAt(p, off)
}

func unpackAndStop() int {
	at, _ := strconv.ParseInt(os.Getenv(envLimit), 10, 64)
	f, err := os.Open(os.Getenv(envBundle))
	if err != nil {
		return report(err)
	}
	return report(extract(halting{f, at}, os.Getenv(envBundle), os.Getenv(envDir)))
}

// unpackNarrowly unpacks with a limit on the size of files.
func unpackNarrowly() int {
	limit, _ := strconv.ParseUint(os.Getenv(envLimit), 10, 64)
	signal.Ignore(syscall.SIGXFSZ) // so that a write fails instead
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return report(err)
	}
	return report(extractFrom(os.Getenv(envBundle), os.Getenv(envDir)))
}

// unpackInSmallDisk unpacks onto a tmpfs, and reports the files left there. Exit code 3 means that it cannot mount.
func unpackInSmallDisk() int {
	disk := os.Getenv(envDir)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil { // no other process shall see it
		fmt.Println(err)
		return 3
	}
	if err := unix.Mount("guild-test", disk, "tmpfs", 0, "size=256k"); err != nil {
		fmt.Println(err)
		return 3
	}
	defer unix.Unmount(disk, 0)
	err := extractFrom(os.Getenv(envBundle), filepath.Join(disk, "job"))
	left, _ := os.ReadDir(disk)
	fmt.Println("left:", len(left))
	return report(err)
}

// again returns this program in one of its roles.
func again(role, bundle, dir string, limit int64) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envBundle+"="+bundle, envDir+"="+dir, envLimit+"="+strconv.FormatInt(limit, 10))
	return cmd
}

// someBundle returns a bundle with a few hundred files, and their contents.
func someBundle(t *testing.T) (path string, size int64, files map[string]string) {
	t.Helper()
	files = make(map[string]string)
	for i := range 300 {
		files[fmt.Sprintf("files/%d/%d.txt", i%7, i)] = strings.Repeat(strconv.Itoa(i), i*11)
	}
	raw := bundle(t, files)
	path = filepath.Join(t.TempDir(), "some.nut")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, int64(len(raw)), files
}

// whole returns an error unless dir has all files with their content, and nothing else.
func whole(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		name, err := filepath.Rel(dir, p)
		if err != nil || name == "nutshell.json" {
			return err
		}
		got, err := os.ReadFile(p)
		if want, ok := files[name]; err == nil && (!ok || string(got) != want) {
			return fmt.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		}
		return err
	})
	if err != nil || n != len(files)+1 {
		t.Errorf("%s: %d files of %d, %v", dir, n, len(files)+1, err)
	}
}

// killAt lets a process unpack until it halts, and kills it.
func killAt(t *testing.T, bundle, dir string, at int64) {
	t.Helper()
	cmd := again("stopping", bundle, dir, at)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "halted\n" {
		t.Errorf("at %d it said %q, %v", at, line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
}

func TestKilledUnpackLeavesNothing(t *testing.T) {
	bundle, size, files := someBundle(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "job")
	for at := int64(10_000); at < size; at += size / 12 {
		killAt(t, bundle, dir, at)
		got := names(t, parent)
		if len(got) != 1 || got[0] != ".job.unpacking" {
			t.Fatalf("killed at %d: %q is there", at, got)
		}
	}
	if err := extractFrom(bundle, dir); err != nil {
		t.Fatal(err)
	}
	whole(t, dir, files)
	if got := names(t, parent); len(got) != 1 {
		t.Errorf("the leftovers of the dead were not swept: %q", got)
	}
}

// The kill comes at a random moment: before, during, or after the last step.
func TestKilledUnpackIsAtomic(t *testing.T) {
	bundle, _, files := someBundle(t)
	parent := t.TempDir()
	there := 0
	for i := range 25 {
		dir := filepath.Join(parent, "job"+strconv.Itoa(i))
		cmd := again("running", bundle, dir, 0)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(out)
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		wait(filepath.Join(parent, ".job"+strconv.Itoa(i)+".unpacking", "files"), i)
		cmd.Process.Kill()
		cmd.Wait()
		if _, err := os.Stat(dir); err == nil {
			there++
			whole(t, dir, files)
		}
	}
	t.Logf("%d of 25 had finished", there)
}

// wait spends a little processor time, a different one each time.
func wait(path string, times int) {
	for range times * times {
		os.Stat(path)
	}
}

func TestUnpackInUseIsNotRemoved(t *testing.T) {
	bundle, size, files := someBundle(t)
	dir := filepath.Join(t.TempDir(), "job")
	cmd := again("stopping", bundle, dir, size/2)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "halted\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := extractFrom(bundle, dir); !errors.Is(err, workdir.ErrBusy) {
		t.Errorf("while another unpacks there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), ".job.unpacking", "files")); err != nil {
		t.Errorf("what the other had is gone: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err := extractFrom(bundle, dir); err != nil {
		t.Fatal(err)
	}
	whole(t, dir, files)
}

func TestConcurrentUnpacks(t *testing.T) {
	bundle, _, files := someBundle(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "job")
	results := make(chan error)
	for range 8 {
		go func() { results <- extractFrom(bundle, dir) }()
	}
	done := 0
	for range 8 {
		err := <-results
		switch {
		case err == nil:
			done++
		case !errors.Is(err, workdir.ErrBusy) && !errors.Is(err, syscall.ENOTEMPTY):
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d succeeded", done)
	}
	whole(t, dir, files)
	if got := names(t, parent); len(got) != 1 {
		t.Errorf("left behind %q", got)
	}
}

func TestTemporaryLinkIsNotFollowed(t *testing.T) {
	bundle, _, _ := someBundle(t)
	parent, outside := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"mine": "precious"})
	if err := os.Symlink(outside, filepath.Join(parent, ".job.unpacking")); err != nil {
		t.Fatal(err)
	}
	if err := extractFrom(bundle, filepath.Join(parent, "job")); err == nil {
		t.Error("unpacked through a link")
	}
	if got := names(t, outside); len(got) != 1 {
		t.Errorf("outside is %q", got)
	}
}

func TestFileLimitLeavesNothing(t *testing.T) {
	bundle, _, files := someBundle(t)
	largest := int64(0)
	for _, content := range files {
		largest = max(largest, int64(len(content)))
	}
	for _, limit := range []int64{100, largest / 2, largest - 1} {
		parent := t.TempDir()
		out, err := again("narrow", bundle, filepath.Join(parent, "job"), limit).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("file too large")) {
			t.Errorf("%d bytes: %s, %v", limit, out, err)
		}
		if got := names(t, parent); len(got) != 0 {
			t.Errorf("%d bytes: left behind %q", limit, got)
		}
	}
}

// The disk belongs to a process in its own namespaces, which needs no rights where the system allows them to all users.
// Where it does not, only TestFileLimitLeavesNothing runs.
func TestFullDiskLeavesNothing(t *testing.T) {
	bundle, _, _ := someBundle(t)
	cmd := again("in a small disk", bundle, t.TempDir(), 0)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 3 {
		t.Skipf("this system does not allow to mount a small disk (%v, %s); the limit on files stands for it", err, out)
	}
	if err == nil || !bytes.Contains(out, []byte("no space left")) || !bytes.Contains(out, []byte("left: 0\n")) {
		t.Errorf("%s, %v", out, err)
	}
}
