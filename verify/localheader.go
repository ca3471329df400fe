package verify

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// readableFlags are the entry flags that do not change how the entry is read (APPNOTE 4.4.4): compression level, data
// descriptor, UTF-8 name.
const readableFlags = 1<<1 | 1<<2 | 1<<3 | 1<<11

const hasDescriptor = 1 << 3

// checkLayout checks that the entries of an archive are exactly those of its directory: the first begins at the first
// byte, each follows the one before, and the directory follows the last.
//
// Some programs read an archive from its directory at the end, others from its first byte. If the two could differ, an
// attacker could show one file to the verifier and another one to the reader of the archive.
func checkLayout(b []byte, entries []*zip.File) error {
	const head = 30 // length of a local header without the name
	at := 0
	inOrder := slices.Clone(entries)
	offset := func(f *zip.File) int64 {
		n, err := f.DataOffset()
		if err != nil {
			return -1
		}
		return n
	}
	slices.SortFunc(inOrder, func(x, y *zip.File) int { return cmp.Compare(offset(x), offset(y)) })
	for _, f := range inOrder {
		data := offset(f)
		if data < 0 || data > int64(len(b)) || int64(at+head) > data || !bytes.HasPrefix(b[at:], []byte("PK\x03\x04")) {
			return fmt.Errorf("%.100q does not begin where the one before it ends", f.Name)
		}
		local := b[at : at+head]
		name, extra := int(binary.LittleEndian.Uint16(local[26:])), int(binary.LittleEndian.Uint16(local[28:]))
		if int64(at+head+name+extra) != data || string(b[at+head:at+head+name]) != f.Name {
			return fmt.Errorf("%.100q has another name where it lies", f.Name)
		}
		flags := binary.LittleEndian.Uint16(local[6:])
		if f.Flags&^readableFlags != 0 || flags != f.Flags || binary.LittleEndian.Uint16(local[8:]) != f.Method {
			return fmt.Errorf("%.100q is packed in another way", f.Name)
		}
		if f.CompressedSize64 > uint64(len(b))-uint64(data) {
			return fmt.Errorf("%.100q is cut off", f.Name)
		}
		at = int(data) + int(f.CompressedSize64)
		if f.Flags&hasDescriptor != 0 {
			if !bytes.HasPrefix(b[at:], []byte("PK\x07\x08")) {
				return fmt.Errorf("%.100q has no descriptor behind it", f.Name)
			}
			at += 16
		}
	}
	if at > len(b) || !bytes.HasPrefix(b[at:], []byte("PK\x01\x02")) && !bytes.HasPrefix(b[at:], []byte("PK\x05\x06")) {
		return errors.New("there is something between its last file and its directory")
	}
	return nil
}
