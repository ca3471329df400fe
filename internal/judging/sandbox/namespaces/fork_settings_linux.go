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

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
)

// settings encodes the settings that the first process of a fork reads before its files: the number of fields, and then
// the length and the bytes of each. read_settings in template.py decodes it.
func settings(s sandbox.Spec) []byte {
	var rlimits []string
	for resource, n := range confine.Rlimits(s.Limits) {
		rlimits = append(rlimits, fmt.Sprintf("%d=%d", resource, n))
	}
	slices.Sort(rlimits)
	fields := []string{
		list(s.Env),
		path.Clean(cmp.Or(s.Dir, sandbox.Workspace)),
		fmt.Sprintf("size=%d,nr_inodes=%d", s.Limits.Disk, s.Limits.Inodes+ownInodes),
		list(rlimits),
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

// ownInodes limits the directories that the scratch file system contains at first. They do not count against the run's
// limit.
const ownInodes = 16

// list joins strings, each followed by a zero byte. The strings must not contain one.
func list(of []string) string {
	var b strings.Builder
	for _, s := range of {
		b.WriteString(s)
		b.WriteByte(0)
	}
	return b.String()
}

// landlockRules encodes the rules that landlock in template.py applies. They are the same as for a cold run: files can
// be changed only below the writable paths, and no outside process can be signalled or reached by an abstract socket.
func landlockRules(abi int, writable []string) []string {
	if abi == 0 {
		return nil
	}
	file := uint64(unix.LANDLOCK_ACCESS_FS_WRITE_FILE)
	directory := uint64(unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER)
	scoped, size := uint64(0), uint64(8) // size of struct landlock_ruleset_attr on an old kernel
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
