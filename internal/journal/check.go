package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/internal/journal/fact"
)

// CheckOptions are the options of Check.
type CheckOptions struct {
	Dir       string
	HighWater string  // as in Options
	Claims    []Claim // claims from elsewhere about the tree

	// Of is the subject of the seals: entries that claim what the tree was before them. Claim returns the claim of one, or
	// why it is not valid.
	Of    fact.Subject
	Claim func(fact.Entry) (Claim, error)

	// Follow is called with each entry, in order. It has facts only if its subject is Of. root returns the root of the tree
	// through the entry. May be nil.
	Follow func(e fact.Entry, root func() guild.Hash)

	Progress func(entries uint64) // called every 50,000 entries; may be nil
}

// Claim is a statement about a journal: the tree over its first Size entries has this root.
type Claim struct {
	Size uint64
	Root guild.Hash
	By   string // the source, for a person
}

// Checked is the result of Check.
type Checked struct {
	Journal  string     `json:"journal"`  // its id, "" if it cannot be read
	Entries  uint64     `json:"entries"`  // read, from the first on
	Archived uint64     `json:"archived"` // of these, in archive files
	Root     guild.Hash `json:"root,omitzero"`
	Claims   int        `json:"claims"`  // from elsewhere and of seals, that hold
	Covered  uint64     `json:"covered"` // entries that these claims cover
	Repairs  []Repaired `json:"repairs"` // of the journal so far, in order
	Faults   []Fault    `json:"faults"`  // empty if the journal is unchanged
}

// Fault is a difference between the journal and what was written.
type Fault struct {
	Entry   uint64 `json:"entry,omitempty"`   // the first entry that may differ; 0 if the fault is not about an entry
	Through uint64 `json:"through,omitempty"` // the last entry that may differ, if that is another
	File    string `json:"file,omitempty"`    // relative to the journal's directory, if known
	What    string `json:"what"`              // for a person
	Want    string `json:"want,omitempty"`    // a hash
	Got     string `json:"got,omitempty"`     // a hash
}

// Repaired is a repair that the journal has recorded. The entries that it dropped cannot be checked any more, and somebody who
// removed entries could record a repair to hide it. So a repair counts as a Fault until a claim from elsewhere covers it: then
// its owner knows of it. Entries after it are checked with the claims that were made after it.
type Repaired struct {
	Entry   uint64 `json:"entry"`             // with the journal.repaired
	At      int64  `json:"at"`                // Unix ms
	Dropped int    `json:"dropped"`           // number of entries
	From    uint64 `json:"from,omitempty"`    // the first of these
	Through uint64 `json:"through,omitempty"` // the last of these
	Reason  string `json:"reason"`
	Known   bool   `json:"known"` // a claim from elsewhere covers it
}

// Check reads all files of a journal and writes nothing. A process may have the journal open meanwhile. Every entry must be
// whole, follow the one before it, and name the last one under its guard. The tree over the entries must agree with the
// high-water marks, the archive files, the file of hashes, the seals and the given claims. An error means that the check was
// not possible; damage is a Fault.
func Check(ctx context.Context, o CheckOptions) (Checked, error) {
	for {
		c := &checking{ctx: ctx, o: o, files: files(o.Dir), found: Checked{Repairs: []Repaired{}, Faults: []Fault{}},
			tips: map[fact.Subject]tip{}, holes: map[fact.Subject]Fault{}}
		found, err := c.run()
		now, _ := readHigh(c.files.high())
		if now.Archived != c.began && (errors.Is(err, fs.ErrNotExist) || len(found.Faults) > 0) {
			continue // entries were moved to an archive while they were read
		}
		if err != nil {
			return Checked{}, fmt.Errorf("check the journal: %w", err)
		}
		return found, nil
	}
}

// checking is the state of a check.
type checking struct {
	ctx   context.Context
	o     CheckOptions
	files files
	mark  high   // the furthest of the marks
	began uint64 // the last archived entry when the check began, by the mark in the directory
	keys  int    // the number of keys, by the same mark
	found Checked

	tips  map[fact.Subject]tip   // the last entry under each guard
	broke bool                   // an entry did not name the one before it, and no later repair can explain that
	holes map[fact.Subject]Fault // the first such entry of each guard that a later repair may explain
	torn  string                 // the file whose end cannot be read, "" if none
	tree  claims
	file  comparison // with the file of hashes

	unkept  int  // index of the fault about the claim that made tree.broken true
	stopped bool // before the end, after a fault
	ends    []fact.JournalArchived
	erased  []scanned // marks of deleted entries
}

