package typed

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"

	"guild"
	"guild/internal/hand/workdir"
	"guild/internal/judging/sandbox"
	"guild/nutshell"
	"guild/oa"
)

// Limits on files.
const (
	maxArchive   = 64 << 20 // packed bytes
	maxArtifacts = 1000     // listed files
	maxLeft      = 16 << 20 // bytes of delivered artifacts
)

// fill creates a directory with the files of an archive, or an empty one if there is no source.
func (s Sandbox) fill(ctx context.Context, source, dir string) error {
	if source == "" {
		return os.Mkdir(dir, 0o755)
	}
	var archive limited
	if _, err := s.Fetch(ctx, source, &archive); err != nil {
		return err
	}
	raw := archive.Bytes()
	// The formats are recognised by their first bytes, because a URL need not have a suffix.
	if bytes.HasPrefix(raw, []byte("NUT\x01")) {
		b, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
		if err != nil {
			return err
		}
		return workdir.Unpack(ctx, b, dir)
	}
	var unpacked io.Reader = bytes.NewReader(raw)
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(unpacked)
		if err != nil {
			return err
		}
		unpacked = z
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return untar(unpacked, dir, s.Most.WithDefaults())
}

// limited is a buffer that accepts at most maxArchive bytes.
type limited struct{ bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxArchive {
		return 0, fmt.Errorf("the archive has more than %d bytes", maxArchive)
	}
	return l.Buffer.Write(p)
}

// untar writes the regular files and directories of a tar archive below dir. It omits links and devices, and rejects a
// name that leads out of dir.
func untar(r io.Reader, dir string, limits sandbox.Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left, entries := limits.Disk, limits.Inodes
	archive := tar.NewReader(io.LimitReader(r, left+entries<<10+1<<20)) // a small archive may unpack to a very large one
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("neither a bundle nor a tar archive, perhaps with gzip: %w", err)
		}
		name := path.Clean(h.Name)
		entries--
		if entries < 0 {
			return &nutshell.LimitError{What: "Entries", Limit: limits.Inodes, Path: h.Name}
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%.100q leads out of the archive", h.Name)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeReg:
			left -= h.Size
			if left < 0 {
				return &nutshell.LimitError{What: "Total", Limit: limits.Disk, Path: h.Name}
			}
			err = write(root, name, fs.FileMode(0o644|h.Mode&0o111), archive)
		}
		if err != nil {
			return err
		}
	}
}

// write creates a new file, and its parent directories.
func write(root *os.Root, name string, mode fs.FileMode, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// within returns the limits of a directory that a run writes.
func within(l sandbox.Limits) nutshell.Limits {
	return nutshell.Limits{Entries: int(l.Inodes), Total: l.Disk, File: l.Disk, Path: 4096, Depth: 64, Ratio: 1}
}

// isFull reports whether a directory exceeds the limits. A directory that changes during the check counts as not full,
// because the next check sees it.
func isFull(dir string, l sandbox.Limits) bool {
	tree, err := workdir.FS(dir, within(l))
	if err == nil {
		tree.Close()
	}
	_, full := errors.AsType[*nutshell.LimitError](err)
	return full
}

// eachFile calls visit for every regular file in a directory, in the order of the paths.
func eachFile(dir string, l sandbox.Limits, visit func(tree fs.FS, name string) error) error {
	tree, err := workdir.FS(dir, within(l))
	if err != nil {
		return err
	}
	defer tree.Close()
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return visit(tree, name)
	})
}

// artifacts returns the files that were created or changed. Unless leave is empty, it copies them there, as far as
// maxLeft allows. Too many files are a *nutshell.LimitError.
func artifacts(dir string, l sandbox.Limits, before map[string]guild.Hash, leave string) ([]oa.Artifact, error) {
	all := []oa.Artifact{}
	room := int64(maxLeft)
	err := eachFile(dir, l, func(tree fs.FS, name string) error {
		a, err := artifact(tree, name)
		if err != nil {
			return err
		}
		if was, known := before[name]; known && was == a.SHA256 {
			return nil
		}
		if len(all) == maxArtifacts {
			return &nutshell.LimitError{What: "Entries", Limit: maxArtifacts, Path: name}
		}
		all = append(all, a)
		if leave == "" || a.SizeBytes > room {
			return nil
		}
		room -= a.SizeBytes
		return keep(tree, name, leave)
	})
	return all, err
}

// keep copies a file into a directory, which it creates if needed.
func keep(tree fs.FS, name, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := tree.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return write(root, name, 0o644, f)
}

// artifact hashes one file. Its MIME type is a guess, but the same on every machine.
func artifact(tree fs.FS, name string) (oa.Artifact, error) {
	f, err := tree.Open(name)
	if err != nil {
		return oa.Artifact{}, err
	}
	defer f.Close()
	head := sandbox.Head{Most: 512} // the part that DetectContentType reads
	sum := newStream()
	size, err := io.Copy(io.MultiWriter(sum, &head), f)
	if err != nil {
		return oa.Artifact{}, err
	}
	mime := http.DetectContentType(head.Bytes())
	if path.Ext(name) == ".json" {
		mime = "application/json"
	}
	return oa.Artifact{Path: name, SHA256: sum.sum(), SizeBytes: size, MIMEType: mime}, nil
}
