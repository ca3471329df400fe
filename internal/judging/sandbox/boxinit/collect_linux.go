package main

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of the collected files beside those of the plan. They are the same as those of sandbox.WriteFiles.
const (
	maxDepth = 64
	maxName  = 1024
)

// collector sends files and directories as a tar stream. All processes of the run have ended, so nothing changes
// meanwhile, but the run chose the names and the files. The collector follows no link, enters no other file system,
// and opens only regular files and directories.
type collector struct {
	work    int // the directory that contains all names
	out     int
	bytes   int64 // bytes that may still be sent
	entries int64
	buffer  []byte
	err     error // of writing the stream; nothing more is sent then
}

// collect sends the files that the plan names.
func (f *first) collect() {
	c := collector{work: f.work, out: f.files, bytes: f.plan.Bytes, entries: f.plan.Entries, buffer: make([]byte, bufferSize)}
	for _, name := range f.plan.Collect {
		c.add(path.Clean(name))
	}
	c.write(make([]byte, 2*block))
}

func (c *collector) write(b []byte) {
	if c.err == nil {
		c.err = writeAll(c.out, b)
	}
}

// open opens a name for reading if it is a regular file or a directory.
func (c *collector) open(name string) (int, *unix.Stat_t) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := unix.Openat2(c.work, name, &how)
	if err != nil {
		return -1, nil
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	unix.Close(fd)
	kind := st.Mode & unix.S_IFMT
	if err != nil || kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return -1, nil
	}
	how.Flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if fd, err = unix.Openat2(c.work, name, &how); err != nil {
		return -1, nil
	}
	return fd, &st
}

// add sends a file, or a directory with its contents. It skips what exceeds the bounds.
func (c *collector) add(name string) {
	if c.err != nil || len(name) > maxName || strings.Count(name, "/") >= maxDepth {
		return
	}
	fd, st := c.open(name)
	if fd < 0 {
		return
	}
	defer unix.Close(fd)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		c.directory(fd, name)
		return
	}
	if st.Size > c.bytes || c.entries == 0 {
		return
	}
	c.bytes -= st.Size
	c.entries--
	c.file(fd, name, st)
}

// file sends exactly the size in its header, with zeros for bytes that cannot be read.
func (c *collector) file(fd int, name string, st *unix.Stat_t) {
	c.write(header(entry{name: name, mode: 0o644 | st.Mode&0o111, size: st.Size}))
	left := st.Size
	for left > 0 && c.err == nil {
		n, err := unix.Read(fd, c.buffer[:min(left, bufferSize)])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			n = int(min(left, bufferSize))
			clear(c.buffer[:n])
		}
		c.write(c.buffer[:n])
		left -= int64(n)
	}
	c.write(make([]byte, -st.Size&(block-1)))
}

func (c *collector) directory(fd int, name string) {
	if name != "." {
		if c.entries == 0 {
			return
		}
		c.entries--
		c.write(header(entry{name: name + "/", mode: 0o755, dir: true}))
	}
	for _, child := range list(fd, c.entries) {
		c.add(path.Join(name, child))
	}
}

// list returns the names in a directory, up to a bound.
func list(fd int, most int64) []string {
	var names []string
	b := make([]byte, 8<<10)
	for int64(len(names)) <= most {
		n, err := unix.ReadDirent(fd, b)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(b[:n], -1, names)
	}
	return names
}
