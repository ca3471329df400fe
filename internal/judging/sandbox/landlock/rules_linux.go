package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox"
)

// Accesses that the rules handle.
const (
	readFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	read      = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	changeDir = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	devices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	write   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	control = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	network = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	scopes  = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
)

// abi returns the version of the kernel's Landlock; 0 without Landlock.
func abi() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// rules is a Landlock ruleset under construction.
type rules struct {
	fd   int
	able uint64 // accesses to files that this kernel handles
}

// newRules creates a ruleset that refuses everything that this version of Landlock can refuse, until give allows it.
func newRules(abi int) (*rules, error) {
	a := unix.LandlockRulesetAttr{Handled_access_fs: read | changeDir | devices | write | control}
	size := unsafe.Offsetof(a.Handled_access_net)
	if abi < 5 {
		a.Handled_access_fs &^= control
	}
	if abi < 3 {
		a.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 2 {
		a.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 4 {
		a.Handled_access_net, size = network, unsafe.Offsetof(a.Scoped)
	}
	if abi >= 6 {
		a.Scoped, size = scopes, unsafe.Offsetof(a.Quiet_access_fs)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&a)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make a ruleset: %w", errno)
	}
	return &rules{int(fd), a.Handled_access_fs}, nil
}

// give allows accesses to a file, or to a directory and everything below it. A missing path is not an error.
func (r *rules) give(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("a rule for %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("a rule for %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= readFile | write | control
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access & r.able, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("a rule for %s: %w", path, errno)
	}
	return nil
}

// system allows the files of the host that every run may use: programs, libraries and harmless devices.
func (r *rules) system() error {
	places := []string{"/bin", "/sbin"}
	for _, pattern := range []string{"/lib*", "/usr/*", "/usr/local/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		places = append(places, found...)
	}
	for _, name := range append(sandbox.HostEtc(false), "passwd", "group", "nsswitch.conf") {
		places = append(places, "/etc/"+name)
	}
	for _, place := range places {
		if place == "/usr/local" || place == "/usr/local/etc" { // /usr/local/etc may contain secrets
			continue
		}
		if err := r.give(place, read); err != nil {
			return err
		}
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		if err := r.give("/dev/"+name, unix.LANDLOCK_ACCESS_FS_READ_FILE|write|control); err != nil {
			return err
		}
	}
	return nil
}

func (r *rules) close() { unix.Close(r.fd) }
