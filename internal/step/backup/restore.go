package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// The reasons why a backup is not restored.
var (
	ErrNone      = errors.New("no backup of this key was found")
	ErrGone      = errors.New("no snapshot can be found any more")
	ErrNotEmpty  = errors.New("this node has already learned something else")
	ErrNewer     = errors.New("a newer program made the backup")
	ErrRestoring = errors.New("a backup is being restored already")
)

// maxChain limits the differences that are applied to one snapshot.
const maxChain = 100

// Options choose the backup to restore.
type Options struct {
	Backup string // its id or the beginning of it; if empty, the newest that can be fetched
	Force  bool   // also if the node has learned something else
}

// Report is the result of a restore.
type Report struct {
	Backup      string     `json:"backup"`
	Matrix      guild.Hash `json:"matrix"`
	Made        int64      `json:"made"` // Unix ms
	Through     uint64     `json:"through"`
	Policy      guild.Hash `json:"policy,omitzero"` // in force when it was made
	Rows        int        `json:"rows"`
	Services    int        `json:"services"`
	Unclaimed   int        `json:"unclaimed"`        // services without an announcement
	Differences int        `json:"differences"`      // number of differences that were applied, because the snapshot itself was gone
	Passed      []string   `json:"passed,omitempty"` // newer backups that could not be fetched
	Exact       bool       `json:"exact"`            // the matrix is now that of the backup
}

// Found is a backup that is named by messages at relays.
type Found struct {
	Backup  string     `json:"backup"`
	Matrix  guild.Hash `json:"matrix"`
	Made    int64      `json:"made"` // Unix ms
	Through uint64     `json:"through"`
	Rows    int        `json:"rows"`
	Size    int64      `json:"size"` // bytes, sealed
	URLs    []string   `json:"urls"`
}

// Look lists the backups that this node's own gift wraps name, the newest first. It ignores those of others.
func (s *Step) Look(ctx context.Context, wraps []guild.Verified) ([]Found, error) {
	all, err := s.messages(ctx, wraps)
	if err != nil {
		return nil, fmt.Errorf("look for backups: %w", err)
	}
	found := make([]Found, len(all))
	for i, m := range all {
		found[i] = Found{Backup: m.id(), Matrix: m.Matrix, Made: m.Made, Through: m.Through, Rows: m.Rows, Size: m.Size, URLs: m.URLs}
	}
	return found, nil
}

// Restore restores the matrix of a backup that this node's own gift wraps name. It takes the newest whose snapshot can
// be fetched, or can be computed from an older snapshot and the differences in the messages since. Errors match
// ErrNone, ErrGone, ErrNotEmpty, ErrNewer or ErrRestoring. After a crash it has to be called again, and completes the
// restore.
func (s *Step) Restore(ctx context.Context, wraps []guild.Verified, o Options) (Report, error) {
	if !s.restoring.TryLock() {
		return Report{}, ErrRestoring
	}
	defer s.restoring.Unlock()
	all, err := s.messages(ctx, wraps)
	if err == nil {
		var c choice
		if c, err = s.choose(ctx, all, o); err == nil {
			return s.restore(ctx, c, o)
		}
	}
	return Report{}, fmt.Errorf("restore: %w", err)
}

// messages returns the messages of this node, each backup once, the newest first and those of one time in the order of
// their ids.
func (s *Step) messages(ctx context.Context, wraps []guild.Verified) ([]message, error) {
	seen := map[guild.Hash]bool{}
	var all []message
	var newer error
	for _, v := range wraps {
		m, err := s.read(ctx, v)
		switch {
		case err == nil && !seen[m.Backup]:
			seen[m.Backup] = true
			all = append(all, m)
		case errors.Is(err, ErrNewer):
			newer = err
		case err != nil && !errors.Is(err, errOther):
			return nil, err
		}
	}
	if len(all) == 0 && newer != nil {
		return nil, newer
	}
	slices.SortFunc(all, func(a, b message) int { return cmp.Or(cmp.Compare(b.Made, a.Made), cmp.Compare(a.id(), b.id())) })
	return all, nil
}

// choice is a backup that can be restored.
type choice struct {
	message
	rows        rows
	differences int
	passed      []string
}

// choose returns the newest backup that can be fetched. A backup whose restore was begun comes first.
func (s *Step) choose(ctx context.Context, all []message, o Options) (choice, error) {
	wanted := all
	begun, unfinished := s.fold.Unfinished()
	if o.Backup != "" {
		wanted = slices.DeleteFunc(slices.Clone(all), func(m message) bool { return !strings.HasPrefix(m.id(), o.Backup) })
	} else if i := slices.IndexFunc(all, func(m message) bool { return m.id() == begun }); unfinished && i >= 0 {
		wanted = append([]message{all[i]}, slices.Delete(slices.Clone(all), i, i+1)...)
	}
	if len(wanted) == 0 {
		return choice{}, ErrNone
	}
	c := chain{step: s, all: map[guild.Hash]message{}, gone: map[guild.Hash]error{}}
	for _, m := range all {
		c.all[m.Backup] = m
	}
	var passed []string
	why := ErrGone
	for _, m := range wanted {
		found, differences, err := c.matrix(ctx, m)
		if err == nil {
			return choice{message: m, rows: found, differences: differences, passed: passed}, nil
		}
		if ctx.Err() != nil {
			return choice{}, ctx.Err()
		}
		if len(passed) == 0 {
			why = fmt.Errorf("%w: %w", ErrGone, err)
		}
		passed = append(passed, m.id())
	}
	return choice{}, why
}

