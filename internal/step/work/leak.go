package work

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/zstd"

	"guild/nutshell"
)

// Limits of the search in compressed files.
const (
	maxUnpacked = 256 << 20 // bytes of a whole delivery
	maxNested   = 3         // archives in each other
	maxInMemory = 64 << 20  // bytes of a zip archive within another file
)

// errTooPacked is the error of a delivery that cannot be searched as a whole.
var errTooPacked = fmt.Errorf("the delivery unpacks to more than %d MiB, which is too much to search for secrets", maxUnpacked>>20)

// leak returns a *leakError if a file of a delivery, or its name, holds one of the secrets. It looks into compressed files
// and archives, and finds a secret that is spread over files in the order of their names.
func (w *watch) leak(tree fs.FS) error {
	if w.longest == 0 {
		return nil
	}
	left := w.most
	files, names := &scan{watch: w, left: &left}, &scan{watch: w, left: &left}
	return fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		found := w.find(solid(nil, []byte(p)))
		if found == nil && d.Type().IsRegular() {
			found = names.next([]byte(d.Name()))
		}
		if found == nil && d.Type().IsRegular() {
			found, err = files.file(tree, p)
		}
		if found != nil {
			name := strings.TrimPrefix(strings.TrimPrefix(p, nutshell.ArtifactsDir+"/"), "delivery/") // as the worker wrote it
			return &leakError{found, w.hide(name)}
		}
		return err
	})
}

// scan searches a text that comes in parts. It holds a small part of it at a time.
type scan struct {
	*watch
	text []byte // the end of what was searched, where a secret may begin
	left *int64 // bytes that may still be unpacked
}

// next returns a secret that is in the text so far, or nil.
func (s *scan) next(part []byte) *Secret {
	s.text = solid(s.text, part)
	found := s.find(s.text)
	s.text = s.text[:copy(s.text, s.text[max(0, len(s.text)-s.longest+1):])]
	return found
}

// file returns a secret that is in a file, as it is or unpacked, or nil.
func (s *scan) file(tree fs.FS, p string) (*Secret, error) {
	f, err := tree.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var head []byte
	for buf := make([]byte, 64<<10); ; {
		n, err := f.Read(buf)
		if len(head) < longestMark {
			head = append(head, buf[:min(n, longestMark)]...)
		}
		if found := s.next(buf[:n]); found != nil {
			return found, nil
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if !isPacked(head) {
		return nil, nil
	}
	again, err := tree.Open(p)
	if err != nil {
		return nil, err
	}
	defer again.Close()
	return s.packed(again, 1)
}

// longestMark is the length of the longest beginning that a packed file is known by.
const longestMark = 4

// isPacked reports whether a file that begins so is compressed or a zip archive.
func isPacked(head []byte) bool { return unpacker(head) != nil || isZip(head) }

func isZip(head []byte) bool { return bytes.HasPrefix(head, []byte("PK\x03\x04")) }

// unpacker returns what reads a compressed file that begins so, or nil.
func unpacker(head []byte) func(io.Reader) (io.Reader, error) {
	has := func(mark string) bool { return bytes.HasPrefix(head, []byte(mark)) }
	switch {
	case has("\x1f\x8b"):
		return func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case has("BZh"):
		return func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }
	case has("\x28\xb5\x2f\xfd"):
		return func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
		}
	case len(head) >= 2 && head[0] == 0x78 && (int(head[0])<<8|int(head[1]))%31 == 0: // zlib (RFC 1950), as git's objects
		return func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
	}
	return nil
}

// packed returns a secret that is in a compressed file or an archive, or nil. What cannot be unpacked is left out.
func (s *scan) packed(r io.Reader, depth int) (*Secret, error) {
	if depth > maxNested {
		return nil, nil
	}
	buffered := bufio.NewReader(r)
	head, _ := buffered.Peek(longestMark)
	if isZip(head) {
		return s.zip(buffered, depth)
	}
	unpack := unpacker(head)
	if unpack == nil {
		return nil, nil
	}
	plain, err := unpack(buffered)
	if err != nil {
		return nil, nil
	}
	if z, ok := plain.(*zstd.Decoder); ok {
		defer z.Close()
	}
	return s.content(plain, depth)
}

// content searches unpacked bytes, and what is packed in them again.
func (s *scan) content(plain io.Reader, depth int) (*Secret, error) {
	inner := &scan{watch: s.watch, left: s.left}
	buffered := bufio.NewReader(plain)
	head, _ := buffered.Peek(longestMark)
	var kept *bytes.Buffer // to be unpacked once more
	if isPacked(head) {
		kept = &bytes.Buffer{}
	}
	for buf := make([]byte, 64<<10); ; {
		n, err := buffered.Read(buf)
		*s.left -= int64(n)
		if *s.left < 0 {
			return nil, errTooPacked
		}
		if found := inner.next(buf[:n]); found != nil {
			return found, nil
		}
		if kept != nil {
			kept.Write(buf[:n])
		}
		if err != nil { // also that of damaged data: what came before is searched
			break
		}
	}
	if kept == nil {
		return nil, nil
	}
	return s.packed(kept, depth+1)
}

// zip searches the members of a zip archive and their names.
func (s *scan) zip(r io.Reader, depth int) (*Secret, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxInMemory+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxInMemory {
		return nil, errTooPacked
	}
	archive, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, nil
	}
	for _, member := range archive.File {
		if found := s.find(solid(nil, []byte(member.Name))); found != nil {
			return found, nil
		}
		plain, err := member.Open()
		if err != nil {
			continue
		}
		found, err := s.content(plain, depth)
		plain.Close()
		if found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}
