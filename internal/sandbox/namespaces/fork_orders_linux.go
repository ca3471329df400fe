package namespaces

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"guild/internal/sandbox"
	"guild/internal/sandbox/confine"
)

// orders are what the first process of a fork reads before its files: a count of fields, and each after its
// length. template.py reads them in read_settings.
func orders(s sandbox.Spec) []byte {
	fields := []string{
		list(s.Env),
		path.Clean(cmp.Or(s.Dir, sandbox.Workspace)),
		fmt.Sprintf("size=%d,nr_inodes=%d", s.Limits.Disk, s.Limits.Inodes+ownInodes),
		list(limits(s.Limits)),
		string(confine.Filter(cmp.Or(s.Profile, sandbox.Standard))),
		list(landlockRules(landlockVersion(), writable(nil))),
		list(frozen(s.Copies)),
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(fields)))
	for _, f := range fields {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		b = append(b, f...)
	}
	return b
}

// ownInodes is for the directories that the scratch file system begins with.
const ownInodes = 16

// list is strings that contain no zero byte, each ended by one.
func list(of []string) string {
	var b strings.Builder
	for _, s := range of {
		b.WriteString(s)
		b.WriteByte(0)
	}
	return b.String()
}

// limits are resource limits as NUMBER=VALUE.
func limits(l sandbox.Limits) []string {
	var of []string
	for resource, n := range confine.Rlimits(l) {
		of = append(of, fmt.Sprintf("%d=%d", resource, n))
	}
	slices.Sort(of)
	return of
}

// landlockRules are as template.py reads them in landlock: see there. They are those of the first process of any
// other run: nothing is changed but below the writable places, and no process outside is sent a signal or reached
// by an abstract socket.
func landlockRules(abi int, writable []string) []string {
	if abi == 0 {
		return nil
	}
	file := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
	directory := uint64(unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER)
	scoped, size := uint64(0), uint64(8) // the size of what an old kernel knows
	if abi >= 3 {
		file |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 {
		size = 16
	}
	if abi >= 5 {
		file |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= abiOfSignals {
		scoped, size = unix.LANDLOCK_SCOPE_SIGNAL|unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, 24
	}
	var rules []string
	for _, n := range []uint64{file | directory, scoped, size, file, file | directory} {
		rules = append(rules, strconv.FormatUint(n, 10))
	}
	return append(rules, writable...)
}
