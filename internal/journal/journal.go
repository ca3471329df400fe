// Package journal owns the one append-only record of what was decided. A step decides in Do, under a guard that
// names what must not change meanwhile; the facts of one decision are one entry, kept or lost together. Every
// state is a fold of the entries, and is up to date when Do returns.
//
// The entries are the messages of a JetStream stream, served from inside the process. Four streams share the
// server: FACTS (what we decided, never deleted from, synced to disk), SEEN (what strangers wrote), REJECTED
// (what was not let in) and ACTIVITY (the flood of events); the last three may lose their newest messages in a
// crash.
//
// A directory is opened with suspicion: if anything that was acknowledged is missing or changed, Open refuses
// and changes nothing. Repair keeps a copy of everything and rebuilds what is intact; nothing is decided under a guard
// that lost entries until Release. The other streams never keep the facts from being read: one that is damaged is moved
// aside and begun anew where Options.Renew says so, and read as far as it goes where not.
//
// The package knows how entries are kept and nothing of what they mean. It never corrects a decision, never
// drops an entry, and publishes nothing.
package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Options says how a journal is opened.
type Options struct {
	Dir   string           // made by Init
	Node  string           // who decides, as Entry.By
	Now   func() time.Time // stamps entries
	Folds []fold.Fold      // empty states, kept up to the last entry

	HighWater      string           // a file outside Dir that also remembers how far the journal got; none if empty
	Wait           time.Duration    // for another process to give the directory free; 0.2 s if zero
	NoSync         bool             // no fsync for each entry: only for tests and measurements
	SnapshotEvery  time.Duration    // 5 minutes if zero
	Floor          int64            // free space, in bytes, under which Free refuses; 64 MiB if zero
	PublishTimeout time.Duration    // after which one append counts as unknown; 5 s if zero
	Appended       func(fact.Entry) // called with each new entry, in order, once it is folded; must not append

	// Finished reports by the folds, for Repair, that nothing follows under a guard that matters; never if nil.
	Finished func(guard fact.Subject) bool

	// Renew is called with the name of a damaged stream beside the facts, before that is moved away and begun anew. If it is
	// nil, nothing is moved: what can be read of the stream is read.
	Renew func(stream string) error

	Log *slog.Logger // slog.Default() if nil
}

