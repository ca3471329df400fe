package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"guild"
	"guild/internal/durable"
	"guild/internal/journal/fact"
)

// lostSubject is where Repair puts an entry without facts for each one that is lost, so that all others keep
// their sequences and no sequence is ever given to two different entries.
const lostSubject fact.Subject = "journal.lost"

// droppedAtOnce is how many sequences one journal.repaired fact lists.
const droppedAtOnce = 10_000

// Report says what Archive or Repair did.
type Report struct {
	Kept    uint64   // entries kept in the journal
	Through uint64   // the last entry archived, 0 if none
	File    string   // the archive file written, "" if none
	Root    string   // hash of the Merkle tree over all entries through Through, bare hex
	Dropped []uint64 // entries that could not be kept, in order

	Quarantined []fact.Subject // guards that lost entries, or may have, sorted

	Aside  string // where the copy of the damaged journal is, "" if nothing was wrong
	Reason string // what was wrong, "" if nothing was

	Renewed []Renewed // streams beside the facts that were damaged
}

// Repair rebuilds a damaged journal from what is intact, after a full copy of it was put aside in a
// directory below o.Dir. A journal that opens is left alone.
//
// An entry is kept if it is whole and is the one that was written, as far as the file of hashes and the high-water mark
// together can tell. An entry that is lost leaves an empty one in its place. A guard is the boundary within which
// decisions depend on each other. So one that lost an entry keeps all others, because what they say was done must not be
// done again, and is put into quarantine, because they may not say all: nothing is decided under it until Release. What
// is dropped and what is in quarantine is listed in journal.repaired facts and in the report. The folds of o end with
// what is kept; o.Finished asks them.
//
// Without the archive files the chains cannot be followed, and without knowing a type of fact nothing can be
// said about its entry: then Repair fails and changes nothing.
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

// diagnose says what keeps the journal from being opened, "" if nothing does, and what opening it began anew.
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
	r := &rebuilding{o: o, files: f, high: h, chain: &chain{}, holes: holes{told: make(map[uint64]bool)}, report: Report{Aside: aside, Reason: reason}}
	if r.leaves, err = f.proven(h); err != nil {
		return Report{}, err
	}
	if err := r.run(ctx); err != nil {
		return r.report, err
	}
	return r.report, f.swap(r.high, o.HighWater)
}

// remembered is what is still known of how far the journal was.
func (f files) remembered(outside string) (high, error) {
	id, err := f.identity()
	if _, lost := errors.AsType[*DamagedError](err); err != nil && !lost {
		return high{}, err
	}
	best := high{Journal: id}
	for _, path := range []string{f.high(), outside} {
		h, err := readHigh(path)
		if err != nil || id != "" && h.Journal != id {
			continue
		}
		if h.Seq >= best.Seq {
			best = h
		}
	}
	if best.Journal == "" {
		best.Journal = newID()
	}
	best.Made = true
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

// putAside copies the journal's files. The blobs are not touched by a repair and not copied.
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

// swap puts the rebuilt stream in the place of the damaged one, and makes the other files fit it.
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
	for _, derived := range []string{f.snapshots(), f.hashes()} { // of the entries as they were
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

// undoSwap puts the damaged stream back if a repair was interrupted before it was done with it.
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

// rebuilding is a repair at work.
type rebuilding struct {
	o      Options
	files  files
	high   high
	chain  *chain       // of what is kept
	store  *store       // of the new stream
	found  uint64       // the last sequence seen, kept or not
	leaves []guild.Hash // of the entries as they were written; none if that is not proven
	holes  holes
	report Report
}

func (r *rebuilding) run(ctx context.Context) error {
	if _, err := r.files.readArchives(r.high.Archived, r.keepArchived); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	err := r.rebuild(ctx)
	r.store.stop()
	if err != nil {
		return err
	}
	r.high.Seq, r.high.Root = r.chain.last, r.chain.root()
	return syncTree(r.files.rebuilt())
}

func (r *rebuilding) keepArchived(s scanned) error {
	m, err := s.decode()
	if err != nil {
		return err
	}
	if err := r.chain.follows(m); err != nil {
		return err
	}
	r.take(m)
	if m.subject == lostSubject {
		r.holes.lose(r.chain, m.seq, m.seq)
	}
	return nil
}

// take adds an entry to what is kept.
func (r *rebuilding) take(m message) {
	r.holes.keep(r.chain, m)
	r.chain.add(m)
	for _, f := range r.o.Folds {
		f.Apply(m.entry)
	}
}

// start makes the new streams. Those beside the facts are taken over as they are.
func (r *rebuilding) start(ctx context.Context) error {
	if err := os.RemoveAll(r.files.rebuilt()); err != nil {
		return err
	}
	streams, err := filepath.Rel(r.files.stream(), filepath.Dir(r.files.facts()))
	if err != nil {
		return err
	}
	for _, cfg := range besides() {
		name := filepath.Join(streams, cfg.Name)
		if err := copyTree(filepath.Join(r.files.stream(), name), filepath.Join(r.files.rebuilt(), name)); err != nil {
			return err
		}
	}
	o := r.o
	o.NoSync = true // synced as a whole when it is done
	if r.store, err = startStore(ctx, o, r.files.rebuilt()); err != nil {
		return err
	}
	if err := r.store.bind(ctx, false, r.high.Archived+1); err != nil {
		r.store.stop()
		return err
	}
	return nil
}

// rebuild appends what is kept, and what stands for what is lost.
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
	return r.confess(ctx)
}

// salvage keeps what was found if it can be kept. What cannot leaves a hole, which is filled when the next entry is kept,
// or at the end.
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
	m, err := s.decode()
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

// stillLost keeps what stands for an entry that an earlier repair has lost, or makes it anew where another one comes to
// stand before it.
func (r *rebuilding) stillLost(ctx context.Context, m message) error {
	r.holes.lose(r.chain, m.seq, m.seq)
	if r.chain.follows(m) != nil {
		return r.write(ctx, lostSubject)
	}
	return r.keep(ctx, m)
}

// genuine reports whether an entry is the one that was written, where that is known.
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

// confess records what was done.
func (r *rebuilding) confess(ctx context.Context) error {
	dropped, guards := r.report.Dropped, r.holes.guards(r.chain, r.o.Finished)
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

// write appends an entry of our own.
func (r *rebuilding) write(ctx context.Context, guard fact.Subject, facts ...fact.Fact) error {
	at := r.chain.at
	if guard == fact.JournalSubject {
		at = max(at, r.o.Now().UnixMilli())
	}
	m := message{seq: r.chain.last + 1, subject: guard, entry: fact.Entry{
		V: fact.Version, At: at, By: r.o.Node, Cause: "repair", Prev: r.chain.tips.Of(guard).prev(), Facts: facts,
	}}
	if err := m.encode(); err != nil {
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