func (c *checking) run() (Checked, error) {
	if err := c.files.shape(c.o.HighWater); err != nil {
		return Checked{}, err
	}
	if err := c.identify(); err != nil {
		return Checked{}, err
	}
	for _, claim := range c.o.Claims {
		c.tree.expect(claim, true)
	}
	err := c.file.open(c.files.hashes())
	if err != nil {
		return Checked{}, err
	}
	defer c.file.close()
	if err := c.read(); err != nil {
		return Checked{}, err
	}
	c.found.Entries, c.found.Root = c.tree.size, rootOf(c.tree.peaks)
	c.found.Claims, c.found.Covered = c.tree.hold, c.tree.covered
	c.conclude()
	return c.found, nil
}

func (c *checking) fault(f Fault) { c.found.Faults = append(c.found.Faults, f) }

// identify reads the id of the journal and the high-water marks.
func (c *checking) identify() error {
	id, err := c.files.identity()
	if damage, ok := errors.AsType[*DamagedError](err); ok {
		c.fault(Fault{File: filepath.Base(c.files.marker()), What: damage.What})
	} else if errors.Is(err, ErrNotInitialised) && c.remembered() {
		c.fault(Fault{File: filepath.Base(c.files.marker()), What: "there is nothing left of it here"})
	} else if err != nil {
		return err
	}
	c.found.Journal = id
	defer c.checkKeys()
	for _, path := range []string{c.files.high(), c.o.HighWater} {
		if path == "" {
			continue
		}
		h, err := readHigh(path)
		if path == c.files.high() {
			c.began, c.keys = h.Archived, h.Keys
		}
		damage, unreadable := errors.AsType[*DamagedError](err)
		own := path == c.files.high()
		switch {
		case errors.Is(err, fs.ErrNotExist) && own:
			c.fault(Fault{File: filepath.Base(path), What: "the high-water mark is gone"})
		case errors.Is(err, fs.ErrNotExist):
		case unreadable:
			c.fault(Fault{File: filepath.Base(path), What: damage.What})
		case err != nil:
			return err
		case id != "" && h.Journal != id:
			c.fault(Fault{File: filepath.Base(path), What: fmt.Sprintf("the high-water mark %s belongs to another journal", path)})
		default:
			c.tree.expect(Claim{h.Seq, h.Root, "the high-water mark " + path}, false)
			c.tree.expect(Claim{h.Archived, rootOf(h.Peaks), "the high-water mark " + path}, false)
			if h.Archived >= c.mark.Archived {
				c.mark.Archived = h.Archived
			}
			c.mark.Seq, c.mark.Made = max(c.mark.Seq, h.Seq), c.mark.Made || h.Made
		}
	}
	return nil
}

// remembered reports whether there is evidence outside the directory that there was a journal in it.
func (c *checking) remembered() bool {
	_, err := os.Stat(c.o.HighWater)
	return len(c.o.Claims) > 0 || err == nil
}

// errStop ends the reading after a fault that leaves nothing to compare the following entries with.
var errStop = errors.New("stop")

// read reads the archive files and the stream.
func (c *checking) read() error {
	err := c.archives()
	if err == nil {
		err = c.stream()
	}
	if errors.Is(err, errStop) {
		c.stopped = true
		return c.ctx.Err()
	}
	return err
}

// archives reads the archive files of the entries that are archived according to a mark. If no mark can be read, it reads the
// files that are there.
func (c *checking) archives() error {
	through := c.mark.Archived
	there, err := c.files.archivedThrough()
	if err != nil {
		return err
	}
	if len(c.found.Faults) > 0 && through == 0 {
		through = there
	}
	c.found.Archived = through
	var point Checkpoint
	for a, err := range c.files.archivesThrough(through) {
		if err == nil {
			point, err = c.archive(a, point)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, errStop) || !wrong(err) {
			return err
		}
		f := Fault{Entry: c.tree.size + 1, File: c.below(a.path), What: what(err)}
		if a.path == "" {
			f.Through, f.What = through, fmt.Sprintf("%s: %d missing", f.What, through-c.tree.size)
		}
		c.fault(f)
		return errStop
	}
	return nil
}