func (o Options) withDefaults() Options {
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = 5 * time.Minute
	}
	if o.Floor == 0 {
		o.Floor = 64 << 20
	}
	if o.PublishTimeout == 0 {
		o.PublishTimeout = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Journal is an open journal. Its methods may be called from several goroutines.
type Journal struct {
	o     Options
	files files
	id    string // of this journal, from its marker
	lock  *lock
	space space
	snaps *fold.Store
	state *state
	mark  *mark
	guard guards

	renewed []Renewed

	exchange chan struct{}         // holds a value while the server is exchanged: a lock to wait for in a bubble
	store    atomic.Pointer[store] // nil if it could not be started again
	cutting  sync.RWMutex          // held while an archived beginning is cut off

	snapshotting sync.Mutex
	snapped      uint64 // the entry of the last snapshots
	archiving    sync.Mutex
	hashing      sync.Mutex // held while the file of hashes is used

	closing context.Context // ends when Close begins
	close   context.CancelFunc
	running sync.WaitGroup
	closed  func() error // closes once
}

// Open opens the journal in o.Dir, brings all folds up to its last entry, and keeps other processes out until
// Close. ctx bounds the opening only. It fails with ErrNotInitialised, ErrLocked, or a *DamagedError.
func Open(ctx context.Context, o Options) (*Journal, error) {
	o = o.withDefaults()
	files := files(o.Dir)
	id, err := files.identity()
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	lock, err := acquire(ctx, files.lock(), o.Wait)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	j := &Journal{o: o, files: files, id: id, lock: lock, space: newSpace(files, o.Floor), exchange: make(chan struct{}, 1)}
	j.closing, j.close = context.WithCancel(context.WithoutCancel(ctx))
	j.closed = sync.OnceValue(j.shutDown)
	if err := j.open(ctx); err != nil {
		j.close()
		return nil, fmt.Errorf("open the journal: %w", errors.Join(err, j.abandon()))
	}
	return j, nil
}

// open does what Open does once the directory is ours.
func (j *Journal) open(ctx context.Context) (err error) {
	if err := j.files.shape(j.o.HighWater); err != nil {
		return err
	}
	if j.mark, err = openMark(j.files, j.o.HighWater, j.id, j.o.Log); err != nil {
		return err
	}
	if j.snaps, err = fold.OpenStore(j.files.snapshots()); err != nil {
		return err
	}
	chains := slices.Collect(j.snaps.Load(chainName, chainVersion))
	roots, err := examine(j.files, j.mark.get(), j.mark.found, sequences(chains)...)
	if err != nil {
		return err
	}
	if err := j.space.reserve(); err != nil {
		return err
	}
	if err := j.renew(); err != nil {
		return err
	}
	s, err := j.serve(ctx)
	if err != nil {
		return err
	}
	j.store.Store(s)
	j.state = newState(j.o.Folds, j.o.Appended, j.noteAppended)
	if err := j.recover(ctx, s, chains, roots); err != nil {
		return err
	}
	if err := j.mark.move(j.state.position()); err != nil {
		return err
	}
	if err := j.finishArchive(ctx); err != nil {
		return err
	}
	j.running.Go(j.snapshotRegularly)
	return nil
}

// serve starts the server and finds its streams, or makes them if this is the first time.
func (j *Journal) serve(ctx context.Context) (*store, error) {
	h := j.mark.get()
	if !h.Made { // what there may be of the stream is from a start that died, and nothing is in it
		if err := os.RemoveAll(j.files.facts()); err != nil {
			return nil, err
		}
	}
	s, err := startStore(ctx, j.o, j.files.stream())
	if err != nil {
		return nil, err
	}
	err = s.bind(ctx, h.Made, h.Archived+1)
	if err == nil && !h.Made {
		err = j.mark.set(func(h *high) { h.Made = true })
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// abandon gives back what a failed Open took.
func (j *Journal) abandon() error {
	if j.mark != nil {
		j.mark.stop()
	}
	if s := j.store.Load(); s != nil {
		s.stop()
	}
	return j.lock.release()
}

// Close writes snapshots, stops the server and gives the directory back. Entries that were acknowledged are on
// disk before Close begins; an error means only that the next Open takes longer.
func (j *Journal) Close() error { return j.closed() }

func (j *Journal) shutDown() error {
	j.close()
	j.running.Wait()
	j.exchange <- struct{}{}
	defer func() { <-j.exchange }()
	err := j.takeSnapshots()
	j.state.stop(ErrClosed)
	j.mark.stop()
	if markErr := j.mark.move(j.state.position()); markErr != nil {
		err = errors.Join(err, fmt.Errorf("close the journal: %w", markErr))
	}
	if s := j.store.Load(); s != nil {
		s.stop()
	}
	return errors.Join(err, j.lock.release())
}

// Last is the sequence of the last entry folded, 0 if there is none.
func (j *Journal) Last() uint64 { return j.state.last() }

// Changed returns a channel that holds one pulse whenever entries were folded since it was last received from.
// stop releases it.
func (j *Journal) Changed() (ch <-chan struct{}, stop func()) { return j.state.subscribe() }

// Free is nil, or ErrFull when less than Options.Floor is free: new work is to be refused then, while what is
// running is still recorded.
func (j *Journal) Free() error { return j.space.free() }

// noteAppended arranges for the mark to follow what was appended.
func (j *Journal) noteAppended() { j.mark.soon(j.state.position) }

// files knows what lies where in a journal's directory.
type files string

func (f files) marker() string    { return filepath.Join(string(f), "journal.json") }
func (f files) lock() string      { return filepath.Join(string(f), "lock") }
func (f files) high() string      { return filepath.Join(string(f), "high") }
func (f files) reserved() string  { return filepath.Join(string(f), "reserve") }
func (f files) stream() string    { return filepath.Join(string(f), "stream") }
func (f files) snapshots() string { return filepath.Join(string(f), "snapshot") }
func (f files) archive() string   { return filepath.Join(string(f), "archive") }
func (f files) hashes() string    { return filepath.Join(string(f), "hashes") }
func (f files) damaged() string   { return filepath.Join(string(f), "damaged") }

// Repair builds the new stream beside the old one, and then lets them change places.
func (f files) rebuilt() string  { return f.stream() + ".new" }
func (f files) replaced() string { return f.stream() + ".old" }

// own are the files that make the journal.
func (f files) own() []string {
	return []string{f.marker(), f.high(), f.stream(), f.snapshots(), f.archive(), f.hashes()}
}

// facts is where the server keeps the FACTS stream.
func (f files) facts() string { return f.streamDir(factsStream) }

// streamDir is where the server keeps a stream.
func (f files) streamDir(name string) string {
	return filepath.Join(f.stream(), "jetstream", "$G", "streams", name)
}
