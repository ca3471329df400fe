package fact

import (
	"fiatjaf.com/nostr"

	"guild"
)

// JournalSubject is the guard of decisions about the journal itself.
const JournalSubject Subject = "journal.self"

// JournalArchived says that the entries through Through are in archive files, of which File is the last, and no longer in the
// stream. Written by journal.
type JournalArchived struct {
	Through uint64 `json:"through"` // the last archived entry
	Root    string `json:"root"`    // of the Merkle tree over the archived entries, in hex
	File    string `json:"file"`    // its name in the directory archive
	Hash    string `json:"hash"`    // SHA-256 of the file, in hex
}

// JournalRepaired records a repair of the journal. Written by journal.
type JournalRepaired struct {
	Kept    uint64   `json:"kept"` // entries kept
	Dropped []uint64 `json:"dropped,omitempty"`
	Reason  string   `json:"reason"`

	// Quarantined lists the guards that lost entries, or may have. Nothing is decided under them until they are released. The
	// journal's own guards may be among them, and stay usable.
	Quarantined []Subject `json:"quarantined,omitempty"`
}

// JournalReleased says that the owner has taken a guard out of quarantine. Written by journal.
type JournalReleased struct {
	Guard Subject `json:"guard"`
}

// SealSubject is the guard of the journal's seals.
const SealSubject Subject = "seal.journal"

// JournalSealed carries a signed checkpoint of the journal, so that publishing it again is the same event. Written by audit.
type JournalSealed struct {
	Size  uint64      `json:"size"` // entries that it covers
	Root  guild.Hash  `json:"root"` // of the Merkle tree over them
	Event nostr.Event `json:"event"`
}

// SealPublished says that a relay accepted a checkpoint. Written by audit.
type SealPublished struct {
	Seal   nostr.ID `json:"seal"` // id of the event
	Relays []string `json:"relays"`
}

// Type returns the stored name.
func (JournalSealed) Type() string { return "journal.sealed" }

// Type returns the stored name.
func (SealPublished) Type() string { return "seal.published" }

// Type returns the stored name.
func (JournalArchived) Type() string { return "journal.archived" }

// Type returns the stored name.
func (JournalRepaired) Type() string { return "journal.repaired" }

// Type returns the stored name.
func (JournalReleased) Type() string { return "journal.released" }
