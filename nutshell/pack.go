package nutshell

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"guild"
)

// Forms of compression. A reader finds out by itself which one it has.
const (
	Gzip = "gzip"
	Zstd = "zstd"
	None = "none"
)

// Options say how to pack. The zero value packs with gzip and the default limits.
type Options struct {
	Compression string                 // Gzip if empty, Zstd or None
	Limits      Limits                 // those of the readers that are to open it
	Exclude     func(path string) bool // what else to leave out; a folder takes what is in it with it
	Hidden      []guild.Commitment     // to each file below HiddenDir, as Commit makes them
}

// Info says what was packed.
type Info struct {
	Hash    guild.Hash // of the whole file
	Size    int64      // of the whole file, in bytes
	Files   []Entry    // in archive order, without the manifest
	Skipped []Skipped  // what was left out
}

// Skipped is a file or folder that was left out, and why.
type Skipped struct{ Path, Reason string }

// Pack writes the tree of files as a bundle: the magic bytes and one compressed tar with nutshell.json first,
// the other files sorted by path, no times and no owners, mode 0644, or 0755 for what can be executed. The same
// tree gives the same bytes.
//
// The manifest is written as it is in the tree, except that files.tree lists every file with size and hash
// (keeping the role it may have), the totals and compression are filled in, and compressed_size_bytes is left
// out, because a number cannot be inside of what it measures.
//
// Environment files, private keys, version control folders and bundles are never packed; Info.Skipped names
// them. So does HiddenDir: its files stay with the customer, and acceptance.hidden_tests of the manifest gets the
// commitments to them instead. Options.Hidden must match what is there, else it is ErrHidden. Links and other irregular files are an *EntryError, what is beyond the limits a *LimitError, a file that
// changes meanwhile ErrChanged. On an error, what was written to w is not a bundle.
func Pack(ctx context.Context, fsys fs.FS, w io.Writer, o Options) (Info, error) {
	o.Limits = o.Limits.OrDefault()
	m, err := readManifest(fsys)
	if err != nil {
		return Info{}, err
	}
	if err := m.commitTo(ctx, fsys, o); err != nil {
		return Info{}, err
	}
	if err := m.withoutHidden(); err != nil {
		return Info{}, err
	}
	found, err := collect(ctx, fsys, o)
	if err != nil {
		return Info{}, err
	}
	dangling, err := m.describe(found.files, o.Compression)
	if err != nil {
		return Info{}, err
	}
	if err := found.sum.addPath(ManifestFile, int64(len(m.text.raw)), true); err != nil {
		return Info{}, err
	}
	sum := sha256.New()
	out := &counter{w: io.MultiWriter(w, sum)}
	if err := writeBundle(ctx, out, fsys, m, found.files, o); err != nil {
		return Info{}, err
	}
	return Info{guild.Hash(sum.Sum(nil)), out.n, found.files, append(found.skipped, dangling...)}, nil
}

// readManifest reads the manifest of a tree and asks for its required fields.
func readManifest(fsys fs.FS) (*Manifest, error) {
	f, err := fsys.Open(ManifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoManifest
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	m, err := ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	_, err = m.Validate()
	return m, err
}

// counter counts the bytes that are written through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// writeBundle writes the whole file, and complains if no reader with the same limits would take it.
func writeBundle(ctx context.Context, out *counter, fsys fs.FS, m *Manifest, files []Entry, o Options) error {
	if _, err := io.WriteString(out, magic); err != nil {
		return err
	}
	c, err := compressor(out, o.Compression)
	if err != nil {
		return err
	}
	unpacked := &counter{w: c}
	if err := writeArchive(ctx, unpacked, fsys, m, files); err != nil {
		c.Close() // the error to report is the first one
		return err
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	if b := o.Limits.budget(nil, out.n); unpacked.n > b.max {
		return b.limit
	}
	return nil
}

// compressor returns the writer for one of the forms of compression. It adds no time and no name, and does not
// spread its work over processors, so that the bytes depend on the input alone.
func compressor(w io.Writer, form string) (io.WriteCloser, error) {
	switch form {
	case "", Gzip:
		z := gzips.Get().(*gzip.Writer)
		z.Reset(w)
		z.ModTime = time.Unix(0, 0) // the zero Time is not zero there
		return reused{z}, nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	case None:
		return nopCloser{w}, nil
	}
	return nil, fmt.Errorf("compression %.40q is not one of gzip, zstd, none", form)
}

// gzips are writers to be used again: one takes a megabyte, which is more work to make than most bundles are to
// compress. What was written before does not show in what is written next.
var gzips = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// reused is a gzip writer that is given back when it is closed.
type reused struct{ *gzip.Writer }

func (z reused) Close() error {
	err := z.Writer.Close()
	z.Reset(io.Discard) // do not hold on to what it wrote to
	gzips.Put(z.Writer)
	return err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func writeArchive(ctx context.Context, w io.Writer, fsys fs.FS, m *Manifest, files []Entry) error {
	t := tar.NewWriter(w)
	raw := m.text.raw
	if err := t.WriteHeader(headerOf(Entry{Path: ManifestFile, Size: int64(len(raw)), Mode: 0o644})); err != nil {
		return err
	}
	if _, err := t.Write(raw); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	for _, e := range files {
		if err := t.WriteHeader(headerOf(e)); err != nil {
			return fmt.Errorf("%.200q: %w", e.Path, err)
		}
		if err := writeFile(ctx, t, fsys, e, buf); err != nil {
			return err
		}
	}
	return t.Close()
}

func headerOf(e Entry) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: e.Path, Size: e.Size, Mode: int64(e.Mode)}
}

// writeFile copies a file into the archive if it still is what was listed in the manifest.
func writeFile(ctx context.Context, w io.Writer, fsys fs.FS, e Entry, buf []byte) error {
	f, err := fsys.Open(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	content := &hashReader{r: io.LimitReader(reader{ctx, f}, e.Size+1), hash: sha256.New()}
	n, err := io.CopyBuffer(onlyWriter{w}, content, buf)
	switch {
	case n > e.Size || errors.Is(err, tar.ErrWriteTooLong) || err == nil && content.sum() != e.Hash:
		return fmt.Errorf("%.200q: %w", e.Path, ErrChanged)
	case err != nil:
		return fmt.Errorf("%.200q: %w", e.Path, err)
	}
	return nil
}

// onlyWriter hides the other methods of a writer, so that a copy uses the buffer it is given.
type onlyWriter struct{ io.Writer }

// reader stops reading when the context is done.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
