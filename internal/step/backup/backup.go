// Package backup is the step that backs up what the node has learned: sealed snapshots on Blossom servers, and private
// messages and a note to itself that name them (the partnership protocol, section 3.3.4). It owns the facts backup.*.
// The steps that own the state decide what a backup contains and how it is restored. The step deletes neither old
// snapshots nor old messages.
package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/policy"
)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Keyer   nostr.Keyer
	PubKey  nostr.PubKey
	Now     func() time.Time
	Parts   []Part
	Policy  policy.Backup

	// Upload stores sealed bytes on every Blossom server, and returns their URLs. It returns a nil error if at least one
	// server has them.
	Upload func(ctx context.Context, sealed []byte) (urls []string, err error)
	// Fetch returns the bytes from the first URL that has them.
	Fetch   func(ctx context.Context, urls []string, hash guild.Hash) ([]byte, error)
	Publish func(ctx context.Context, v guild.Verified, relays []string) error
	Relays  func() []string // relays of the node's messages to itself

	InForce func() guild.Hash // hash of the whole policy, named in the message; optional
	// Settle compares the services of a restored matrix with present announcements, and quarantines stale ones. It may be
	// called again. If nil, nothing is compared.
	Settle func(ctx context.Context, backup string) (services, unclaimed int, err error)

	Off bool // make no backup unless a person asks for it
}

// rest is the time between a first significant change and its backup, because one change causes others: a verdict moves
// trust, and trust moves a status.
const rest = time.Minute

// Part is the part of the matrix that one step owns.
type Part struct {
	Name string
	Rows func() map[string]json.RawMessage // JSON that does not depend on this node's own history
	// Restore sets rows to those of a backup. It may be called again. If nil, nothing is restored.
	Restore func(ctx context.Context, rows map[string]json.RawMessage, backup string) error
}

