package backup

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
	"guild/internal/policy"
)

// maxKnown is how many backups are listed.
const maxKnown = 50

// Restoring is the signal of a provider's move, and the rule of a variable's change, that a restored backup brings. It is
// fact.RuleRestored for trust.
const Restoring = fact.RuleRestored

// Fold is what has changed since the latest backup, and which backups there were.
type Fold struct {
	delta guild.Trust // of trust, that is significant

	mu    sync.RWMutex
	state folded
}

type folded struct {
	Bases   fold.Table[string, base] `json:"bases"`            // of the entries whose trust was moved since the latest backup
	Changed uint64                   `json:"changed"`          // entry of the latest significant change
	Covered uint64                   `json:"covered"`          // entry up to which those are backed up, or given up
	Since   int64                    `json:"since"`            // Unix ms of the first of those that are not
	Cause   string                   `json:"cause,omitempty"`  // the latest significant change, for a person
	At      int64                    `json:"at"`               // Unix ms when a backup was made or given up; 0 for never
	Ended   int                      `json:"ended"`            // backups that were sent or given up
	Pending *made                    `json:"pending"`          // made, and not yet sent
	Last    *made                    `json:"last"`             // the latest that was sent
	Known   []Backup                 `json:"known"`            // at most maxKnown, the latest last
	Chosen  *fact.BackupChosen       `json:"chosen,omitempty"` // being restored
	Over    *fact.BackupRestored     `json:"over,omitempty"`   // the latest that was restored
	Noted   nostr.Timestamp          `json:"noted,omitempty"`  // date of the latest note
}

// base is the trust in an entry as the latest backup has it.
type base struct {
	Trust guild.Trust `json:"trust"`
	Seq   uint64      `json:"seq"` // entry that moved it last
}

// made is a backup with its message.
type made struct {
	Backup
	Event nostr.Event  `json:"event"`
	Note  *nostr.Event `json:"note,omitempty"`
}

// Backup is one that was made, as a person sees it.
type Backup struct {
	ID      string     `json:"backup"` // hash of the sealed snapshot, hex
	Matrix  guild.Hash `json:"matrix"`
	Through uint64     `json:"through"` // the last entry that is surely in it
	URLs    []string   `json:"urls"`
	Size    int64      `json:"size"` // bytes, sealed
	Cause   string     `json:"cause"`
	Made    int64      `json:"made"` // Unix ms
	Message nostr.ID   `json:"message"`

	Sent   int64    `json:"sent,omitempty"` // Unix ms; 0 while no relay has the message
	Relays []string `json:"relays,omitempty"`
	Failed string   `json:"failed,omitempty"` // why the message was given up
}

// NewFold returns an empty fold. What is significant follows from the policy.
func NewFold(p policy.Backup) *Fold { return &Fold{delta: p.Delta, state: folded{Known: []Backup{}}} }

// Name implements fold.Fold.
func (*Fold) Name() string { return "backup" }

// Version implements fold.Fold.
func (*Fold) Version() int { return 1 }

// List lists the latest backups, the latest first.
func (f *Fold) List() []Backup {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := slices.Clone(f.state.Known)
	slices.Reverse(all)
	return all
}

// Unfinished is the backup that was being restored when the process died; restoring it again finishes that.
func (f *Fold) Unfinished() (backup string, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.state.Chosen == nil {
		return "", false
	}
	return f.state.Chosen.Backup, true
}

// view is what decisions look at.
func (f *Fold) view() folded {
	f.mu.RLock()
	defer f.mu.RUnlock()
	v := f.state
	v.Bases, v.Known = fold.Table[string, base]{}, nil
	return v
}

// find returns a known backup.
func (f *Fold) find(id string) (Backup, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	i := slices.IndexFunc(f.state.Known, func(b Backup) bool { return b.ID == id })
	if i < 0 {
		return Backup{}, false
	}
	return f.state.Known[i], true
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range e.Facts {
		f.apply(one, e)
	}
}

