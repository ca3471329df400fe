package nutshell

import (
	"fmt"
	"maps"
	"slices"

	"guild"
)

// checkListing compares the files of an archive with the list in its manifest. Where the list has hashes it is
// binding: every file must be on it, and everything on it must be there. Without hashes it is a hint. The
// reference program lists the manifest, which cannot contain its own hash: that line is skipped.
func checkListing(list Files, files []Entry) (warnings []string, err error) {
	listed, hashed, err := byPath(list.Tree)
	if err != nil {
		return nil, err
	}
	for _, e := range list.Tree {
		if hashed && e.Hash == "" && e.Path != ManifestFile {
			warnings = append(warnings, fmt.Sprintf("files.tree has no hash of %.200q: its content cannot be verified", e.Path))
			break // and others like it
		}
	}
	for _, e := range files {
		stated, ok := listed[e.Path]
		switch {
		case e.Path == ManifestFile:
		case ok:
			if err := stated.check(e); err != nil {
				return nil, err
			}
		case hashed:
			return nil, &EntryError{e.Path, "is in the archive, but not in files.tree"}
		}
		delete(listed, e.Path)
	}
	delete(listed, ManifestFile)
	if hashed && len(listed) > 0 {
		return nil, &EntryError{slices.Min(slices.Collect(maps.Keys(listed))), "is in files.tree, but not in the archive"}
	}
	missing, there := len(listed), int64(len(files)-1)
	// The reference program counts the manifest too. A manifest that was never packed may say zero.
	counts := hashed || list.Tree != nil && len(list.Tree) == 0
	if n := list.TotalCount; counts && n != 0 && n != there && n != there+1 {
		return nil, &SizeError{Want: n, Got: there}
	}
	if !hashed && there > 0 {
		warnings = append(warnings, "files.tree has no hashes: the content of the files cannot be verified")
	}
	if !hashed && missing > 0 {
		warnings = append(warnings, fmt.Sprintf("files.tree lists %d files that are not in the archive", missing))
	}
	return warnings, nil
}

// byPath indexes a list and reports whether it has hashes.
func byPath(tree []TreeEntry) (listed map[string]TreeEntry, hashed bool, err error) {
	listed = make(map[string]TreeEntry, len(tree))
	for _, e := range tree {
		if _, twice := listed[e.Path]; twice {
			return nil, false, &ManifestError{ManifestFile, "files.tree", fmt.Sprintf("lists %.200q twice", e.Path)}
		}
		listed[e.Path] = e
		hashed = hashed || e.Hash != ""
	}
	return listed, hashed, nil
}

// check compares the list with the files.
func (t TreeEntry) check(e Entry) error {
	if t.Size != nil && *t.Size != e.Size {
		return &SizeError{e.Path, *t.Size, e.Size}
	}
	if t.Hash == "" {
		return nil
	}
	want, err := guild.ParseHash(t.Hash)
	if err != nil {
		return &ManifestError{ManifestFile, "files.tree", err.Error()}
	}
	if want != e.Hash {
		return &HashError{e.Path, want, e.Hash}
	}
	return nil
}