func (c *checking) archive(a archiveFile, before Checkpoint) (Checkpoint, error) {
	point, err := a.read(before, func(s scanned) error {
		if err := withHead(&s); err != nil {
			return damaged("%v", err)
		}
		s.file = a.path
		return c.take(s)
	})
	if err != nil {
		return Checkpoint{}, err
	}
	if c.found.Journal != "" && point.Journal != c.found.Journal {
		return Checkpoint{}, damaged("it is of another journal")
	}
	return point, nil
}

// wrong reports whether an error is about the content of a file, and not about access to it.
func wrong(err error) bool {
	_, damaged := errors.AsType[*DamagedError](err)
	_, cannot := errors.AsType[*fs.PathError](err)
	return damaged || !cannot
}

func what(err error) string {
	if damage, ok := errors.AsType[*DamagedError](err); ok {
		return damage.What
	}
	return err.Error()
}

// below returns a path relative to the journal's directory, for a Fault.
func (c *checking) below(path string) string {
	if rel, err := filepath.Rel(c.o.Dir, path); err == nil && path != "" {
		return rel
	}
	return ""
}

// stream reads the entries in the stream.
func (c *checking) stream() error {
	if err := c.files.complete(); err != nil && c.mark.Made {
		c.fault(Fault{File: c.below(c.files.facts()), What: what(err)})
	}
	all, err := blocks(c.files.facts())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // missing reports it
	}
	if err != nil {
		return err
	}
	return scanEntries(all, c.tree.size, withHead, c.place)
}

// wants reports whether the entries of a subject are decoded. All others are only hashed.
func (c *checking) wants(s fact.Subject) bool {
	return s == fact.JournalSubject || s == c.o.Of && c.o.Claim != nil
}

// place takes the next entry of the stream, or reports the fault if something else was found.
func (c *checking) place(s scanned) error {
	last := c.tree.size
	f := Fault{Entry: last + 1}
	switch s.place {
	case inOrder:
		return c.take(s)
	case torn:
		c.torn = s.file
		return nil
	case deleted:
		if s.seq > c.found.Archived {
			s.data = nil // or the whole block would stay in memory
			c.erased = append(c.erased, s)
		}
		return nil
	case unreadable:
		f.What = fmt.Sprintf("what follows entry %d cannot be read", last)
	case repeated:
		if s.seq <= c.found.Archived {
			return nil // it is archived and is about to be removed
		}
		f.Entry, f.What = s.seq, fmt.Sprintf("entry %d is repeated after entry %d", s.seq, last)
	case afterGap:
		f.Through, f.What = s.seq-1, fmt.Sprintf("entry %d is followed by entry %d: %d missing", last, s.seq, s.seq-last-1)
	}
	f.File = c.below(s.file)
	c.fault(f)
	return errStop
}

// checkKeys checks that no key is missing, by the number in the high-water mark that was read before.
func (c *checking) checkKeys() {
	k, err := openKeys(c.files.keys(), true)
	if err == nil {
		err = k.check(c.keys)
	}
	what := ""
	if damage, ok := errors.AsType[*DamagedError](err); ok {
		what = damage.What
	} else if err != nil {
		what = err.Error()
	}
	if what != "" {
		c.fault(Fault{File: filepath.Base(c.files.keys()), What: what})
	}
}

// take takes the next entry.
func (c *checking) take(s scanned) error {
	c.follow(s)
	c.tree.add(s.leaf, c.file.next)
	c.hear(s)
	for _, broken := range c.tree.settle() {
		c.broken(broken)
	}
	if c.o.Progress != nil && s.seq%progressEvery == 0 {
		c.o.Progress(s.seq)
	}
	return c.ctx.Err()
}

const progressEvery = 50_000 // entries

// follow checks that an entry names the last one under its guard. If an entry was lost in between, a later repair may name
// the guard and so explain the hole; until then it is kept in holes.
func (c *checking) follow(s scanned) {
	before := c.tips[s.subject]
	c.tips[s.subject] = tip{seq: s.seq, hash: s.hash}
	if s.prev == before.prev() || c.broke {
		return
	}
	f := Fault{Entry: s.seq, File: c.below(s.file), Want: before.prev(), Got: s.prev,
		What: fmt.Sprintf("entry %d of %.80q does not name the one before it: one of them was changed", s.seq, s.subject)}
	if c.tips[lostSubject].seq <= before.seq {
		c.broke = true
		c.fault(f)
	} else if _, known := c.holes[s.subject]; !known {
		c.holes[s.subject] = f
	}
}

