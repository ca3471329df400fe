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
	"time"

	"guild"
	"guild/internal/durable"
	"guild/internal/journal/fact"
)

// lostSubject is the subject of the empty entries that Repair puts in the place of lost ones, so that all others keep their
// sequences and no sequence is ever used for two different entries.
const lostSubject fact.Subject = "journal.lost"

const droppedAtOnce = 10_000 // sequences in one journal.repaired

// Report is the result of Archive or Repair.
type Report struct {
	Kept    uint64   // entries that stay in the journal
	Through uint64   // the last archived entry, 0 if none
	File    string   // the new archive file, "" if none
	Root    string   // of the Merkle tree over the entries through Through, in hex
	Dropped []uint64 // entries that were lost, in order

	Quarantined []fact.Subject // guards that lost entries, or may have, or lost words that they still need, sorted
	Wordless    []fact.Subject // guards whose words are lost with their key, sorted

	Aside  string // the directory with a copy of the damaged journal, "" if there was no damage
	Reason string // the damage, "" if there was none

	Renewed []Renewed // side streams that were damaged
}

// Repair rebuilds a damaged journal from the entries that are intact, after it has put a copy of all files into a directory
// below o.Dir. A journal that can be opened is left alone.
//
// An entry is kept if it is whole and was not changed, as far as the file of hashes and the high-water mark show. An empty
// entry takes the place of each lost one. Decisions under one guard depend on each other. So a guard that lost an entry keeps
// its other entries, because what they record must not be done again; and it is put into quarantine, because more may have
// been done than they record. The journal.repaired facts and the report list the dropped entries and the guards. The folds of
// o are brought up to the last kept entry, for o.Finished.
//
// Words whose key is missing are lost, and are taken for shredded from then on. A guard that is not finished is put into
// quarantine for that, too.
//
// Repair fails and changes nothing if an archive file is missing, since then no entry can be checked against the one before
// it, or if an entry has a fact of an unknown type, which a newer program wrote.
func Repair(ctx context.Context, o Options) (Report, error) {
	o = o.withDefaults()
	reason, renewed, err := diagnose(ctx, o)
	if err != nil {
		return Report{}, fmt.Errorf("repair the journal: %w", err)
	}
	if reason == "" {
		return Report{Renewed: renewed}, nil
	}
	f := files(o.Dir)
	lock, err := acquire(ctx, f.lock(), o.Wait)
	if err != nil {
		return Report{}, fmt.Errorf("repair the journal: %w", err)
	}
	report, err := f.repair(ctx, o, reason)
	if err = errors.Join(err, lock.release()); err != nil {
		return report, fmt.Errorf("repair the journal: %w", err)
	}
	return report, nil
}

// diagnose opens the journal and returns the damage that prevents it, "" if there is none, and the side streams that were
// replaced.
func diagnose(ctx context.Context, o Options) (string, []Renewed, error) {
	o.Folds, o.Appended = nil, nil
	j, err := Open(ctx, o)
	if err == nil {
		return "", j.Renewed(), j.Close()
	}
	if damage, ok := errors.AsType[*DamagedError](err); ok {
		return damage.What, nil, nil
	}
	return "", nil, err
}

func (f files) repair(ctx context.Context, o Options, reason string) (Report, error) {
	if err := f.undoSwap(); err != nil {
		return Report{}, err
	}
	h, err := f.remembered(o.HighWater)
	if err != nil {
		return Report{}, err
	}
	aside, err := f.putAside(o.Now())
	if err != nil {
		return Report{}, err
	}
	r := &rebuilding{o: o, files: f, high: h, chain: &chain{}, holes: holes{told: make(map[uint64]bool)}, locked: map[fact.Subject]bool{}, report: Report{Aside: aside, Reason: reason}}
	if r.leaves, err = f.proven(h); err != nil {
		return Report{}, err
	}
	if r.keys, err = openKeys(f.keys(), o.NoSync); err != nil {
		return Report{}, err
	}
	if err := r.findLocked(); err != nil {
		return Report{}, err
	}
	if err := r.run(ctx); err != nil {
		return r.report, err
	}
	if err := f.swap(r.high, o.HighWater); err != nil {
		return r.report, err
	}
	return r.report, r.giveUpWords()
}