// chain computes matrices from snapshots and differences.
type chain struct {
	step *Step
	all  map[guild.Hash]message
	gone map[guild.Hash]error
}

// matrix returns the matrix that a message names. It is its snapshot, or the nearest earlier snapshot with the
// differences since.
//
// A result is used only if its hash is the one in the message, so a wrong or missing difference cannot lead to a wrong
// matrix.
func (c *chain) matrix(ctx context.Context, m message) (found rows, differences int, err error) {
	var later []message
	for at := m; ; {
		if found, err = c.snapshot(ctx, at); err == nil {
			break
		}
		before, known := c.all[at.Previous]
		if at.Difference == nil || !known && !at.Previous.IsZero() || len(later) == maxChain {
			return nil, 0, err
		}
		later = append(later, at)
		if at.Previous.IsZero() {
			found = rows{}
			break
		}
		at = before
	}
	for _, at := range slices.Backward(later) {
		found = found.with(*at.Difference)
	}
	return found, len(later), m.check(found)
}

// snapshot fetches a snapshot. It asks only once for one that is gone.
func (c *chain) snapshot(ctx context.Context, m message) (rows, error) {
	if err := c.gone[m.Backup]; err != nil {
		return nil, err
	}
	found, err := c.step.snapshot(ctx, m)
	if err != nil {
		c.gone[m.Backup] = err
	}
	return found, err
}

// restore restores a matrix.
//
// It records the choice before anything else changes. A node that dies in between then makes no backup of a part of the
// matrix, which would be newer than the whole one, and can complete the restore without being forced.
func (s *Step) restore(ctx context.Context, c choice, o Options) (Report, error) {
	r := Report{Backup: c.id(), Matrix: c.Matrix, Made: c.Made, Through: c.Through, Policy: c.Policy, Rows: c.rows.count(),
		Differences: c.differences, Passed: c.passed}
	// A part that this program does not know comes from a newer one. Restoring the rest alone would lose it with the next
	// backup.
	for name := range c.rows {
		if !slices.ContainsFunc(s.c.Parts, func(p Part) bool { return p.Name == name && p.Restore != nil }) {
			return Report{}, fmt.Errorf("restore backup %.8s: %w: it has %.40q", r.Backup, ErrNewer, name)
		}
	}
	_, present, err := s.take()
	if err != nil {
		return Report{}, fmt.Errorf("restore backup %.8s: %w", r.Backup, err)
	}
	now := s.fold.view()
	if now.Over != nil && now.Over.Backup == r.Backup && now.Chosen == nil && present.equal(c.rows) {
		r.Services, r.Unclaimed, r.Exact = now.Over.Services, now.Over.Unclaimed, true
		return r, nil
	}
	if len(present) > 0 && now.Chosen == nil && !o.Force && !present.equal(c.rows) {
		return Report{}, fmt.Errorf("restore backup %.8s: %w: %d entries", r.Backup, ErrNotEmpty, present.count())
	}
	if err := s.takeOver(ctx, c, &r); err != nil {
		return Report{}, fmt.Errorf("restore backup %.8s: %w", r.Backup, err)
	}
	return r, nil
}

// takeOver writes the rows of a backup by the steps that own them. Each part can be restored again, so that a process
// that died in the middle starts with the first part again. Announcements are compared last, because that needs the
// restored state.
func (s *Step) takeOver(ctx context.Context, c choice, r *Report) error {
	err := s.c.Journal.Do(ctx, fact.BackupSubject, "", func(tx *journal.Tx) error {
		if now := s.fold.view(); now.Chosen == nil || now.Chosen.Backup != r.Backup {
			tx.Append(fact.BackupChosen{Backup: r.Backup, Matrix: c.Matrix, Made: c.Made})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range s.c.Parts {
		if len(c.rows[p.Name]) == 0 {
			continue
		}
		if err := p.Restore(ctx, c.rows[p.Name], r.Backup); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	_, present, err := s.take()
	if err != nil {
		return err
	}
	r.Exact = present.equal(c.rows)
	if s.c.Settle != nil {
		if r.Services, r.Unclaimed, err = s.c.Settle(ctx, r.Backup); err != nil {
			return fmt.Errorf("check against what is announced: %w", err)
		}
	}
	return s.c.Journal.Do(ctx, fact.BackupSubject, "", func(tx *journal.Tx) error {
		if now := s.fold.view(); now.Chosen != nil && now.Chosen.Backup == r.Backup {
			tx.Append(fact.BackupRestored{Backup: r.Backup, Matrix: c.Matrix, Services: r.Services, Made: c.Made, Unclaimed: r.Unclaimed})
		}
		return nil
	})
}
