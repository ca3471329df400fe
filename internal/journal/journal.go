// Package journal owns the append-only record of all decisions. A step decides in Do, under a guard that names what must
// not change meanwhile. The facts of one decision are one entry, which is kept or lost as a whole. Every state is a fold of
// the entries, and includes a decision when Do returns.
//
// The entries are the messages of a JetStream stream, whose server runs inside the process. It has three streams: FACTS (our
// decisions, synced to disk and never deleted), SEEN (events of others) and REJECTED (events that were refused). The last two
// are the side streams, which are caches; a crash may take their newest messages.
//
// Open checks a directory before it uses it: if an acknowledged entry is missing or changed, it fails and changes nothing.
// Repair copies everything and then rebuilds the journal from the entries that are intact. A guard that lost entries is in
// quarantine, where nothing is decided, until Release. Damage in a side stream never prevents the facts from being read:
// Open moves such a stream away and starts an empty one if Options.Renew is set, and else reads what can be read of it.
//
// The server would silently truncate a damaged file and go on. So before it starts, its files are read here, with their
// checksums (blocks.go, scan.go); how far the journal got is kept outside them (mark.go); and every entry names the one
// before it under its guard and is a leaf of a Merkle tree (chain.go).
//
// What entries say in somebody's words is stored encrypted, with a key for each guard (keys.go), and can be erased by Shred.
//
// The package does not know what entries mean. It never corrects a decision, drops no entry, and publishes nothing.
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

	"guild/internal/durable"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Options are the options of Open and Repair.
type Options struct {
	Dir   string           // made by Init
	Node  string           // Entry.By of the entries
	Now   func() time.Time // the time of new entries
	Folds []fold.Fold      // empty at first; kept up to date with the last entry

	HighWater      string           // a second file for the high-water mark, outside Dir; none if empty
	Wait           time.Duration    // how long to wait for another process to release Dir; 0.2 s if zero
	NoSync         bool             // no fsync after each entry: only for tests and measurements
	SnapshotEvery  time.Duration    // 5 minutes if zero
	Floor          int64            // free space, in bytes, below which Free fails; 64 MiB if zero
	PublishTimeout time.Duration    // how long the server may take to acknowledge an entry; 5 s if zero
	Appended       func(fact.Entry) // called with each new entry, in order, after it is folded; must not append

	// Finished reports, from the folds, whether a lost entry of a guard would change nothing that still matters. Repair does
	// not put such a guard into quarantine on suspicion. If nil, no guard is finished.
	Finished func(guard fact.Subject) bool

	// Renew is called with the name of a damaged side stream before that is moved away and replaced by an empty one. An error
	// prevents it. If Renew is nil, the stream stays, and what can be read of it is read.
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
	keys  *keys
	state *state
	mark  *mark
	guard guards

	renewed []Renewed

	exchange chan struct{}         // holds a value while the server is replaced; a mutex that a synctest bubble can wait for
	store    atomic.Pointer[store] // nil if the server could not be restarted
	cutting  sync.RWMutex          // held while archived entries are removed from the stream

	snapshotting sync.Mutex
	snapped      uint64 // the last entry in the newest snapshots
	archiving    sync.Mutex
	hashing      sync.Mutex // held while the file of hashes is used

	closing context.Context // ends when Close begins
	close   context.CancelFunc
	running sync.WaitGroup
	closed  func() error // shutDown, once
}

// Open opens the journal in o.Dir, brings all folds up to its last entry, and locks the directory until Close. ctx bounds
// the opening only. It succeeds on a full disk, but then nothing can be appended. Errors to match: ErrNotInitialised, ErrLocked,
// *DamagedError, *ObstacleError.
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
	durable.Sweep(o.Dir, files.snapshots(), files.archive())
	if o.HighWater != "" {
		durable.Sweep(filepath.Dir(o.HighWater))
	}
	j.closing, j.close = context.WithCancel(context.WithoutCancel(ctx))
	j.closed = sync.OnceValue(j.shutDown)
	if err := j.open(ctx); err != nil {
		j.close()
		return nil, fmt.Errorf("open the journal: %w", errors.Join(err, j.abandon()))
	}
	return j, nil
}

