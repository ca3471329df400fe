package relayd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip40"
	"go.etcd.io/bbolt"

	"guild"
)

// Reasons why the store does not take an event. The texts, with the prefixes of NIP-01, go to the client.
var (
	errDuplicate  = errors.New("duplicate: already have this event")
	errSuperseded = errors.New("duplicate: have a newer version of this event")
	errDeleted    = errors.New("blocked: its author has deleted this event")
	errFull       = errors.New("error: the store is full")
	errUnwritten  = errors.New("error: not stored") // until the transaction says otherwise
)

// store keeps events in one bbolt file. Writers that come at the same time share one transaction.
//
// By default the file is flushed once a second, not before every OK, which would cost a disk write for each event. A crash
// of the process loses nothing, since the system has all writes. A crash of the machine may lose the last second, or damage
// the file; then openStore begins with an empty one (disk.go). That is good enough, because clients keep their own events
// and publish them again.
type store struct {
	db      *bbolt.DB
	path    string
	maxSize int64
	now     func() time.Time
	log     *slog.Logger
	unsaved atomic.Bool // there were writes since the last flush

	queue  sync.Mutex // guards queued
	queued []*write
	commit sync.Mutex // held by the writer that commits all queued events
}

// write is one event to be stored.
type write struct {
	event   nostr.Event
	encoded []byte
	refused error // why the store did not take it
}

// put stores a verified event, and removes events that it replaces or deletes. encoded is the event as it will be served.
func (s *store) put(v guild.Verified, encoded []byte) error {
	w := &write{event: v.Event(), encoded: encoded, refused: errUnwritten}
	s.queue.Lock()
	s.queued = append(s.queued, w)
	s.queue.Unlock()

	s.commit.Lock()
	defer s.commit.Unlock()
	s.queue.Lock()
	batch := s.queued // without w if another writer has committed it meanwhile
	s.queued = nil
	s.queue.Unlock()
	s.write(batch)
	return w.refused
}

func (s *store) write(batch []*write) {
	if len(batch) == 0 {
		return
	}
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for _, w := range batch {
			w.refused = s.insert(tx, w)
			if w.refused != nil && !isRefusal(w.refused) {
				return w.refused
			}
		}
		return nil
	})
	s.unsaved.Store(true)
	if err == nil {
		return
	}
	for _, w := range batch {
		w.refused = fmt.Errorf("error: store: %w", err)
	}
}

// isRefusal reports whether an error is about one event only. Other errors undo the whole transaction.
func isRefusal(err error) bool {
	return errors.Is(err, errDuplicate) || errors.Is(err, errSuperseded) || errors.Is(err, errDeleted) || errors.Is(err, errFull)
}

func (s *store) insert(tx *bbolt.Tx, w *write) error {
	e := w.event
	if tx.Bucket(bucketEvents).Get(e.ID[:]) != nil {
		return errDuplicate
	}
	if isDeleted(tx, e) {
		return errDeleted
	}
	if storedSize(tx)+int64(len(w.encoded)) > s.maxSize {
		return errFull
	}
	if err := s.replace(tx, e); err != nil {
		return err
	}
	if e.Kind == nostr.KindDeletion {
		if err := deleteTargets(tx, e); err != nil {
			return err
		}
	}
	return addEvent(tx, e, w.encoded)
}

// replace removes the stored version of a replaceable or addressable event, or refuses e if that is the newer one: the later
// created_at wins, then the lower id (NIP-01).
func (s *store) replace(tx *bbolt.Tx, e nostr.Event) error {
	address, ok := addressOf(e)
	if !ok {
		return nil
	}
	previous, found := eventAt(tx, address)
	if !found {
		return nil
	}
	if !nostr.IsOlder(previous, e) {
		return errSuperseded
	}
	return removeEvent(tx, previous)
}

// deleteTargets removes the events that a kind 5 event names (NIP-09), if they have the same author. A deletion of a
// deletion has no effect.
func deleteTargets(tx *bbolt.Tx, deletion nostr.Event) error {
	for _, tag := range deletion.Tags {
		target, found := targetOf(tx, deletion, tag)
		if !found || target.PubKey != deletion.PubKey || target.Kind == nostr.KindDeletion {
			continue
		}
		if err := removeEvent(tx, target); err != nil {
			return err
		}
	}
	return nil
}

func targetOf(tx *bbolt.Tx, deletion nostr.Event, tag nostr.Tag) (nostr.Event, bool) {
	if len(tag) < 2 {
		return nostr.Event{}, false
	}
	switch tag[0] {
	case "e":
		id, err := nostr.IDFromHex(tag[1])
		if err != nil {
			return nostr.Event{}, false
		}
		return eventByID(tx, id)
	case "a":
		address, ok := parseAddress(tag[1])
		if !ok {
			return nostr.Event{}, false
		}
		e, found := eventAt(tx, address)
		return e, found && e.CreatedAt <= deletion.CreatedAt
	default:
		return nostr.Event{}, false
	}
}

// isDeleted reports whether a deletion of e is stored: by its id, or by its address if the deletion is not older than e.
func isDeleted(tx *bbolt.Tx, e nostr.Event) bool {
	if e.Kind == nostr.KindDeletion {
		return false
	}
	for range deletionsOf(tx, e.PubKey, "e", e.ID.Hex()) {
		return true
	}
	address, ok := addressOf(e)
	if !ok {
		return false
	}
	for deletion := range deletionsOf(tx, e.PubKey, "a", address.String()) {
		if deletion.CreatedAt >= e.CreatedAt {
			return true
		}
	}
	return false
}

// sweep removes expired events, and returns their number.
func (s *store) sweep(now nostr.Timestamp) (int, error) {
	removed := 0
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for id := range expiredBy(tx, now) {
			e, found := eventByID(tx, id)
			if !found {
				continue
			}
			if err := removeEvent(tx, e); err != nil {
				return err
			}
			removed++
		}
		return nil
	})
	s.unsaved.Store(true)
	return removed, err
}

// keep flushes the file once a second and sweeps once a minute, until ctx ends.
func (s *store) keep(ctx context.Context) error {
	flush, sweep := time.NewTicker(time.Second), time.NewTicker(time.Minute)
	defer flush.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-flush.C:
			if err := s.flush(); err != nil {
				return err
			}
		case <-sweep.C:
			if _, err := s.sweep(s.stamp()); err != nil {
				return fmt.Errorf("sweep the relay's store: %w", err)
			}
		}
	}
}

func (s *store) flush() error {
	if !s.unsaved.Swap(false) {
		return nil
	}
	if err := s.db.Sync(); err != nil {
		return fmt.Errorf("flush the relay's store: %w", err)
	}
	return nil
}

func (s *store) stamp() nostr.Timestamp { return nostr.Timestamp(s.now().Unix()) }

// expired reports whether an event is past its expiration (NIP-40).
func expired(e nostr.Event, now nostr.Timestamp) bool {
	at := nip40.GetExpiration(e.Tags)
	return at >= 0 && at <= now
}

// storedSize returns the size of all encoded events, in bytes. The file is larger after deletions.
func storedSize(tx *bbolt.Tx) int64 {
	b := tx.Bucket(bucketMeta).Get(keySize)
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func addSize(tx *bbolt.Tx, delta int64) error {
	b := binary.BigEndian.AppendUint64(nil, uint64(max(storedSize(tx)+delta, 0)))
	return tx.Bucket(bucketMeta).Put(keySize, b)
}

func decode(encoded []byte) (nostr.Event, bool) {
	var e nostr.Event
	err := e.UnmarshalJSON(encoded)
	return e, err == nil
}