// Step is the step.
type Step struct {
	c    Config
	fold *Fold

	mu   sync.Mutex
	idle uint64 // the significant entry up to which there was nothing to back up

	restoring sync.Mutex
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Step { return &Step{c: c, fold: f} }

// List lists the latest backups that this node made, the latest first.
func (s *Step) List() []Backup { return s.fold.List() }

// Unfinished returns the backup that was being restored when the process died.
func (s *Step) Unfinished() (backup string, ok bool) { return s.fold.Unfinished() }

// Due lists the message that no relay has yet, or else the backup that is due. It implements due.Source.
func (s *Step) Due(time.Time) []due.Work {
	now := s.fold.view()
	if now.Pending != nil {
		return []due.Work{s.send(*now.Pending)}
	}
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if s.c.Off || now.Chosen != nil || now.Changed <= max(now.Covered, idle) {
		return nil
	}
	// A backup waits for the changes that follow from the first one, and for the policy's interval since the last backup.
	ready := time.UnixMilli(now.Since).Add(rest)
	if next := time.UnixMilli(now.At + s.c.Policy.Every); now.At != 0 && next.After(ready) {
		ready = next
	}
	return []due.Work{{
		Key: fmt.Sprintf("back up %d", now.Ended+1), Guard: fact.BackupSubject, Ready: ready,
		Act: func(ctx context.Context) (due.Decision, error) {
			made, err := s.make(ctx, now.Cause, false)
			if errors.Is(err, errNothing) {
				s.mu.Lock()
				s.idle = max(s.idle, now.Changed)
				s.mu.Unlock()
				return func(*journal.Tx) error { return nil }, nil
			}
			if err != nil {
				return nil, fmt.Errorf("back up: %w", err)
			}
			return s.record(made, now.Ended, false), nil
		},
		Park: func(tx *journal.Tx, reason string) { tx.Append(fact.BackupFailed{Reason: reason}) },
	}}
}

// record records a backup, unless another one was made meanwhile or one is being restored.
func (s *Step) record(made fact.BackupMade, ended int, asked bool) due.Decision {
	return func(tx *journal.Tx) error {
		if now := s.fold.view(); now.Pending == nil && now.Ended == ended && (asked || now.Chosen == nil) {
			tx.Append(made)
		}
		return nil
	}
}

// send publishes the message of a backup. Each try sends the same event.
func (s *Step) send(m made) due.Work {
	return due.Work{
		Key: due.Publishing(m.Event.ID), Guard: fact.BackupSubject,
		Act: func(ctx context.Context) (due.Decision, error) {
			relays := s.c.Relays()
			if err := s.tell(ctx, m, relays); err != nil {
				return nil, fmt.Errorf("message of backup %.8s: %w", m.ID, err)
			}
			return func(tx *journal.Tx) error {
				if now := s.fold.view(); now.Pending != nil && now.Pending.ID == m.ID {
					tx.Append(fact.BackupSent{Backup: m.ID, Relays: relays})
				}
				return nil
			}, nil
		},
		Park: func(tx *journal.Tx, reason string) { tx.Append(fact.BackupFailed{Backup: m.ID, Reason: reason}) },
	}
}

// tell publishes the message and the note with the same content. Each of them names the backup, so it is enough if
// relays take one. If no relay could be reached for one of them, the effect is tried again later.
func (s *Step) tell(ctx context.Context, m made, relays []string) error {
	err := s.pass(ctx, m.Event, relays)
	if m.Note == nil || errors.Is(err, due.ErrLater) {
		return err
	}
	noted := s.pass(ctx, *m.Note, relays)
	switch {
	case errors.Is(noted, due.ErrLater):
		return noted
	case noted != nil && err != nil:
		return errors.Join(err, noted)
	}
	return nil
}

func (s *Step) pass(ctx context.Context, e nostr.Event, relays []string) error {
	v, err := guild.Verify(e)
	if err != nil {
		return err
	}
	return s.c.Publish(ctx, v, relays)
}

// Now makes a backup at a person's request, and waits until a relay has its message or the effect was given up. If
// nothing has changed since the latest backup, and that can still be fetched, it returns that one. If a backup is being
// sent, it waits for that one. Errors match ErrEmpty, ErrTooLarge or ErrRestoring.
func (s *Step) Now(ctx context.Context) (Backup, error) {
	if !s.restoring.TryLock() {
		return Backup{}, fmt.Errorf("back up: %w", ErrRestoring)
	}
	defer s.restoring.Unlock()
	changed, stop := s.c.Journal.Changed()
	defer stop()
	id, err := s.ask(ctx)
	if err != nil {
		return Backup{}, fmt.Errorf("back up: %w", err)
	}
	for {
		b, ok := s.fold.find(id)
		switch {
		case !ok:
			return Backup{}, errors.New("back up: another backup was made meanwhile")
		case b.Sent != 0 || b.Failed != "":
			return b, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
}

// ask makes the backup for Now, and returns its id.
func (s *Step) ask(ctx context.Context) (id string, err error) {
	now := s.fold.view()
	if now.Pending != nil {
		return now.Pending.ID, nil
	}
	made, err := s.make(ctx, "asked for", true)
	if errors.Is(err, errUnchanged) {
		return now.Last.ID, nil
	}
	if err != nil {
		return "", err
	}
	if err := s.c.Journal.Do(ctx, fact.BackupSubject, "", s.record(made, now.Ended, true)); err != nil {
		return "", err
	}
	if now = s.fold.view(); now.Pending != nil {
		return now.Pending.ID, nil // the new one, or another that was made meanwhile
	}
	return made.Backup, nil
}

// ErrEmpty is returned if there is nothing to back up, because nothing was learned yet.
var ErrEmpty = fmt.Errorf("the matrix is empty: %w", errNothing)

var (
	errNothing   = errors.New("nothing to back up")
	errUnchanged = fmt.Errorf("the matrix is that of the latest backup: %w", errNothing)
)

// make takes, seals and stores a snapshot, and signs the message that names it.
func (s *Step) make(ctx context.Context, cause string, asked bool) (fact.BackupMade, error) {
	through, all, err := s.take()
	if err != nil {
		return fact.BackupMade{}, err
	}
	matrix, err := all.hash()
	if err != nil {
		return fact.BackupMade{}, err
	}
	if len(all) == 0 {
		return fact.BackupMade{}, ErrEmpty
	}
	last := s.fold.view().Last
	same := last != nil && last.Matrix == matrix
	if same && !asked {
		return fact.BackupMade{}, errUnchanged
	}
	previous, before := s.previous(ctx, last)
	if same && !previous.IsZero() {
		return fact.BackupMade{}, errUnchanged
	}
	now := s.c.Now()
	d := document{Version: version, Guild: s.c.PubKey.Hex(), Made: now.UnixMilli(), Through: through, Parts: all}
	stored, sealed, err := d.seal()
	if err != nil {
		return fact.BackupMade{}, err
	}
	urls, err := s.c.Upload(ctx, stored)
	if err != nil {
		return fact.BackupMade{}, fmt.Errorf("store the snapshot: %w", err)
	}
	m := message{
		Type: messageType, Version: version, Backup: sealed.Cipher, URLs: urls[:min(len(urls), maxURLs)], Key: sealed.Key.Hex(), Plain: sealed.Plain,
		Size: sealed.Size, Matrix: matrix, Rows: all.count(), Made: d.Made, Through: through, Previous: previous,
	}
	if s.c.InForce != nil {
		m.Policy = s.c.InForce()
	}
	content, err := m.encode(all.since(before))
	if err != nil {
		return fact.BackupMade{}, err
	}
	wrap, _, err := dm.Wrap(ctx, s.c.Keyer, s.c.PubKey, s.c.PubKey, dm.Message{Content: content, Subject: messageType}, now)
	if err != nil {
		return fact.BackupMade{}, err
	}
	at := max(nostr.Timestamp(now.Unix()), s.fold.view().Noted+1) // relays keep the note with the latest date
	note, err := dm.Note(ctx, s.c.Keyer, s.c.PubKey, messageType, content, at)
	if err != nil {
		return fact.BackupMade{}, err
	}
	return fact.BackupMade{Backup: m.id(), Matrix: matrix, Through: through, URLs: m.URLs, Size: m.Size, Cause: cause, Message: wrap, Note: &note}, nil
}

// take returns the rows of all parts and the last entry that is certainly in them. The parts are not locked together,
// so an entry may be added between two of them. Then take tries again, a few times. After that a later entry may be in
// some parts only. It counts as not backed up.
func (s *Step) take() (through uint64, all rows, err error) {
	const times = 3
	for range times {
		through = s.c.Journal.Last()
		if all, err = rowsOf(s.c.Parts); err != nil || s.c.Journal.Last() == through {
			break
		}
	}
	return through, all, err
}

// previous returns the id and the matrix of the latest backup, if it can still be fetched. Otherwise the next message
// cannot refer to it and has to contain everything.
func (s *Step) previous(ctx context.Context, last *made) (guild.Hash, rows) {
	if last == nil {
		return guild.Hash{}, nil
	}
	v, err := guild.Verify(last.Event)
	if err != nil {
		return guild.Hash{}, nil
	}
	m, err := s.read(ctx, v)
	if err != nil {
		return guild.Hash{}, nil
	}
	all, err := s.snapshot(ctx, m)
	if err != nil {
		return guild.Hash{}, nil
	}
	return m.Backup, all
}

// read opens a message or a note of this node to itself about a backup. It returns errOther if it is something else,
// and ErrNewer for a later version.
func (s *Step) read(ctx context.Context, v guild.Verified) (message, error) {
	if v.Event().Kind == kindNote {
		content, err := dm.ReadNote(ctx, s.c.Keyer, s.c.PubKey, messageType, v)
		if _, dropped := errors.AsType[*guild.DropError](err); dropped {
			return message{}, errOther
		}
		if err != nil {
			return message{}, err
		}
		return decodeMessage(content)
	}
	opened, err := dm.Open(ctx, s.c.Keyer, s.c.PubKey, v)
	if _, dropped := errors.AsType[*guild.DropError](err); dropped || err == nil && opened.From != s.c.PubKey {
		return message{}, errOther
	}
	if err != nil {
		return message{}, err
	}
	return decodeMessage(opened.Content)
}

// snapshot fetches and opens the snapshot that a message names.
func (s *Step) snapshot(ctx context.Context, m message) (rows, error) {
	stored, err := s.c.Fetch(ctx, m.URLs, m.Backup)
	if err != nil {
		return nil, fmt.Errorf("backup %.8s: %w", m.id(), err)
	}
	all, err := m.open(stored, s.c.PubKey)
	if err != nil {
		return nil, fmt.Errorf("backup %.8s: %w", m.id(), err)
	}
	return all, nil
}
