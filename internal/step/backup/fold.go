package backup

import (
	"fmt"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/policy"
)

// maxKnown limits the backups that are listed.
const maxKnown = 50

// Restoring is the signal of provider moves and the rule of variable changes that restore a backup. For trust the rule
// is fact.RuleRestored.
const Restoring = fact.RuleRestored

// Fold holds the changes since the latest backup, and the backups that were made.
type Fold struct {
	*fold.State[state]
	delta guild.Trust // the change of trust from which on it is significant
}

type state struct {
	Bases   fold.Table[string, base] `json:"bases"`   // trust that moved since the latest backup, by task and service
	Changed uint64                   `json:"changed"` // entry of the latest significant change
	Covered uint64                   `json:"covered"` // entry up to which changes are backed up, or given up
	Since   int64                    `json:"since"`   // Unix ms of the first change after Covered
	Cause   string                   `json:"cause"`   // the latest significant change, for a person
	At      int64                    `json:"at"`      // Unix ms of the latest backup that was made or given up; 0 if there is none
	Ended   int                      `json:"ended"`   // backups that were sent or given up
	Pending *made                    `json:"pending"` // made, but not sent yet
	Last    *made                    `json:"last"`    // the latest one that was sent
	Known   []Backup                 `json:"known"`   // at most maxKnown, the latest last
	Chosen  *fact.BackupChosen       `json:"chosen"`  // the one that is being restored
	Over    *fact.BackupRestored     `json:"over"`    // the latest one that was restored
	Noted   nostr.Timestamp          `json:"noted"`   // date of the latest note
}

// base is the trust in the latest backup.
type base struct {
	Trust guild.Trust `json:"trust"`
	Seq   uint64      `json:"seq"` // the entry that last moved it
}

// made is a backup and its message.
type made struct {
	Backup
	Event nostr.Event  `json:"event"`
	Note  *nostr.Event `json:"note,omitempty"`
}

// Backup describes a backup of this node to a person.
type Backup struct {
	ID      string     `json:"backup"` // hash of the sealed snapshot, hex
	Matrix  guild.Hash `json:"matrix"`
	Through uint64     `json:"through"` // the last entry that is certainly in it
	URLs    []string   `json:"urls"`
	Size    int64      `json:"size"` // bytes, sealed
	Cause   string     `json:"cause"`
	Made    int64      `json:"made"` // Unix ms
	Message nostr.ID   `json:"message"`

	Sent   int64    `json:"sent,omitempty"` // Unix ms; 0 until a relay has the message
	Relays []string `json:"relays,omitempty"`
	Failed string   `json:"failed,omitempty"` // why the message was given up
}

// NewFold returns an empty fold. The policy defines which changes are significant.
func NewFold(p policy.Backup) *Fold {
	return &Fold{State: fold.NewState[state]("backup", 2), delta: p.Delta}
}

// List lists the latest backups, the latest first.
func (f *Fold) List() []Backup {
	all := []Backup{} // not nil, so that it is an array in JSON
	f.View(func(s *state) { all = append(all, s.Known...) })
	slices.Reverse(all)
	return all
}

// Unfinished returns the backup that was being restored when the process died. Restoring it again completes it.
func (f *Fold) Unfinished() (backup string, ok bool) {
	chosen := f.view().Chosen
	if chosen == nil {
		return "", false
	}
	return chosen.Backup, true
}

// view returns the state without Bases and Known, which decisions do not need and which are expensive to copy.
func (f *Fold) view() state {
	return fold.Read(f.State, func(s *state) state {
		v := *s
		v.Bases, v.Known = fold.Table[string, base]{}, nil
		return v
	})
}

// find returns a known backup.
func (f *Fold) find(id string) (found Backup, ok bool) {
	f.View(func(s *state) {
		i := slices.IndexFunc(s.Known, func(b Backup) bool { return b.ID == id })
		if i >= 0 {
			found, ok = s.Known[i], true
		}
	})
	return found, ok
}

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	f.Change(func(s *state) {
		for _, one := range e.Facts {
			s.apply(one, e, f.delta)
		}
	})
}

