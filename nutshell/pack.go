package nutshell

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"guild"
)

// Options say how to pack. The zero value packs with gzip and the default limits.
type Options struct {
	Compression string // Gzip if empty, Zstd or None
	Level       Level  // how much work goes into Gzip or Zstd
	Limits      Limits // those of the readers that are to open it

	// Exclude reports what else to leave out; leaving out a folder leaves out what is in it.
	Exclude func(path string, isDir bool) bool

	// Include names files that are packed although their name, their content or Exclude keeps them out. Each must
	// exist. Files below HiddenDir and of version control are never packed.
	Include []string

	Hidden      []guild.Commitment // to each file below HiddenDir, as Commit makes them
	VaultBeside bool               // the file that credentials.vault names is left out and travels beside the bundle

	// Head, if it is not nil, gets the first HeadSize bytes of each file that is packed, from several goroutines. It must not
	// keep them. Tokens, if it is not nil, is called afterwards; what it returns becomes compression.context_tokens_estimate
	// if it is more than zero.
	Head   func(path string, size int64, head []byte)
	Tokens func() (int64, error)

	// InsecurePlaintext packs a tree whose vault is not encrypted, which is refused otherwise.
	InsecurePlaintext bool
}

// HeadSize limits the part of a file that Options.Head gets, in bytes.
const HeadSize = 32 << 10

// Info describes a bundle that was packed.
type Info struct {
	Hash    guild.Hash // of the whole file
	Size    int64      // of the whole file, in bytes
	Files   []Entry    // in archive order, without the manifest
	Skipped []Skipped  // files that were left out

	Tokens   int64    // what Options.Tokens returned
	Warnings []string // about files that not every system can have
}

// Skipped is a file or folder that was left out, and why.
type Skipped struct{ Path, Reason string }

// ReasonExcluded is the Reason where Options.Exclude wanted it so.
const ReasonExcluded = "excluded"

// Pack writes the tree of files as a bundle: the magic bytes and one compressed tar with nutshell.json first,
// the other files sorted by path, no times and no owners, mode 0644, or 0755 for what can be executed. The same
// tree and options give the same bytes, on every machine. Files are hashed and compressed on as many processors as
// there are, so fsys must allow that several are open at once; neither the bundle nor a large file is ever whole
// in memory.
//
// The manifest is written as it is in the tree, except that files.tree lists every file with size and hash
// (keeping the role it may have), the totals and compression are filled in, and compressed_size_bytes is left
// out, because the archive that it measures has the manifest in it.
//
// Environment files, private keys, version control folders, bundles and what lies beside them (.nut.sig, .nut.vault),
// and .nutignore are not packed unless Options.Include names them; Info.Skipped names what was left out. HiddenDir
// never is: its files stay with the customer, and acceptance.hidden_tests of the manifest gets the commitments to
// them instead. Options.Hidden must match the files there, else it is ErrHidden. With Options.VaultBeside, or where
// credentials.beside of the manifest says so already, the vault is left out and the manifest says so.
//
// Links and other irregular files are an *EntryError, as is a name of Include that is no file; what is beyond the
// limits is a *LimitError, a file that changes meanwhile ErrChanged, a vault that is not encrypted a
// *PlaintextError. On an error, what was written to w is not a bundle.
func Pack(ctx context.Context, fsys fs.FS, w io.Writer, o Options) (Info, error) {
	o.Limits = o.Limits.OrDefault()
	m, err := ReadManifest(fsys)
	if err != nil {
		return Info{}, err
	}
	if _, err := m.Validate(); err != nil {
		return Info{}, err
	}
	vault, err := m.vaultToPack(fsys, o)
	if err != nil {
		return Info{}, err
	}
	if err := m.commitTo(ctx, fsys, o); err != nil {
		return Info{}, err
	}
	if err := m.withoutHidden(); err != nil {
		return Info{}, err
	}
	found, err := collect(ctx, fsys, o, vault)
	if err != nil {
		return Info{}, err
	}
	entries := found.entries()
	tokens := int64(0)
	if o.Tokens != nil {
		if tokens, err = o.Tokens(); err != nil {
			return Info{}, err
		}
	}
	dangling, err := m.describe(entries, o.Compression, tokens)
	if err != nil {
		return Info{}, err
	}
	if err := found.sum.resize(ManifestFile, 0, int64(len(m.text.raw))); err != nil {
		return Info{}, err
	}
	sum := sha256.New()
	out := &counter{w: io.MultiWriter(w, sum)}
	if err := writeBundle(ctx, out, fsys, m, found, o); err != nil {
		return Info{}, err
	}
	skipped := append(found.skipped, slices.DeleteFunc(dangling, func(s Skipped) bool { return s.Path == vault })...)
	info := Info{Hash: guild.Hash(sum.Sum(nil)), Size: out.n, Files: entries, Skipped: skipped, Tokens: tokens, Warnings: notForWindows(entries)}
	return info, nil
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
func writeBundle(ctx context.Context, out *counter, fsys fs.FS, m *Manifest, what found, o Options) error {
	if _, err := io.WriteString(out, magic); err != nil {
		return err
	}
	c, err := compressor(out, o.Compression, o.Level)
	if err != nil {
		return err
	}
	unpacked := &counter{w: c}
	if err := writeArchive(ctx, unpacked, fsys, m, what); err != nil {
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

func writeArchive(ctx context.Context, w io.Writer, fsys fs.FS, m *Manifest, what found) error {
	t := tar.NewWriter(w)
	raw := m.text.raw
	if err := t.WriteHeader(headerOf(Entry{Path: ManifestFile, Size: int64(len(raw)), Mode: 0o644})); err != nil {
		return err
	}
	if _, err := t.Write(raw); err != nil {
		return err
	}
	in := newIntake(ctx, fsys, what.seed, 0)
	defer in.close()
	for _, f := range what.files {
		if err := t.WriteHeader(headerOf(f.Entry)); err != nil {
			return fmt.Errorf("%.200q: %w", f.Path, err)
		}
		if err := in.copyTo(t, f); err != nil {
			return err
		}
	}
	return t.Close()
}

func headerOf(e Entry) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: e.Path, Size: e.Size, Mode: int64(e.Mode)}
}
