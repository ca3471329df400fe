package diff

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"guild"
	"guild/nutshell"
)

// File is a file that differs between the bundles.
type File struct {
	Path    string `json:"path"`               // in B, or in A if it was removed
	OldPath string `json:"old_path,omitempty"` // in A, if it was moved or is another file's counterpart
	Change  string `json:"change"`
	Old     *State `json:"old,omitempty"` // in A
	New     *State `json:"new,omitempty"` // in B

	Text    string `json:"text,omitempty"` // a unified diff, if both are text
	Note    string `json:"note,omitempty"` // why there is no Text although the content differs
	Added   int    `json:"lines_added"`    // of Text
	Removed int    `json:"lines_removed"`
}

// State is the state of a file in one of the bundles.
type State struct {
	Size int64      `json:"size"` // bytes
	Hash guild.Hash `json:"hash"`
	Mode string     `json:"mode"` // "0644" or "0755"
}

// entry is a file of a bundle.
type entry struct {
	path string
	State
}

// list finds and hashes the files of a bundle, without the manifest.
func list(ctx context.Context, fsys fs.FS, exclude func(string, bool) bool) (map[string]entry, error) {
	paths, err := nutshell.RegularFiles(ctx, fsys, exclude)
	if err != nil {
		return nil, err
	}
	all := make(map[string]entry, len(paths))
	buf := make([]byte, 32<<10)
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		state, err := stateOf(fsys, p, buf)
		if err != nil {
			return nil, err
		}
		all[p] = entry{p, state}
	}
	return all, nil
}

func stateOf(fsys fs.FS, p string, buf []byte) (State, error) {
	f, err := fsys.Open(p)
	if err != nil {
		return State{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return State{}, err
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{f}, buf)
	if err != nil {
		return State{}, fmt.Errorf("%.200q: %w", p, err)
	}
	s := State{Size: n, Hash: guild.Hash(sum.Sum(nil)), Mode: "0644"}
	if info.Mode()&0o111 != 0 {
		s.Mode = "0755"
	}
	return s, nil
}

// pair is a file of A and the file of B that it is compared with. One of them may be nil.
type pair struct {
	a, b   *entry
	change string
	as     string // path of both in the diff; their own if empty
}

// changes returns the pairs of files that differ, sorted by path.
func changes(a, b map[string]entry) []pair {
	var all []pair
	gone, came := map[guild.Hash][]entry{}, []entry(nil)
	for _, p := range slices.Sorted(maps.Keys(a)) {
		before := a[p]
		after, ok := b[p]
		switch {
		case !ok:
			gone[before.Hash] = append(gone[before.Hash], before)
		case before.State != after.State:
			all = append(all, pair{a: &before, b: &after, change: Changed})
		}
	}
	for _, p := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[p]; !ok {
			came = append(came, b[p])
		}
	}
	for _, after := range came {
		if before, ok := takeMoved(gone, after); ok {
			all = append(all, pair{a: &before, b: &after, change: Moved})
		} else {
			all = append(all, pair{b: &after, change: Added})
		}
	}
	for _, left := range gone {
		for _, before := range left {
			all = append(all, pair{a: &before, change: Removed})
		}
	}
	slices.SortFunc(all, func(x, y pair) int { return strings.Compare(x.path(), y.path()) })
	return all
}

func (p pair) path() string {
	switch {
	case p.as != "":
		return p.as
	case p.b != nil:
		return p.b.path
	}
	return p.a.path
}

// Pair names a file of A and the file of B that it is compared with. A is empty for a file that was added. As is the path
// that both have in the result.
type Pair struct{ A, B, As string }

// Files compares files of two bundles, and returns those that differ, in the order of the pairs. Its errors are those of
// Bundles.
func Files(ctx context.Context, a, b fs.FS, pairs []Pair) ([]File, error) {
	before, err := read(ctx, a, nil)
	if err != nil {
		return nil, fmt.Errorf("the first bundle: %w", err)
	}
	after, err := read(ctx, b, nil)
	if err != nil {
		return nil, fmt.Errorf("the second bundle: %w", err)
	}
	var all []pair
	for _, p := range pairs {
		now, ok := after.files[p.B]
		if !ok {
			return nil, fmt.Errorf("%.200q: %w", p.B, fs.ErrNotExist)
		}
		was, ok := before.files[p.A]
		switch {
		case !ok:
			all = append(all, pair{b: &now, change: Added, as: p.As})
		case was.Hash != now.Hash || was.Mode != now.Mode:
			all = append(all, pair{a: &was, b: &now, change: Changed, as: p.As})
		}
	}
	c := contents{ctx: ctx, a: before, b: after, open: true}
	return c.compare(all)
}

// takeMoved removes a file with the same content as came from gone, if possible one of the same name. Empty files do not
// count as moved.
func takeMoved(gone map[guild.Hash][]entry, came entry) (entry, bool) {
	left := gone[came.Hash]
	if len(left) == 0 || came.Size == 0 {
		return entry{}, false
	}
	i := max(0, slices.IndexFunc(left, func(e entry) bool { return path.Base(e.path) == path.Base(came.path) }))
	found := left[i]
	gone[came.Hash] = slices.Delete(left, i, i+1)
	return found, true
}
