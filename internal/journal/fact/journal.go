package fact

import (
	"fiatjaf.com/nostr"

	"guild"
)

// JournalSubject is the boundary of what is decided about the journal itself.
const JournalSubject Subject = "journal.self"

// JournalArchived says that the entries up to Through are in an archive file and no longer in the stream.
// Written by journal.
type JournalArchived struct {
	Through uint64 `json:"through"` // last sequence archived
	Root    string `json:"root"`    // hash over the archived entries, bare hex
	File    string `json:"file"`    // name under archive/
	Hash    string `json:"hash"`    // sha256 of that file, bare hex
}

// JournalRepaired says what `guild journal repair` found and did. Written by journal.
type JournalRepaired struct {
	Kept    uint64   `json:"kept"` // entries kept
	Dropped []uint64 `json:"dropped,omitempty"`
	Reason  string   `json:"reason"`

	// Quarantined are the guards whose history has a hole, or may have one: nothing is decided under them until they are
	// released. The journal's own may be among them, which is never closed.
	Quarantined []Subject `json:"quarantined,omitempty"`
}

// JournalReleased says that the owner lets a guard go on that a repair had put into quarantine. Written by journal.
type JournalReleased struct {
	Guard Subject `json:"guard"`
}

// SealSubject is the boundary of the journal's seals.
const SealSubject Subject = "seal.journal"

// JournalSealed carries a signed checkpoint of the journal, so that publishing it again publishes the same. Written by
// audit.
type JournalSealed struct {
	Size  uint64      `json:"size"` // entries that it covers
	Root  guild.Hash  `json:"root"` // of the Merkle tree over them
	Event nostr.Event `json:"event"`
}

// SealPublished says that a relay took a checkpoint. Written by audit.
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