// hear reads what an entry says about the entries before it: a seal, an archive, a repair.
func (c *checking) hear(s scanned) {
	m := message{entry: fact.Entry{Seq: s.seq, Subject: s.subject, At: s.at}}
	if c.wants(s.subject) {
		var err error
		if m, err = s.decode(nil); err != nil {
			c.fault(Fault{Entry: s.seq, File: c.below(s.file), What: err.Error()})
			return
		}
	}
	if c.o.Follow != nil {
		c.o.Follow(m.entry, func() guild.Hash { return rootOf(c.tree.peaks) })
	}
	if s.subject == fact.JournalSubject {
		for _, f := range m.entry.Facts {
			switch f := f.(type) {
			case fact.JournalArchived:
				c.ends = append(c.ends, f)
			case fact.JournalRepaired:
				c.repaired(s.seq, m.entry.At, f)
			}
		}
		return
	}
	if !c.wants(s.subject) {
		return
	}
	claim, err := c.o.Claim(m.entry)
	switch {
	case err != nil:
		c.fault(Fault{Entry: s.seq, File: c.below(s.file), What: fmt.Sprintf("entry %d: %v", s.seq, err)})
	case claim.Size > 0 && !c.tree.holds(claim):
		c.broken(claim)
	}
}

// broken reports a claim that does not hold: of the entries that it covers, one after the last claim that holds differs.
func (c *checking) broken(claim Claim) {
	if c.tree.broken {
		return // the later claims do not hold for the same reason
	}
	c.tree.broken = true
	from := c.tree.covered + 1
	if from > claim.Size { // another claim about the same entries holds
		from = 1
	}
	f := Fault{
		Entry: from, Through: claim.Size, Want: claim.Root.String(),
		What: fmt.Sprintf("the entries through %d are not those of %s", claim.Size, claim.By),
	}
	if got, ok := c.tree.rootAt(claim.Size); ok {
		f.Got = got.String()
	}
	c.unkept = len(c.found.Faults)
	c.fault(c.locate(claim, f))
}

// repaired notes a repair. It explains the holes of the guards that it names, and a claim that does not hold if that covers
// an entry that the repair dropped. Later claims are checked again.
func (c *checking) repaired(entry uint64, at int64, f fact.JournalRepaired) {
	r := Repaired{Entry: entry, At: at, Dropped: len(f.Dropped), Reason: f.Reason}
	if r.Dropped > 0 {
		r.From, r.Through = slices.Min(f.Dropped), slices.Max(f.Dropped)
	}
	c.found.Repairs = append(c.found.Repairs, r)
	for _, guard := range f.Quarantined {
		delete(c.holes, guard)
	}
	if !c.tree.broken {
		return
	}
	c.tree.broken = false
	unkept := c.found.Faults[c.unkept]
	if slices.ContainsFunc(f.Dropped, func(seq uint64) bool { return unkept.Entry <= seq && seq <= max(unkept.Entry, unkept.Through) }) {
		c.found.Faults = slices.Delete(c.found.Faults, c.unkept, c.unkept+1)
	}
}

// withHead is the digest of a check. It computes all that ties an entry to the others.
func withHead(s *scanned) (err error) {
	if s.prev, s.at, err = headOf(s.data); err != nil {
		return fmt.Errorf("entry %d cannot be read: %w", s.seq, err)
	}
	s.hash = guild.Sum(s.data)
	return withLeaf(s)
}

// headOf reads the Prev and the time of an encoded entry, which come before its facts. The facts are not decoded: a check reads
// every entry, and most of its time would go there.
func headOf(data []byte) (prev string, at int64, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	if _, err := d.ReadToken(); err != nil {
		return "", 0, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return "", 0, err
		}
		field := name.String() // before it is read on
		if field == "facts" {
			return prev, at, nil
		}
		value, err := d.ReadValue()
		switch {
		case err != nil:
		case field == "prev":
			var text []byte
			text, err = jsontext.AppendUnquote(nil, value)
			prev = string(text)
		case field == "at":
			at, err = strconv.ParseInt(string(value), 10, 64)
		}
		if err != nil {
			return "", 0, err
		}
	}
	return "", 0, errors.New("not an entry")
}
