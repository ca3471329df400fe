package journal

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"guild"
)

// comparison compares the file of hashes with the tree as that grows, up to the first difference. Hashes that are added to the
// file after it was opened are not read.
type comparison struct {
	f       *os.File // nil if there is none
	entries uint64   // whose hashes were in it when it was opened
	r       *bufio.Reader
	index   int64 // of the next hash, as in tlog.StoredHashIndex
	done    bool
	differ  *difference
}

// difference is the first hash in the file that is not the one in the tree.
type difference struct {
	entry, through uint64 // the entries that it covers
	want, got      guild.Hash
}

func (c *comparison) open(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		c.done = true
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.f, c.entries = f, entriesOf(info.Size())
	c.r = bufio.NewReaderSize(io.LimitReader(f, info.Size()), 1<<20)
	return nil
}

func (c *comparison) close() {
	if c.f != nil {
		c.f.Close() // only read
	}
}

// next compares the next hash.
func (c *comparison) next(h guild.Hash) {
	if c.done {
		return
	}
	var said guild.Hash
	if _, err := io.ReadFull(c.r, said[:]); err != nil {
		c.done = true // the file has no hashes of later entries
		return
	}
	if said != h {
		level, n := tlog.SplitStoredHashIndex(c.index)
		first := uint64(n)<<level + 1
		c.done, c.differ = true, &difference{entry: first, through: first + 1<<level - 1, want: said, got: h}
	}
	c.index++
}

// vouched reports whether the leaves in the file give the claimed root. Then the claim covers each of these leaves.
func (c *comparison) vouched(claim Claim) bool {
	if c.entries < claim.Size {
		return false
	}
	leaves, err := (&hashes{c.f, c.entries}).leaves(claim.Size)
	return err == nil && rootOf(growAll(nil, 0, leaves)) == claim.Root
}

// locate narrows a fault about a claim down to the first entry that differs, if the file of hashes agrees with the claim.
func (c *checking) locate(claim Claim, f Fault) Fault {
	d := c.file.differ
	if d != nil && d.entry == d.through && d.entry <= claim.Size && c.file.vouched(claim) {
		f.Entry, f.Through, f.Want, f.Got = d.entry, 0, d.want.String(), d.got.String()
		f.What = fmt.Sprintf("entry %d is not the one of %s", d.entry, claim.By)
		c.file.differ = nil
	}
	return f
}

// conclude adds the faults that only show once everything was read, and sorts all faults by entry.
func (c *checking) conclude() {
	if !c.stopped {
		c.missing()
		c.archiveFiles()
	}
	c.unexplained()
	c.repairs()
	c.deleted()
	if d := c.file.differ; d != nil {
		f := Fault{Entry: d.entry, File: filepath.Base(c.files.hashes()), Want: d.want.String(), Got: d.got.String()}
		switch {
		case d.through > d.entry:
			f.Through, f.What = d.through, fmt.Sprintf("a hash of the entries %d to %d in the file of hashes was changed", d.entry, d.through)
		case len(c.found.Faults) > 0 || d.entry > c.found.Covered:
			f.What = fmt.Sprintf("entry %d does not match the file of hashes: one of them was changed", d.entry)
		default:
			f.What = fmt.Sprintf("the hash of entry %d in the file of hashes was changed; the entry is as it was sealed", d.entry)
		}
		c.fault(f)
	}
	slices.SortStableFunc(c.found.Faults, func(a, b Fault) int { return cmp.Compare(a.Entry-1, b.Entry-1) }) // those of no entry last
}

// missing reports entries that are missing at the end.
func (c *checking) missing() {
	most, ok := c.tree.beyond()
	if n := c.file.entries; n > max(most.Size, c.tree.size) && c.file.differ == nil {
		most, ok = Claim{Size: n, By: "the file of hashes"}, true
	}
	if !ok {
		return
	}
	last := c.tree.size
	f := Fault{Entry: last + 1, Through: most.Size, File: c.below(c.torn),
		What: fmt.Sprintf("it ends at entry %d, and %s knows %d: %d missing", last, most.By, most.Size, most.Size-last)}
	if !most.Root.IsZero() {
		f.Want = most.Root.String()
	}
	c.fault(f)
}

// repairs reports the repairs that no claim from elsewhere covers.
func (c *checking) repairs() {
	for i := range c.found.Repairs {
		r := &c.found.Repairs[i]
		r.Known = r.Entry <= c.tree.vouched
		if r.Known {
			continue
		}
		c.fault(Fault{Entry: cmp.Or(r.From, r.Entry), Through: r.Through, What: fmt.Sprintf("it was damaged, and repaired in entry %d on %s: %d dropped; %s",
			r.Entry, time.UnixMilli(r.At).UTC().Format(time.DateOnly), r.Dropped, r.Reason)})
	}
}

// unexplained reports the first entry that does not name the one before it and that no repair explains.
func (c *checking) unexplained() {
	holes := slices.Collect(maps.Values(c.holes))
	if len(holes) > 0 && !c.broke {
		c.fault(slices.MinFunc(holes, func(a, b Fault) int { return cmp.Compare(a.Entry, b.Entry) }))
	}
}

// deleted reports an entry that is marked as deleted and not archived. Open refuses such a journal.
func (c *checking) deleted() {
	archived := c.found.Archived
	for _, a := range c.ends {
		archived = max(archived, a.Through)
	}
	for _, s := range c.erased {
		if s.seq > archived {
			c.fault(Fault{Entry: s.seq, File: c.below(s.file), What: fmt.Sprintf("entry %d is marked as deleted", s.seq)})
			return // one is enough
		}
	}
}

// archiveFiles compares the archive files with the facts that record them.
func (c *checking) archiveFiles() {
	for _, a := range c.ends {
		if a.Through > c.found.Archived {
			c.fault(Fault{File: filepath.Base(c.files.high()),
				What: fmt.Sprintf("the entries through %d are archived, and the high-water mark says %d", a.Through, c.found.Archived)})
		}
		name := filepath.Base(a.File)
		sum, err := archiveFile{path: filepath.Join(c.files.archive(), name)}.sum()
		if err != nil || sum.Hex() == a.Hash {
			continue // a missing file was reported by archives
		}
		c.fault(Fault{File: filepath.Join(filepath.Base(c.files.archive()), name), Want: a.Hash, Got: sum.Hex(),
			What: fmt.Sprintf("the archive file %s was changed", name)})
	}
}
