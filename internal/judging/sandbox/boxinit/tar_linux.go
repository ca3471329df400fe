package main

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A part of the tar format (pax(1), "ustar" with extended headers for long names), reading and writing. The standard
// library's package is larger than the rest of this program.

// Sizes in the format, and bounds for reading.
const (
	block       = 512
	maxExtended = 64 << 10
	bufferSize  = 64 << 10
)

// Offsets in a header.
const (
	nameAt, nameSize     = 0, 100
	modeAt, modeSize     = 100, 8
	sizeAt, sizeSize     = 124, 12
	sumAt, sumSize       = 148, 8
	kindAt               = 156
	magicAt, magic       = 257, "ustar\x0000"
	prefixAt, prefixSize = 345, 155
)

var errTar = errors.New("no tar stream of files and directories")

// entry is one file or directory.
type entry struct {
	name string
	mode uint32
	size int64
	dir  bool
}

// tarReader reads from a descriptor.
type tarReader struct {
	read   func([]byte) (int, error)
	buffer []byte // all of it
	unread []byte // the part that was read from the descriptor and not used yet
	skip   int64  // padding before the next header
}

func newTarReader(fd int) *tarReader {
	read := func(b []byte) (int, error) {
		for {
			if n, err := unix.Read(fd, b); err != unix.EINTR {
				return n, err
			}
		}
	}
	return &tarReader{read: read, buffer: make([]byte, bufferSize)}
}

// some returns between one and n bytes, which are valid until the next call.
func (t *tarReader) some(n int64) ([]byte, error) {
	if len(t.unread) == 0 {
		got, err := t.read(t.buffer)
		if err != nil {
			return nil, err
		}
		if got <= 0 {
			return nil, errTar // unexpected end
		}
		t.unread = t.buffer[:got]
	}
	n = min(n, int64(len(t.unread)))
	b := t.unread[:n]
	t.unread = t.unread[n:]
	return b, nil
}

// all returns n bytes.
func (t *tarReader) all(n int64) ([]byte, error) {
	b := make([]byte, 0, n)
	for int64(len(b)) < n {
		more, err := t.some(n - int64(len(b)))
		if err != nil {
			return nil, err
		}
		b = append(b, more...)
	}
	return b, nil
}

// content passes the content of an entry on, in pieces.
func (t *tarReader) content(size int64, to func([]byte) error) error {
	t.skip = -size & (block - 1)
	for size > 0 {
		b, err := t.some(size)
		if err != nil {
			return err
		}
		if err := to(b); err != nil {
			return err
		}
		size -= int64(len(b))
	}
	return nil
}

// next returns the next entry, or nil at the end. The content of the last one must have been read.
func (t *tarReader) next() (*entry, error) {
	var long entry // from an extended header
	for {
		if _, err := t.all(t.skip); err != nil {
			return nil, err
		}
		t.skip = 0
		h, err := t.all(block)
		if err != nil {
			return nil, err
		}
		if sum(h) == blankSum { // a block of zeros is the end
			return nil, nil
		}
		e, err := parseHeader(h)
		if err != nil {
			return nil, err
		}
		switch h[kindAt] {
		case '0', 0, '5':
			e.dir = h[kindAt] == '5'
			return e.extend(long)
		case 'x':
			if e.size > maxExtended {
				return nil, errTar
			}
			var records []byte
			err := t.content(e.size, func(b []byte) error { records = append(records, b...); return nil })
			if err == nil {
				long, err = parseRecords(string(records))
			}
			if err != nil {
				return nil, err
			}
		default:
			return nil, errTar
		}
	}
}

// extend replaces fields by those of an extended header.
func (e *entry) extend(long entry) (*entry, error) {
	if long.name != "" {
		e.name = long.name
	}
	if long.size > 0 {
		e.size = long.size
	}
	if e.dir && e.size != 0 {
		return nil, errTar
	}
	return e, nil
}

// blankSum is the sum of a block of zeros.
const blankSum = sumSize * ' '