// giveUpWords takes the keys that are missing for erased. What is left of them is put aside.
func (r *rebuilding) giveUpWords() error {
	if left := bytes.Join(r.keys.damaged, nil); len(left) > 0 {
		if err := durable.WriteBytes(filepath.Join(r.report.Aside, filepath.Base(r.files.keys())), left); err != nil {
			return err
		}
		if err := r.keys.rewrite(); err != nil {
			return err
		}
	}
	for _, guard := range r.report.Wordless {
		if err := r.keys.erase(guard); err != nil {
			return err
		}
	}
	return nil
}

// remembered returns the best mark that can still be read, or made from the archive files.
func (f files) remembered(outside string) (high, error) {
	id, err := f.identity()
	if _, lost := errors.AsType[*DamagedError](err); err != nil && !lost {
		return high{}, err
	}
	best := high{Journal: id}
	for _, path := range []string{f.high(), outside} {
		h, err := readHigh(path)
		if err != nil && h.Journal == "" || id != "" && h.Journal != id {
			continue
		}
		if h.Seq >= best.Seq {
			best = h
		}
	}
	if best.Journal == "" {
		best.Journal = newID()
	}
	best.Made, best.Keys = true, 0 // those that are missing are given up
	if best.Archived == 0 {
		if best.Archived, err = f.archivedThrough(); err != nil {
			return high{}, err
		}
		point, err := f.checkpoint(best.Archived)
		if err != nil {
			return high{}, err
		}
		best.Peaks = point.Peaks
	}
	return best, nil
}

