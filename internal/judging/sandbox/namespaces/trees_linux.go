package namespaces

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// trees holds mounts that root opens for a run, because the first process has no permission to open them itself.
type trees struct {
	files    []*os.File
	users    map[uint32]*os.File // by the host's user: user namespaces that map it to the run's user
	warnings []string
}

// openMount opens a mount and returns its position among the files, from 1. The run's user acts on the host as the
// owner of the directory.
func (t *trees) openMount(m sandbox.Mount, who *ids) (position int, err error) {
	fd, err := openTree(m.Host, attributes(m.Writable))
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), m.Host)
	t.files = append(t.files, f)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("mount %s: %w", m.Host, err)
	}
	users, err := t.mapped(st.Uid, st.Gid, who)
	if err != nil {
		return 0, fmt.Errorf("mount %s: %w", m.Host, err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd()),
	})
	if err != nil {
		t.warnings = append(t.warnings, fmt.Sprintf(
			"the file system of %s cannot map users (%v): the run may use only what everybody may use", m.Host, err))
	}
	return len(t.files), nil
}

// openDir opens a directory of a root file system read-only and returns its position among the files, from 1.
func (t *trees) openDir(path string) (position int, err error) {
	fd, err := openTree(path, attributes(false))
	if err != nil {
		return 0, err
	}
	t.files = append(t.files, os.NewFile(uintptr(fd), path))
	return len(t.files), nil
}

func attributes(writable bool) uint64 {
	if writable {
		return unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	}
	return unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY
}

// openTree returns a private copy of a mount. Later mounts below the original do not appear in it.
func openTree(path string, attributes uint64) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", path, err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: attributes, Propagation: unix.MS_PRIVATE,
	})
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount %s: %w", path, err)
	}
	return fd, nil
}

// mapped returns a user namespace that maps a user and group of the host to those of the run.
func (t *trees) mapped(uid, gid uint32, who *ids) (*os.File, error) {
	if f := t.users[uid]; f != nil {
		return f, nil
	}
	f, err := userNamespace(
		syscall.SysProcIDMap{ContainerID: int(uid), HostID: who.first + sandbox.User, Size: 1},
		syscall.SysProcIDMap{ContainerID: int(gid), HostID: who.first + sandbox.User, Size: 1})
	if err != nil {
		return nil, err
	}
	if t.users == nil {
		t.users = map[uint32]*os.File{}
	}
	t.users[uid] = f
	return f, nil
}

// userNamespace creates a user namespace. The kernel creates one only for a process, so it starts one, which has ended
// when the function returns.
func userNamespace(user, group syscall.SysProcIDMap) (*os.File, error) {
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	p, err := startInit(nil, "hold", &os.ProcAttr{
		Env: []string{"GOMAXPROCS=1"}, Files: []*os.File{in}, Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, UidMappings: idMaps{user}, GidMappings: idMaps{group},
		},
	})
	if err != nil {
		hold.Close()
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	hold.Close()
	_, waited := p.Wait()
	return f, errors.Join(err, waited)
}

func (t *trees) close() {
	closeAll(t.files)
	for _, f := range t.users {
		f.Close()
	}
}