func (s *state) apply(one fact.Fact, e fact.Entry, delta guild.Trust) {
	switch one := one.(type) {
	case fact.TrustChanged:
		if one.Rule != fact.RuleRestored {
			s.moved(one, e, delta)
		}
	case fact.ProviderMoved:
		if one.From != one.To && one.Signal != Restoring {
			s.changed(e, fmt.Sprintf("%s is now %s, was %s", named(one.Service), one.To, one.From))
		}
	case fact.VariableChanged:
		if one.Rule != Restoring {
			s.changed(e, variableChanged(one))
		}
	case fact.BackupMade:
		b := Backup{ID: one.Backup, Matrix: one.Matrix, Through: one.Through, URLs: one.URLs, Size: one.Size, Cause: one.Cause, Made: e.At, Message: one.Message.ID}
		s.Pending, s.At, s.Chosen = &made{b, one.Message, one.Note}, e.At, nil
		if one.Note != nil {
			s.Noted = max(s.Noted, one.Note.CreatedAt)
		}
		s.Known = append(s.Known[max(0, len(s.Known)-maxKnown+1):], b)
	case fact.BackupSent:
		s.sent(one, e.At)
	case fact.BackupFailed:
		s.failed(one, e)
	case fact.BackupChosen:
		s.Chosen = &one
	case fact.BackupRestored:
		s.Chosen, s.Over = nil, &one
	}
}

// moved compares trust with that in the latest backup, because many small steps may add up to a significant change.
func (s *state) moved(c fact.TrustChanged, e fact.Entry, delta guild.Trust) {
	entry := c.Task + "\x00" + c.Service.PubKey.Hex() + "\x00" + c.Service.D
	b, known := s.Bases.Get(entry)
	if !known {
		b.Trust = c.From
	}
	b.Seq = e.Seq
	s.Bases.Set(entry, b)
	if max(c.To-b.Trust, b.Trust-c.To) >= delta {
		s.changed(e, fmt.Sprintf("trust in %s with %s is now %s, was %s", named(c.Service), guild.Cut(c.Task, 80), c.To, b.Trust))
	}
}

func (s *state) changed(e fact.Entry, cause string) {
	if s.Changed <= s.Covered {
		s.Since = e.At
	}
	s.Changed, s.Cause = e.Seq, cause
}

// named formats a service for a person. Commands accept the key in this form.
func named(s guild.Service) string {
	return fmt.Sprintf("%.10s… (%s)", nip19.EncodeNpub(s.PubKey), guild.Cut(s.D, 40))
}

// variableChanged tells a person what a change of a variable affects.
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

// sent forgets the changes that are in the backup. Trust that moved while the backup was made may not be in it, and is
// kept.
func (s *state) sent(one fact.BackupSent, at int64) {
	p := s.Pending
	if p == nil || p.ID != one.Backup {
		return
	}
	now := *p
	now.Sent, now.Relays = at, one.Relays
	s.Pending, s.Last, s.Covered = nil, &now, p.Through
	s.Ended++
	s.note(now.Backup)
	var rest fold.Table[string, base]
	for entry, b := range s.Bases.All() {
		if b.Seq > p.Through {
			rest.Set(entry, b)
		}
	}
	s.Bases = rest
}

// failed gives up the changes so far. The next significant change makes another backup due.
func (s *state) failed(one fact.BackupFailed, e fact.Entry) {
	if p := s.Pending; p != nil && p.ID == one.Backup {
		now := p.Backup
		now.Failed = one.Reason
		s.note(now)
		s.Pending = nil
	}
	s.Covered, s.At = e.Seq, e.At
	s.Ended++
}

// note replaces the entry of a known backup.
func (s *state) note(b Backup) {
	known := slices.Clone(s.Known)
	for i := range known {
		if known[i].ID == b.ID {
			known[i] = b
		}
	}
	s.Known = known
}