// putAside copies the journal's files. It does not copy blobs, which a repair does not touch.
func (f files) putAside(now time.Time) (string, error) {
	aside := filepath.Join(f.damaged(), now.UTC().Format(asideFormat))
	if err := os.MkdirAll(f.damaged(), 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(aside, 0o700); err != nil {
		return "", err
	}
	for _, path := range f.own() {
		if err := copyTree(path, filepath.Join(aside, filepath.Base(path))); err != nil {
			return "", errors.Join(fmt.Errorf("copy the journal: %w", err), os.RemoveAll(aside))
		}
	}
	return aside, syncTree(aside)
}

// swap puts the rebuilt stream in the place of the damaged one, and makes the other files fit it. Until the damaged stream is
// removed, at the very end, undoSwap can put it back.
func (f files) swap(h high, outside string) error {
	if err := os.Rename(f.stream(), f.replaced()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(f.rebuilt(), f.stream()); err != nil {
		return err
	}
	if err := durable.SyncDir(string(f)); err != nil {
		return err
	}
	for _, derived := range []string{f.snapshots(), f.hashes()} { // they are of the old entries
		if err := os.RemoveAll(derived); err != nil {
			return err
		}
	}
	if outside != "" {
		if err := writeHigh(outside, h); err != nil {
			return err
		}
	}
	if err := f.make(h); err != nil {
		return err
	}
	return os.RemoveAll(f.replaced())
}

// undoSwap puts the damaged stream back if an earlier repair was interrupted during swap.
func (f files) undoSwap() error {
	_, err := os.Stat(f.replaced())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.RemoveAll(f.stream()); err != nil {
		return err
	}
	return os.Rename(f.replaced(), f.stream())
}

// rebuilding is the state of a repair.
type rebuilding struct {
	o      Options
	files  files
	high   high
	chain  *chain       // of the kept entries
	store  *store       // with the new stream
	found  uint64       // the last sequence found, kept or not
	leaves []guild.Hash // of the entries as they were written; none if that is not proven
	holes  holes
	report Report

	keys   *keys
	locked map[fact.Subject]bool // guards whose key is missing, which is taken for erased from now on
}

func (r *rebuilding) run(ctx context.Context) error {
	_, err := r.files.readArchives(r.high.Archived, func(s scanned) error {
		m, err := r.decode(&s)
		if err == nil {
			err = r.chain.follows(m)
		}
		if err != nil {
			return err
		}
		r.take(m)
		if m.subject == lostSubject {
			r.holes.lose(r.chain, m.seq, m.seq)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	err = r.rebuild(ctx)
	r.store.stop()
	if err != nil {
		return err
	}
	r.high.Seq, r.high.Root = r.chain.last, r.chain.root()
	return syncTree(r.files.rebuilt())
}

// findLocked finds the guards whose key is missing: it opens none of their entries. If it opens some, the others are damaged.
func (r *rebuilding) findLocked() error {
	opened := map[fact.Subject]bool{}
	look := func(s scanned) error {
		if s.seq == 0 || s.erased || !s.subject.IsSealed() {
			return nil
		}
		if e, err := fact.Decode(s.data, nil); err == nil && e.Sealed != nil {
			_, err := r.keys.open(s.subject, e.Sealed)
			opened[s.subject] = opened[s.subject] || err == nil
		}
		return nil
	}
	if _, err := r.files.readArchives(r.high.Archived, look); err != nil {
		return err
	}
	all, err := blocks(r.files.facts())
	if err == nil {
		err = scanBlocks(all, nil, look)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for guard, ok := range opened {
		r.locked[guard] = !ok
		if !ok {
			r.report.Wordless = append(r.report.Wordless, guard)
		}
	}
	slices.Sort(r.report.Wordless)
	return nil
}

// decode decodes an entry, without its private members if their key is missing.
func (r *rebuilding) decode(s *scanned) (message, error) {
	if r.locked[s.subject] {
		return s.decode(nil)
	}
	return s.decode(r.keys)
}

// take folds a kept entry.
func (r *rebuilding) take(m message) {
	r.holes.keep(r.chain, m)
	r.chain.add(m)
	for _, f := range r.o.Folds {
		f.Apply(m.entry)
	}
}

// start starts a server with new streams. The side streams are copied as they are.
func (r *rebuilding) start(ctx context.Context) error {
	if err := os.RemoveAll(r.files.rebuilt()); err != nil {
		return err
	}
	streams, err := filepath.Rel(r.files.stream(), filepath.Dir(r.files.facts()))
	if err != nil {
		return err
	}
	for _, cfg := range sideStreams() {
		name := filepath.Join(streams, cfg.Name)
		if err := copyTree(filepath.Join(r.files.stream(), name), filepath.Join(r.files.rebuilt(), name)); err != nil {
			return err
		}
	}
	o := r.o
	o.NoSync = true // syncTree does it at the end
	if r.store, err = startStore(ctx, o, r.files.rebuilt()); err != nil {
		return err
	}
	if err := r.store.bind(ctx, false, r.high.Archived+1); err != nil {
		r.store.stop()
		return err
	}
	return nil
}

// rebuild appends the kept entries of the stream, an empty one for each lost one, and a record of the repair.
func (r *rebuilding) rebuild(ctx context.Context) error {
	all, err := blocks(r.files.facts())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := scanBlocks(all, nil, func(s scanned) error { return r.salvage(ctx, s) }); err != nil {
		return err
	}
	if err := r.fill(ctx, max(r.found, r.high.Seq)); err != nil {
		return err
	}
	return r.recordRepair(ctx)
}

// salvage keeps an entry that was found, if it can be kept. Otherwise it keeps the traces of it for holes; fill puts an empty
// entry in its place when the next entry is found, or at the end.
func (r *rebuilding) salvage(ctx context.Context, s scanned) error {
	if s.seq == 0 {
		r.holes.sighted = append(r.holes.sighted, sightings(s.data)...)
		return nil
	}
	if s.erased || s.seq <= r.chain.last {
		return nil
	}
	r.found = s.seq
	if err := r.fill(ctx, s.seq-1); err != nil {
		return err
	}
	m, err := r.decode(&s)
	if errors.Is(err, fact.ErrUnknown) {
		return err
	}
	if err == nil && m.subject == lostSubject {
		return r.stillLost(ctx, m)
	}
	if err != nil || r.chain.follows(m) != nil || !r.genuine(m) {
		r.holes.sighted = append(r.holes.sighted, sighting{seq: s.seq, subject: s.subject})
		return nil
	}
	if err := r.keep(ctx, m); err != nil {
		return err
	}
	r.report.Kept++
	return nil
}

// stillLost keeps the empty entry of an earlier repair. If another entry is lost before it, it is written anew, since it must
// name a new one before it.
func (r *rebuilding) stillLost(ctx context.Context, m message) error {
	r.holes.lose(r.chain, m.seq, m.seq)
	if r.chain.follows(m) != nil {
		return r.write(ctx, lostSubject)
	}
	return r.keep(ctx, m)
}

// genuine reports whether an entry is the one that was written, if that is known. If not, it is taken to be.
func (r *rebuilding) genuine(m message) bool {
	return m.seq > uint64(len(r.leaves)) || r.leaves[m.seq-1] == leafOf(m.subject, m.data)
}

// fill puts an empty entry in the place of each lost one through a sequence.
func (r *rebuilding) fill(ctx context.Context, through uint64) error {
	if r.chain.last < through {
		r.holes.lose(r.chain, r.chain.last+1, through)
	}
	r.holes.sighted = nil
	for r.chain.last < through {
		r.report.Dropped = append(r.report.Dropped, r.chain.last+1)
		if err := r.write(ctx, lostSubject); err != nil {
			return err
		}
	}
	return nil
}

// recordRepair appends journal.repaired facts.
func (r *rebuilding) recordRepair(ctx context.Context) error {
	dropped, guards := r.report.Dropped, r.holes.guards(r.chain, r.o.Finished)
	for _, guard := range r.report.Wordless {
		if !slices.Contains(guards, guard) && (r.o.Finished == nil || !r.o.Finished(guard)) {
			guards = append(guards, guard)
		}
	}
	slices.Sort(guards)
	for _, guard := range guards {
		if !own(guard) {
			r.report.Quarantined = append(r.report.Quarantined, guard)
		}
	}
	for first := true; first || len(dropped) > 0 || len(guards) > 0; first = false {
		n, g := min(len(dropped), droppedAtOnce), min(len(guards), namedAtOnce)
		err := r.write(ctx, fact.JournalSubject, fact.JournalRepaired{
			Kept: r.report.Kept, Dropped: dropped[:n], Reason: r.report.Reason, Quarantined: guards[:g],
		})
		if err != nil {
			return err
		}
		dropped, guards = dropped[n:], guards[g:]
	}
	return nil
}

// write appends a new entry.
func (r *rebuilding) write(ctx context.Context, guard fact.Subject, facts ...fact.Fact) error {
	at := r.chain.at
	if guard == fact.JournalSubject {
		at = max(at, r.o.Now().UnixMilli())
	}
	m := message{seq: r.chain.last + 1, subject: guard, entry: fact.Entry{
		V: fact.Version, At: at, By: r.o.Node, Cause: "repair", Prev: r.chain.tips.Of(guard).prev(), Facts: facts,
	}}
	if err := m.encode(nil); err != nil {
		return err
	}
	m.entry.Seq = m.seq
	return r.keep(ctx, m)
}

// keep appends the next entry to the new stream.
func (r *rebuilding) keep(ctx context.Context, m message) error {
	expected := r.chain.tips.Of(m.subject).seq
	if expected <= r.high.Archived {
		expected = 0
	}
	seq, err := r.store.publish(ctx, m, expected, r.o.PublishTimeout)
	if err != nil {
		return fmt.Errorf("entry %d: %w", m.seq, err)
	}
	if seq != m.seq {
		return fmt.Errorf("entry %d became entry %d", m.seq, seq)
	}
	r.take(m)
	return nil
}
