package exam

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"slices"

	"guild/internal/judging/sandbox"
)

// Bounds of the files that a run leaves.
const (
	maxCollected  = sandbox.DefaultDisk / 2 // bytes of all files together
	maxArchive    = maxCollected + 4<<20    // with the headers
	maxCollection = 1000                    // entries of the archive
)

// collected reads the files of these names from a hostile archive that a run left. Only regular files count, of several with
// the same name the first one, and the archive ends where it is damaged.
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
