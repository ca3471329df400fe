package nutshell

import (
	"context"
	"hash/maphash"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// found lists the files of a tree that are packed, and those that are not.
type found struct {
	files   []file // sorted by path, without the manifest
	skipped []Skipped
	sum     tally
	seed    maphash.Seed // of the marks
}

// entries returns the files as the caller and the manifest see them.
func (f found) entries() []Entry {
	all := make([]Entry, len(f.files))
	for i := range f.files {
		all[i] = f.files[i].Entry
	}
	return all
}

// collector finds and hashes the files of a tree.
type collector struct {
	found
	ctx     context.Context
	fsys    fs.FS
	exclude func(path string, isDir bool) bool
	head    func(path string, size int64, head []byte)
	vault   string          // the one that is left out, if any
	named   map[string]bool // files that no rule keeps out, and whether they have been found
	within  Skipped         // the folder being searched for named files only, if any
	pending []Entry         // files to be hashed, with the sizes that they have in their folders
}

// collect finds the files of a tree and hashes them. It leaves out the file vault, if that is not empty. The limits are
// checked before any file is read, and again with what was read. The manifest counts as an empty file.
func collect(ctx context.Context, fsys fs.FS, o Options, vault string) (found, error) {
	c := collector{found: found{sum: tally{limits: o.Limits}, seed: maphash.MakeSeed()}, ctx: ctx, fsys: fsys, exclude: o.Exclude, head: o.Head, vault: vault}
	c.named = make(map[string]bool, len(o.Include))
	for _, p := range o.Include {
		if err := RefuseVersionControl([]Entry{{Path: p}}); err != nil {
			return found{}, err
		}
		c.named[p] = p == ManifestFile
	}
	if err := c.sum.addPath(ManifestFile, 0, true); err != nil {
		return found{}, err
	}
	if err := fs.WalkDir(fsys, ".", c.visit); err != nil {
		return found{}, err
	}
	if err := c.hashPending(); err != nil {
		return found{}, err
	}
	for _, p := range slices.Sorted(maps.Keys(c.named)) {
		if !c.named[p] {
			return found{}, &EntryError{p, "was named to be packed, but is not a file that can be"}
		}
	}
	slices.SortFunc(c.files, func(a, b file) int { return strings.Compare(a.Path, b.Path) })
	return c.found, RefuseVersionControl(c.entries())
}

func (c *collector) visit(p string, d fs.DirEntry, err error) error {
	if err == nil {
		err = c.ctx.Err()
	}
	if err != nil || p == "." {
		return err
	}
	if p == ManifestFile && d.Type().IsRegular() {
		return nil // it is written first, with the list that is made here
	}
	if reason := c.keptOut(p, d.IsDir()); reason != "" {
		return c.skip(p, d, reason)
	}
	switch {
	case d.IsDir():
		return c.sum.limits.checkPath(p)
	case !d.Type().IsRegular():
		return &EntryError{p, irregular(d.Type())}
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	c.pending = append(c.pending, Entry{Path: p, Size: info.Size()})
	return c.sum.addPath(p, info.Size(), true)
}

// skip leaves out a file or folder. A folder is still searched if Options.Include names files in it.
func (c *collector) skip(p string, d fs.DirEntry, reason string) error {
	inside := c.isWithin(p)
	if !inside {
		c.skipped = append(c.skipped, Skipped{p, reason})
	}
	switch {
	case !d.IsDir():
		return nil
	case p == HiddenDir || !c.leadsToNamed(p):
		return fs.SkipDir
	case !inside:
		c.within = Skipped{p, reason}
	}
	return nil
}

// isWithin reports whether a path is below the folder that was left out last.
func (c *collector) isWithin(p string) bool {
	return c.within.Path != "" && strings.HasPrefix(p, c.within.Path+"/")
}

// leadsToNamed reports whether Options.Include names a file below a folder.
func (c *collector) leadsToNamed(dir string) bool {
	for p := range c.named {
		if strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

// keptOut returns why a path is not packed, or an empty string.
func (c *collector) keptOut(p string, isDir bool) string {
	switch {
	case p == HiddenDir:
		return "hidden tests stay with the customer"
	case p == c.vault && !isDir:
		return "travels beside the bundle"
	}
	if _, named := c.named[p]; named && !isDir {
		c.named[p] = true
		return ""
	}
	if c.isWithin(p) {
		return c.within.Reason
	}
	if p == ignoreFile && !isDir {
		return "says what to leave out"
	}
	if reason := secretName(p[strings.LastIndexByte(p, '/')+1:]); reason != "" {
		return reason
	}
	if c.exclude != nil && c.exclude(p, isDir) {
		return ReasonExcluded
	}
	return ""
}

func irregular(mode fs.FileMode) string {
	if mode&fs.ModeSymlink != 0 {
		return "is a symbolic link, and bundles have none; put a copy in its place"
	}
	return "is not a regular file"
}

// hashed is the result of hashing a pending file.
type hashed struct {
	file
	key bool // a private key, which is left out
	err error
}

// hashPending hashes the pending files and adds them to the result in the order in which they were found.
func (c *collector) hashPending() error {
	for i, r := range c.hashAll() {
		was := c.pending[i]
		if r.err != nil {
			return r.err
		}
		if r.key {
			c.skipped = append(c.skipped, Skipped{was.Path, "is a private key"})
			c.sum.remove(was.Size)
			continue
		}
		if err := c.sum.resize(r.Path, was.Size, r.Size); err != nil {
			return err
		}
		c.files = append(c.files, r.file)
	}
	return nil
}

// hashAll hashes the pending files, on several processors if there are many. It stops after a file that failed, and
// when the limit for all files is exceeded; the results end there.
func (c *collector) hashAll() []hashed {
	const share = 8 // files that are worth a goroutine
	var next, bytes atomic.Int64
	var failed atomic.Bool
	results := make([]hashed, len(c.pending))
	keep := keyHead
	if c.head != nil {
		keep = HeadSize
	}
	work := func() {
		in := newIntake(c.ctx, c.fsys, c.seed, keep)
		defer in.close()
		for !failed.Load() && bytes.Load() <= c.sum.limits.Total {
			i := next.Add(1) - 1
			if i >= int64(len(results)) {
				return
			}
			r := &results[i]
			r.file, r.key, r.err = in.hash(c.pending[i].Path, c.sum.limits.File)
			if _, named := c.named[c.pending[i].Path]; named {
				r.key = false
			}
			switch {
			case r.err != nil:
				failed.Store(true)
			case !r.key:
				bytes.Add(r.Size)
				if c.head != nil {
					c.head(r.Path, r.Size, in.head)
				}
			}
		}
	}
	var others sync.WaitGroup
	for range min(workers(), len(results)/share) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	return results[:min(next.Load(), int64(len(results)))]
}
