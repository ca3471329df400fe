package namespaces

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/confine"
)

// The program of the first process is built from internal/judging/sandbox/boxinit for each supported processor and embedded. A
// test builds it again and compares.
//
//go:generate env CGO_ENABLED=0 GOOS=linux GOARCH=amd64 GOAMD64=v1 GOFLAGS= go build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o boxinit_amd64 ../boxinit
//go:generate env CGO_ENABLED=0 GOOS=linux GOARCH=arm64 GOARM64=v8.0 GOFLAGS= go build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o boxinit_arm64 ../boxinit
//go:generate sh -c "go env GOVERSION >boxinit_version"

// initFile returns the program of the first process as a sealed file in memory. It is created once and stays open.
var initFile = sync.OnceValues(func() (*os.File, error) {
	if len(initProgram) == 0 {
		return nil, fmt.Errorf("the sandbox is not built for this processor")
	}
	fd, err := unix.MemfdCreate("guild-box", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // MFD_EXEC is unknown before Linux 6.3
		fd, err = unix.MemfdCreate("guild-box", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), "guild-box")
	if _, err := f.Write(initProgram); err != nil {
		return nil, errors.Join(fmt.Errorf("memfd: %w", err), f.Close())
	}
	const all = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, all); err != nil {
		return nil, errors.Join(fmt.Errorf("seal: %w", err), f.Close())
	}
	return f, nil
})

// startInit starts the program of the first process like os.StartProcess, in a control group, or in our own if g is
// nil. The program is executed by the number of its descriptor in the new process, where it is the last file. Our own
// number would not do, because it may refer to another file there.
func startInit(g *confine.Cgroup, argument string, attr *os.ProcAttr) (*os.Process, error) {
	program, err := initFile()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("/proc/self/fd/%d", len(attr.Files))
	attr.Files = append(attr.Files, program)
	return startIn(g, name, []string{"box", argument}, attr)
}