// sum returns a header's check sum. Its own bytes count as spaces.
func sum(h []byte) int64 {
	var n int64
	for i, c := range h {
		if i >= sumAt && i < sumAt+sumSize {
			c = ' '
		}
		n += int64(c)
	}
	return n
}

func parseHeader(h []byte) (*entry, error) {
	said, err1 := octal(h[sumAt : sumAt+sumSize])
	mode, err2 := octal(h[modeAt : modeAt+modeSize])
	size, err3 := octal(h[sizeAt : sizeAt+sizeSize])
	if err1 != nil || err2 != nil || err3 != nil || said != sum(h) || string(h[magicAt:magicAt+6]) != magic[:6] {
		return nil, errTar
	}
	e := &entry{name: text(h[nameAt : nameAt+nameSize]), mode: uint32(mode & 0o777), size: size}
	if prefix := text(h[prefixAt : prefixAt+prefixSize]); prefix != "" {
		e.name = prefix + "/" + e.name
	}
	return e, nil
}

// text returns a field up to the first zero byte.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

func octal(b []byte) (int64, error) {
	s := strings.Trim(string(b), " \x00")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 8, 62)
	return int64(n), err
}

// parseRecords reads an extended header: lines of "LENGTH KEY=VALUE\n". It uses only names and sizes.
func parseRecords(s string) (entry, error) {
	var e entry
	for s != "" {
		digits, _, found := strings.Cut(s, " ")
		n, err := strconv.ParseUint(digits, 10, 31)
		if !found || err != nil || int(n) > len(s) || int(n) < len(digits)+2 || s[n-1] != '\n' {
			return e, errTar
		}
		key, value, _ := strings.Cut(s[len(digits)+1:n-1], "=")
		s = s[n:]
		switch key {
		case "path":
			e.name = value
		case "size":
			size, err := strconv.ParseUint(value, 10, 62)
			if err != nil {
				return e, errTar
			}
			e.size = int64(size)
		}
	}
	return e, nil
}

// header returns the blocks before an entry's content. Values that do not fit the old fields go to an extended header.
func header(e entry) []byte {
	kind := byte('0')
	if e.dir {
		kind = '5'
	}
	if len(e.name) <= nameSize && e.size < 1<<33 {
		return plainHeader(e.name, kind, e.mode, e.size)
	}
	records := record("path", e.name) + record("size", strconv.FormatInt(e.size, 10))
	b := plainHeader("PaxHeaders.0/x", 'x', 0o644, int64(len(records)))
	b = append(b, records...)
	b = append(b, make([]byte, -len(records)&(block-1))...)
	return append(b, plainHeader(e.name[:min(len(e.name), nameSize)], kind, e.mode, e.size&(1<<33-1))...)
}

func plainHeader(name string, kind byte, mode uint32, size int64) []byte {
	h := make([]byte, block)
	copy(h[nameAt:nameAt+nameSize], name)
	putOctal(h[modeAt:modeAt+modeSize], int64(mode))
	putOctal(h[108:116], 0) // owner, group and time are zero
	putOctal(h[116:124], 0)
	putOctal(h[sizeAt:sizeAt+sizeSize], size)
	putOctal(h[136:148], 0)
	h[kindAt] = kind
	copy(h[magicAt:], magic)
	putOctal(h[sumAt:sumAt+sumSize-1], sum(h))
	h[sumAt+sumSize-1] = ' '
	return h
}

// putOctal fills a field with an octal number and a zero byte.
func putOctal(field []byte, n int64) {
	digits := strconv.FormatInt(n, 8)
	for i := range len(field) - 1 {
		field[i] = '0'
	}
	copy(field[len(field)-1-len(digits):], digits)
}

// record returns a line of an extended header. Its length includes the digits of the length.
func record(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	n := len(rest)
	for len(strconv.Itoa(n))+len(rest) != n {
		n = len(strconv.Itoa(n)) + len(rest)
	}
	return strconv.Itoa(n) + rest
}