// open does the work of Open once the directory is locked. The order matters: the files are examined before the server can
// change them, and the mark moves only after everything was checked.
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
	if j.keys, err = openKeys(j.files.keys(), j.o.NoSync); err != nil {
		return err
	}
	if err := j.keys.check(j.mark.get().Keys); err != nil {
		return err
	}
	j.mark.keys = j.keys
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
	j.state = newState(j.o.Folds, j.o.Appended, func() { j.mark.soon(j.state.position) })
	if err := j.recover(ctx, s, chains, roots); err != nil {
		return err
	}
	err = j.mark.move(j.state.position())
	if exhausted(err) { // an older mark notices less, and what is there can be read
		j.o.Log.Warn("the journal's high-water mark could not be written", "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	if err := j.finishArchive(ctx); err != nil && !errors.Is(err, ErrFull) { // the next Open tries again
		return err
	}
	j.running.Go(j.snapshotRegularly)
	return nil
}

// serve starts the server and binds its streams. It makes them if this is the first time.
func (j *Journal) serve(ctx context.Context) (*store, error) {
	h := j.mark.get()
	if !h.Made { // a stream that is there is from a start that was interrupted, and empty
		if err := os.RemoveAll(j.files.facts()); err != nil {
			return nil, err
		}
	}
	s, err := startStore(ctx, j.o, j.files.stream())
	if err != nil {
		return nil, err
	}
	s.keys = j.keys
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

// abandon releases everything after a failed Open.
func (j *Journal) abandon() error {
	if j.mark != nil {
		j.mark.stop()
	}
	if s := j.store.Load(); s != nil {
		s.stop()
	}
	return j.lock.release()
}

// Close writes snapshots, stops the server and unlocks the directory. Acknowledged entries are on disk before that, so an
// error only means that the next Open takes longer. A full disk is logged and is no error.
func (j *Journal) Close() error { return j.closed() }

func (j *Journal) shutDown() error {
	j.close()
	j.running.Wait()
	j.exchange <- struct{}{}
	defer func() { <-j.exchange }()
	err := j.orFull(j.takeSnapshots())
	j.state.stop(ErrClosed)
	j.mark.stop()
	if markErr := j.orFull(j.mark.move(j.state.position())); markErr != nil {
		err = errors.Join(err, fmt.Errorf("close the journal: %w", markErr))
	}
	if s := j.store.Load(); s != nil {
		s.stop()
	}
	return errors.Join(err, j.lock.release())
}

// orFull returns err, unless it means a full disk, which is logged.
func (j *Journal) orFull(err error) error {
	if exhausted(err) {
		j.o.Log.Warn("the disk is full, so the next start takes longer", "error", err)
		return nil
	}
	return err
}

// Last returns the sequence of the last folded entry, 0 if there is none.
func (j *Journal) Last() uint64 { return j.state.last() }

// Applied waits until all folds have the entry that is being applied, if any, and returns the number of the last one that they have.
// So what two folds say before and after it belongs together, if neither has changed.
func (j *Journal) Applied() uint64 {
	seq, _ := j.state.newest()
	return seq
}

// Changed returns a channel that holds one value if entries were folded since the last receive. stop releases it.
func (j *Journal) Changed() (ch <-chan struct{}, stop func()) { return j.state.subscribe() }

// Free returns ErrFull if less than Options.Floor is free. New work must then be refused; running work is still recorded.
func (j *Journal) Free() error { return j.space.free() }

// files is a journal's directory. Its methods return the paths in it.
type files string

func (f files) marker() string    { return filepath.Join(string(f), "journal.json") }
func (f files) lock() string      { return filepath.Join(string(f), "lock") }
func (f files) high() string      { return filepath.Join(string(f), "high") }
func (f files) reserved() string  { return filepath.Join(string(f), "reserve") }
func (f files) stream() string    { return filepath.Join(string(f), "stream") }
func (f files) snapshots() string { return filepath.Join(string(f), "snapshot") }
func (f files) archive() string   { return filepath.Join(string(f), "archive") }
func (f files) hashes() string    { return filepath.Join(string(f), "hashes") }
func (f files) keys() string      { return filepath.Join(string(f), "keys") }
func (f files) damaged() string   { return filepath.Join(string(f), "damaged") }

// Repair builds a new stream beside the old one and then swaps them.
func (f files) rebuilt() string  { return f.stream() + ".new" }
func (f files) replaced() string { return f.stream() + ".old" }

// own returns the files that together are the journal, without the keys: a copy of these would outlive an erased one.
func (f files) own() []string {
	return []string{f.marker(), f.high(), f.stream(), f.snapshots(), f.archive(), f.hashes()}
}

// facts returns the server's directory of the stream FACTS.
func (f files) facts() string { return f.streamDir(factsStream) }

// streamDir returns the server's directory of a stream.
func (f files) streamDir(name string) string {
	return filepath.Join(f.stream(), "jetstream", "$G", "streams", name)
}