func (f *Fold) apply(one fact.Fact, e fact.Entry) {
	switch one := one.(type) {
	case fact.TrustChanged:
		if one.Rule != fact.RuleRestored {
			f.moved(one, e)
		}
	case fact.ProviderMoved:
		if one.From != one.To && one.Signal != Restoring {
			f.changed(e, fmt.Sprintf("%s is %s now, and was %s", named(one.Service), one.To, one.From))
		}
	case fact.VariableChanged:
		if one.Rule != Restoring {
			f.changed(e, variableChanged(one))
		}
	case fact.BackupMade:
		b := Backup{ID: one.Backup, Matrix: one.Matrix, Through: one.Through, URLs: one.URLs, Size: one.Size, Cause: one.Cause, Made: e.At, Message: one.Message.ID}
		f.state.Pending, f.state.At, f.state.Chosen = &made{b, one.Message, one.Note}, e.At, nil
		if one.Note != nil {
			f.state.Noted = max(f.state.Noted, one.Note.CreatedAt)
		}
		f.state.Known = append(f.state.Known[max(0, len(f.state.Known)-maxKnown+1):len(f.state.Known):len(f.state.Known)], b)
	case fact.BackupSent:
		f.sent(one, e.At)
	case fact.BackupFailed:
		f.failed(one, e)
	case fact.BackupChosen:
		f.state.Chosen = &one
	case fact.BackupRestored:
		f.state.Chosen, f.state.Over = nil, &one
	}
}

// moved compares trust with what the latest backup has: many small steps may add up to a significant change.
func (f *Fold) moved(c fact.TrustChanged, e fact.Entry) {
	entry := c.Task + "\x00" + c.Service.PubKey.Hex() + "\x00" + c.Service.D
	b, known := f.state.Bases.Get(entry)
	if !known {
		b.Trust = c.From
	}
	b.Seq = e.Seq
	f.state.Bases.Set(entry, b)
	if max(c.To-b.Trust, b.Trust-c.To) >= f.delta {
		f.changed(e, fmt.Sprintf("trust in %s with %s is %s now, and was %s", named(c.Service), guild.Cut(c.Task, 80), c.To, b.Trust))
	}
}

func (f *Fold) changed(e fact.Entry, cause string) {
	if f.state.Changed <= f.state.Covered {
		f.state.Since = e.At
	}
	f.state.Changed, f.state.Cause = e.Seq, cause
}

// named is a service for a person, whose key the verbs take as it is written here.
func named(s guild.Service) string {
	return fmt.Sprintf("%.10s… (%s)", nip19.EncodeNpub(s.PubKey), guild.Cut(s.D, 40))
}

// variableChanged says for a person what another value of a variable changes.
func variableChanged(c fact.VariableChanged) string {
	about := guild.Cut(c.Key, 80)
	switch {
	case c.Name == fact.TimeoutConfig:
		return "how long is waited for " + about
	case c.Name == fact.Parallelism && c.Key == "":
		return "how many requests are made at once"
	case c.Name == fact.Parallelism:
		if key, err := nostr.PubKeyFromHexCheap(c.Key); err == nil {
			about = fmt.Sprintf("%.10s…", nip19.EncodeNpub(key))
		}
		return "how many requests are made at once of " + about
	case c.Name == fact.CostBudget:
		return "the month's budget of " + about
	case c.Name == fact.ModelPreference:
		return "which models are preferred for " + about
	}
	return "the variable " + guild.Cut(c.Name, 80)
}

// sent forgets what is in the backup. What was moved while it was made may not be in it, and counts on.
func (f *Fold) sent(s fact.BackupSent, at int64) {
	p := f.state.Pending
	if p == nil || p.ID != s.Backup {
		return
	}
	now := *p
	now.Sent, now.Relays = at, s.Relays
	f.state.Pending, f.state.Last, f.state.Covered = nil, &now, p.Through
	f.state.Ended++
	f.note(now.Backup)
	var rest fold.Table[string, base]
	for entry, b := range f.state.Bases.All() {
		if b.Seq > p.Through {
			rest.Set(entry, b)
		}
	}
	f.state.Bases = rest
}

// failed leaves everything to the next significant change.
func (f *Fold) failed(one fact.BackupFailed, e fact.Entry) {
	if p := f.state.Pending; p != nil && p.ID == one.Backup {
		now := p.Backup
		now.Failed = one.Reason
		f.note(now)
		f.state.Pending = nil
	}
	f.state.Covered, f.state.At = e.Seq, e.At
	f.state.Ended++
}

// note replaces what is known of a backup.
func (f *Fold) note(b Backup) {
	known := slices.Clone(f.state.Known)
	for i := range known {
		if known[i].ID == b.ID {
			known[i] = b
		}
	}
	f.state.Known = known
}

// Freeze implements fold.Fold.
func (f *Fold) Freeze() func() ([]byte, error) {
	f.mu.Lock() // a copy of a table marks the original
	defer f.mu.Unlock()
	state := f.state
	state.Bases = f.state.Bases.Clone()
	return func() ([]byte, error) { return fold.Encode(state) }
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var fresh *folded
	if err := fold.Decode(b, &fresh); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if fresh == nil || fresh.Known == nil {
		return errors.New("backup: the snapshot is incomplete")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = *fresh
	return nil
}
