package landlock

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// mark identifies the processes of one run, whatever their parent is: a process that detaches from its parent would
// otherwise escape the cleanup. It is the value of a resource limit that has no effect and that the run cannot change.
type mark uint64

func newMark() mark {
	var b [8]byte
	rand.Read(b[:])
	return mark(binary.NativeEndian.Uint64(b[:])>>2 | 1<<40)
}

// has reports whether a process has the mark.
func (m mark) has(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	return err == nil && m.in(b)
}

// in reports whether a file /proc/PID/limits has the mark.
func (m mark) in(limits []byte) bool {
	for line := range bytes.Lines(limits) {
		if value, found := strings.CutPrefix(string(line), "Max file locks"); found {
			f := strings.Fields(value)
			return len(f) > 0 && f[0] == strconv.FormatUint(uint64(m), 10)
		}
	}
	return false
}

// members returns the running processes with the mark.
func (m mark) members() []int {
	running, _ := m.find()
	return running
}

// find returns the processes with the mark: those that run, and those that have ended but whose parent has not waited
// for them.
func (m mark) find() (running, ended []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		switch {
		case err != nil || !m.has(pid):
		case isZombie(pid):
			ended = append(ended, pid)
		default:
			running = append(running, pid)
		}
	}
	return running, ended
}

func isZombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	after := b[bytes.LastIndexByte(b, ')')+1:] // the state follows the name, which may contain any character
	return err != nil || bytes.HasPrefix(after, []byte(" Z")) || bytes.HasPrefix(after, []byte(" X"))
}
