package exam

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"slices"

	"guild/internal/judging/sandbox"
)

// Limits on the files that a run leaves.
const (
	maxCollected  = sandbox.DefaultDisk / 2 // bytes of all files together
	maxArchive    = maxCollected + 4<<20    // with the headers
	maxCollection = 1000                    // entries of the archive
)

// collected reads the named files from a hostile archive that a run left. It accepts only regular files, and the first
// of several with the same name. It stops where the archive is damaged.
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
