package exam

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"slices"

	"guild/internal/sandbox"
)

// Bounds of what a run hands back.
const (
	maxCollected  = sandbox.DefaultDisk / 2 // bytes of all files together
	maxArchive    = maxCollected + 4<<20    // with the headers
	maxCollection = 1000                    // entries of the archive that are looked at
)

// collected reads the files of these names out of the archive that a run handed back. The archive is hostile:
// only regular files count, of a name that is there twice the first one, and where it is damaged it ends.
func collected(archive []byte, names []string) map[string][]byte {
	files := map[string][]byte{}
	if len(names) == 0 {
		return files
	}
	in := tar.NewReader(bytes.NewReader(archive))
	left := int64(maxCollected)
	for range maxCollection {
		h, err := in.Next()
		if err != nil {
			break
		}
		name := path.Clean(h.Name)
		_, known := files[name]
		if h.Typeflag != tar.TypeReg || known || !slices.Contains(names, name) || h.Size > left {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(in, left))
		if err != nil || int64(len(content)) != h.Size {
			break
		}
		left -= h.Size
		files[name] = content
	}
	return files
}
