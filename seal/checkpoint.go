package seal

import (
	"fmt"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
)

// Kind is the kind of a checkpoint's event. It is a regular kind: relays keep all such events.
const Kind = 2024

// Limits of a checkpoint, in bytes.
const (
	maxContent = 1 << 10
	maxJournal = 64
)

// Checkpoint is a statement about a journal up to one entry.
type Checkpoint struct {
	Journal string     `json:"journal"` // id of the journal: at most 64 letters, digits, dashes and underscores
	Size    uint64     `json:"size"`    // number of entries from the first on
	Root    guild.Hash `json:"root"`    // of the tree over these entries
}

// Event returns the unsigned event of a checkpoint, with the canonical JSON of c as content. at is Unix s. The tags
// are for searches: the journal (d) and the root (x). Both are also in the content.
func (c Checkpoint) Event(at int64) nostr.Event {
	// Writing the JSON directly cannot fail: a checkpoint has no value without a JSON form.
	content := fmt.Sprintf(`{"journal":%q,"root":%q,"size":%d}`, c.Journal, c.Root, c.Size)
	return nostr.Event{
		Kind: Kind, CreatedAt: nostr.Timestamp(at), Content: content,
		Tags: nostr.Tags{{"d", c.Journal}, {"x", c.Root.Hex()}},
	}
}

// ParseCheckpoint reads a checkpoint from its event, whose author is the owner of the journal.
func ParseCheckpoint(v guild.Verified) (Checkpoint, error) {
	e := v.Event()
	if e.Kind != Kind {
		return Checkpoint{}, fmt.Errorf("event %.8s of kind %d is not a checkpoint: %w", e.ID.Hex(), e.Kind, ErrInvalid)
	}
	var c Checkpoint
	if err := decode([]byte(e.Content), maxContent, &c); err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint %.8s: %w", e.ID.Hex(), err)
	}
	if err := c.Validate(); err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint %.8s: %w", e.ID.Hex(), err)
	}
	return c, nil
}

// Validate returns an error if no journal can have this checkpoint.
func (c Checkpoint) Validate() error {
	switch {
	case c.Journal == "" || len(c.Journal) > maxJournal || strings.ContainsFunc(c.Journal, notInJournal):
		return fmt.Errorf("%.80q is not the id of a journal: %w", c.Journal, ErrInvalid)
	case c.Size == 0 || c.Size > MaxSize:
		return fmt.Errorf("a tree of %d entries: %w", c.Size, ErrInvalid)
	case c.Root.IsZero():
		return fmt.Errorf("a tree without a root: %w", ErrInvalid)
	}
	return nil
}

func notInJournal(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}
