// Package backup is the step that keeps what the node has learned away from this machine: sealed snapshots on Blossom
// servers, and private messages and a note to ourselves that name them (the partnership protocol, section 3.3.4). It owns the facts
// backup.*. What is in a backup, and what restoring it means, is said by those whose state it is. It deletes nothing:
// neither the snapshots nor the messages before.
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

// Config says what the step needs.
type Config struct {
	Journal *journal.Journal
	Keyer   nostr.Keyer
	PubKey  nostr.PubKey
	Now     func() time.Time
	Parts   []Part
	Policy  policy.Backup

	// Upload puts what is sealed already on every Blossom server, and returns where it is. The error is nil when at
	// least one has it.
	Upload func(ctx context.Context, sealed []byte) (urls []string, err error)
	// Fetch brings it from the first of the places that has it.
	Fetch   func(ctx context.Context, urls []string, hash guild.Hash) ([]byte, error)
	Publish func(ctx context.Context, v guild.Verified, relays []string) error
	Relays  func() []string // where our messages to ourselves are

	InForce func() guild.Hash // hash of the whole policy; named in the message. None if nil
	// Settle checks the services of a restored matrix against what is announced now, and quarantines what is stale. It
	// may be called again. Nothing is checked if nil.
	Settle func(ctx context.Context, backup string) (services, unclaimed int, err error)

	Off bool // no backup is made unless a person asks for it
}

// rest is how long what follows from a first significant change is waited for: a verdict moves trust, and that a status.
const rest = time.Minute

// Part is a share of the matrix whose state is another step's.
type Part struct {
	Name string
	Rows func() map[string]json.RawMessage // JSON, without anything that only this node's history determines
	// Restore makes rows those of a backup; nil restores nothing. It may be called again.
	Restore func(ctx context.Context, rows map[string]json.RawMessage, backup string) error
}

// Step is the step.
type Step struct {
	c    Config
	fold *Fold

	mu   sync.Mutex
	idle uint64 // significant entry up to which there was nothing to be backed up

	restoring sync.Mutex
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Step { return &Step{c: c, fold: f} }

// List lists the latest backups that this node made, the latest first.
func (s *Step) List() []Backup { return s.fold.List() }

// Unfinished is the backup that was being restored when the process died.
func (s *Step) Unfinished() (backup string, ok bool) { return s.fold.Unfinished() }

// Due lists the message that no relay has yet, else the backup to be made. It implements due.Source.
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

// record notes a backup, unless there was another one meanwhile, or one is being restored.
func (s *Step) record(made fact.BackupMade, ended int, asked bool) due.Decision {
	return func(tx *journal.Tx) error {
		if now := s.fold.view(); now.Pending == nil && now.Ended == ended && (asked || now.Chosen == nil) {
			tx.Append(made)
		}
		return nil
	}
}

// send publishes the message of a backup: the same one, however often.
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

// tell publishes the message, and the note that says the same. Either names the backup, so that it is enough when relays
// take one of them; what no relay could be asked for is tried again.
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

// Now makes a backup that a person asks for, and waits until its message is at a relay or was given up. If nothing has
// changed since the latest one, and that can still be fetched, it is that one; and if one is on its way, it is that. Errors
// to match: ErrEmpty, ErrTooLarge, ErrRestoring.
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

// ask makes the backup that a person asks for, and returns its id.
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
		return now.Pending.ID, nil // this one, or another that was made meanwhile
	}
	return made.Backup, nil
}

// ErrEmpty is why nothing is backed up: nothing was learned yet.
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
	at := max(nostr.Timestamp(now.Unix()), s.fold.view().Noted+1) // or relays would keep the one before
	note, err := dm.Note(ctx, s.c.Keyer, s.c.PubKey, messageType, content, at)
	if err != nil {
		return fact.BackupMade{}, err
	}
	return fact.BackupMade{Backup: m.id(), Matrix: matrix, Through: through, URLs: m.URLs, Size: m.Size, Cause: cause, Message: wrap, Note: &note}, nil
}

// take has the parts write their rows, as nearly at one moment as they can: what the journal had before they began is in
// them. While entries go on being added it is tried a few times.
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

// previous is the matrix of the latest backup, from where that is stored. One that is not there any more is as good as
// none: the message then has to say everything.
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

// read opens a message or a note of ours to ourselves about a backup. What is none is errOther, or ErrNewer.
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
