package nutshell

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"

	"guild"
)

// Entry is a file of a bundle. Folders are not entries: they are implied by the files in them.
type Entry struct {
	Path string
	Size int64       // bytes
	Mode fs.FileMode // 0644 or 0755
	Hash guild.Hash  // of the content
}

// Bundle is a bundle that has been read once to the end and is valid.
type Bundle struct {
	Warnings []string // oddities that are not errors

	archive  archive
	manifest *Manifest
	files    []Entry
}

// Open reads a bundle of size bytes, whatever its compression, and checks all of it: the limits, every path,
// the manifest and, where files.tree has them, the size and the hash of every file. It keeps the list and the
// manifest, not the content; Walk and ReadFile read that again from r, which has to stay open.
//
// Errors are ErrNotBundle, ErrEncrypted, ErrNoManifest, ErrTruncated, ErrTrailing, ErrDamaged, *EntryError,
// *LimitError, *ManifestError, *HashError and *SizeError.
func Open(r io.ReaderAt, size int64, l Limits) (*Bundle, error) {
	return Extract(r, size, l, func(Entry, io.Reader) error { return nil })
}

// Extract is Open and Walk in one: it reads the bundle only once, and calls fn with each file on the way, in
// archive order, whose Hash is not set yet. Paths and limits have been checked before fn is called; the other checks end
// with the archive. If Extract returns an error, what fn was given must not be used. An error of fn ends it and is
// returned unchanged.
func Extract(r io.ReaderAt, size int64, l Limits, fn func(Entry, io.Reader) error) (*Bundle, error) {
	b := &Bundle{archive: archive{r, size, l.OrDefault()}}
	err := b.archive.scan(func(e Entry, r io.Reader) error { return b.takeIn(e, r, fn) })
	if err != nil {
		return nil, err
	}
	if b.manifest == nil {
		return nil, ErrNoManifest
	}
	odd, err := b.manifest.Validate()
	if err != nil {
		return nil, err
	}
	unsure, err := checkListing(b.manifest.Files(), b.files)
	if err != nil {
		return nil, err
	}
	b.Warnings = slices.Concat(odd, unsure, notForWindows(b.files))
	if b.files[0].Path != ManifestFile {
		b.Warnings = append(b.Warnings, "nutshell.json is not the first file")
	}
	return b, nil
}

// takeIn adds a file to the list and parses the manifest.
func (b *Bundle) takeIn(e Entry, r io.Reader, fn func(Entry, io.Reader) error) error {
	content := &hashReader{r: r, hash: sha256.New()}
	r = content
	if e.Path == ManifestFile {
		if e.Size > maxDocument {
			return &LimitError{What: "bytes of a JSON document", Limit: maxDocument, Path: e.Path}
		}
		raw, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if b.manifest, err = ParseManifest(raw); err != nil {
			return err
		}
		r = bytes.NewReader(raw)
	}
	if err := fn(e, r); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return err
	}
	e.Hash = content.sum()
	b.files = append(b.files, e)
	return nil
}

// Manifest returns the manifest. Changing it does not change the bundle.
func (b *Bundle) Manifest() *Manifest { return b.manifest }

// Files returns the files in archive order, with the manifest. The result must not be changed.
func (b *Bundle) Files() []Entry { return b.files }

// Walk calls fn with each file in archive order. What fn does not read is skipped. An error of fn ends the walk and is
// returned unchanged. Each file is checked again after fn has returned: ErrChanged means that the bundle is not the one
// that was opened, and that what fn was given cannot be trusted.
func (b *Bundle) Walk(fn func(Entry, io.Reader) error) error {
	i := 0
	err := b.archive.scan(func(e Entry, r io.Reader) error {
		if i == len(b.files) || b.files[i].Path != e.Path || b.files[i].Size != e.Size {
			return fmt.Errorf("%.200q: %w", e.Path, ErrChanged)
		}
		want := b.files[i]
		i++
		content := &hashReader{r: r, hash: sha256.New()}
		if err := fn(want, content); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
		if content.sum() != want.Hash {
			return fmt.Errorf("%.200q: %w", e.Path, ErrChanged)
		}
		return nil
	})
	if err == nil && i != len(b.files) {
		return ErrChanged
	}
	return err
}

// errFound ends a walk when its file has been read.
var errFound = errors.New("found")

// ReadFile returns the content of one file, which is at most the limit for one file long. A file that is not
// in the bundle is fs.ErrNotExist.
func (b *Bundle) ReadFile(name string) ([]byte, error) {
	var content []byte
	err := b.Walk(func(e Entry, r io.Reader) error {
		if e.Path != name {
			return nil
		}
		buf := bytes.NewBuffer(make([]byte, 0, e.Size+bytes.MinRead))
		if _, err := buf.ReadFrom(r); err != nil {
			return err
		}
		if content = buf.Bytes(); guild.Sum(content) != e.Hash {
			return fmt.Errorf("%.200q: %w", name, ErrChanged)
		}
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return content, nil
	case err != nil:
		return nil, err
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

// hashReader hashes the bytes that are read through it.
type hashReader struct {
	r    io.Reader
	hash hash.Hash
}

func (h *hashReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.hash.Write(p[:n])
	return n, err
}

func (h *hashReader) sum() guild.Hash { return guild.Hash(h.hash.Sum(nil)) }
