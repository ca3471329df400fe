package check

import (
	"crypto/sha256"
	"io"
	"io/fs"

	"guild"
	"guild/nutshell"
)

// hashes compares the files of a directory with the hashes in files.tree. Sizes are not compared, because packing writes
// new ones.
func (c *checker) hashes() {
	for _, e := range c.m.Files().Tree {
		r := reference{field: "files.tree", path: e.Path}
		p, reason := r.cleaned()
		if e.Hash == "" || e.Path == nutshell.ManifestFile || reason != "" {
			continue
		}
		if info, err := fs.Stat(c.fsys, p); err != nil || !info.Mode().IsRegular() {
			continue
		}
		want, err := guild.ParseHash(e.Hash)
		if err != nil {
			c.file(gap, r, p, "its hash in files.tree is invalid: "+short(e.Hash), "")
			continue
		}
		got, err := c.hash(p)
		switch {
		case err != nil:
			c.file(gap, r, p, "cannot be read: "+err.Error(), "")
		case got != want:
			c.file(gap, r, p, "is not the file that files.tree lists (sha256 differs)", "Put the file back, or pack the directory again")
		}
	}
}

func (c *checker) hash(p string) (sum guild.Hash, err error) {
	f, err := c.fsys.Open(p)
	if err != nil {
		return guild.Hash{}, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return guild.Hash{}, err
	}
	h.Sum(sum[:0])
	return sum, nil
}
