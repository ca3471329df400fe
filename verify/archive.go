package verify

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// maxRatio limits the size of the files as a multiple of the archive's size, against decompression bombs. Pack stores
// a file uncompressed rather than come near it.
const maxRatio = 200

// ErrArchive means that the input could not be opened as an archive of an export.
var ErrArchive = errors.New("not an archive of an export")

// Archive checks an export that is one ZIP archive. An error means that there is no export to report on; it matches
// ErrArchive.
func Archive(b []byte) (Report, error) {
	files, err := unpack(b)
	if err != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return check(files), nil
}

// unpack reads the files of an archive. A file that an export may not have is a fault, as in a directory. Anything
// that two programs could unpack differently is an error: otherwise the verifier could check other bytes than those a
// reader sees.
func unpack(b []byte) (contents, error) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return contents{}, err
	}
	// Directories are entries, too, so there can be more entries than files.
	if len(z.File) > 2*maxFiles {
		return contents{}, fmt.Errorf("%d files, at most %d", len(z.File), 2*maxFiles)
	}
	if err := checkLayout(b, z.File); err != nil {
		return contents{}, err
	}
	c := contents{files: map[string][]byte{}}
	seen := map[string]bool{}
	for _, f := range z.File {
		name := strings.TrimSuffix(f.Name, "/")
		switch {
		case !fs.ValidPath(name) || strings.Contains(name, `\`):
			return contents{}, fmt.Errorf("the name %.100q", f.Name)
		case seen[name]:
			return contents{}, fmt.Errorf("%.100q is in it twice", name)
		}
		seen[name] = true
		if name != f.Name && f.UncompressedSize64 == 0 { // a directory
			continue
		}
		if err := c.extract(f); err != nil {
			c.faults = append(c.faults, err)
		}
		if c.total > maxRatio*int64(len(b)) {
			return contents{}, fmt.Errorf("its files are over %d times as large as it is", maxRatio)
		}
	}
	return c, nil
}

func (c *contents) extract(f *zip.File) error {
	if most, err := limitOf(f.Name); err != nil {
		return err
	} else if f.UncompressedSize64 > uint64(most) {
		return fmt.Errorf("%s is over %d bytes", f.Name, most)
	}
	// Any of these attributes can make an unpacker create a directory or a link instead of a file, regardless of the
	// system that wrote them.
	const dosDirectory, unixType, unixRegular = 0x10, 0xF000, 0x8000
	if kind := f.ExternalAttrs >> 16 & unixType; f.ExternalAttrs&dosDirectory != 0 || kind != 0 && kind != unixRegular {
		return fmt.Errorf("%.100q is not a regular file", f.Name)
	}
	r, err := f.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	defer r.Close()
	if err := c.add(f.Name, r); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(c.files[f.Name]) != f.CRC32 { // the reader does not compare a CRC of zero
		delete(c.files, f.Name)
		return fmt.Errorf("%s: %w", f.Name, zip.ErrChecksum)
	}
	return nil
}

// Pack writes an export as one archive. Equal files give equal bytes.
func Pack(files map[string][]byte) ([]byte, error) {
	total := 0
	for _, b := range files {
		total += len(b)
	}
	if len(files) > maxFiles || total > maxTotal {
		return nil, fmt.Errorf("pack: %d files of %d bytes, at most %d of %d", len(files), total, maxFiles, maxTotal)
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := pack(z, name, files[name]); err != nil {
			return nil, fmt.Errorf("pack: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// pack writes one file. It compresses the file if that makes it smaller, unless the ratio would be so high that
// readers reject it as a decompression bomb.
func pack(z *zip.Writer, name string, b []byte) error {
	if most, err := limitOf(name); err != nil {
		return err
	} else if int64(len(b)) > most {
		return fmt.Errorf("%s has %d bytes, at most %d", name, len(b), most)
	}
	var deflated bytes.Buffer
	c, err := flate.NewWriter(&deflated, flate.DefaultCompression)
	if err == nil {
		_, err = c.Write(b)
	}
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	small := deflated.Bytes()
	const firstOf1980 = 1<<5 | 1 // earliest date of the format
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(b), UncompressedSize64: uint64(len(b))}
	h.ModifiedDate = firstOf1980 //lint:ignore SA1019 CreateRaw does not look at Modified
	h.SetMode(0o644)
	if len(small) >= len(b) || len(b) > maxRatio/2*len(small) {
		h.Method, small = zip.Store, b
	}
	h.CompressedSize64 = uint64(len(small))
	w, err := z.CreateRaw(h)
	if err == nil {
		_, err = w.Write(small)
	}
	return err
}
