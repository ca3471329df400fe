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

// JournalClosed says that the owner has closed the guard that the entry is under, while it was in quarantine. It is the last
// fact under the guard: nothing is decided or done under it any more. Written by journal.
type JournalClosed struct{}

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

// WitnessAsked says that a provider was asked to countersign a seal that covers a job of its. Written by audit.
type WitnessAsked struct {
	Provider   nostr.PubKey `json:"provider"`
	Size       uint64       `json:"size"` // entries that the seal covers
	Root       guild.Hash   `json:"root"`
	Checkpoint nostr.Event  `json:"checkpoint,omitzero"` // the event of the seal
	Failed     string       `json:"failed,omitempty"`    // why no relay took the question
}

// SealWitnessed carries the countersignature of a seal by a provider that was asked for it. Written by audit.
type SealWitnessed struct {
	Provider nostr.PubKey `json:"provider"`
	Size     uint64       `json:"size"` // entries that the seal covers
	Event    nostr.Event  `json:"event"`
}

// CheckpointWitnessed says that we have countersigned the checkpoint of a customer. Written by audit.
type CheckpointWitnessed struct {
	Customer nostr.PubKey `json:"customer"`
	Journal  string       `json:"journal"` // id of the customer's journal
	Size     uint64       `json:"size"`    // entries that the checkpoint covers
	Root     guild.Hash   `json:"root"`
	Entry    uint64       `json:"entry"`  // entries before the one with the receipt for our work
	Event    nostr.Event  `json:"event"`  // the countersignature
	Relays   []string     `json:"relays"` // to publish it to
}

// WitnessPublished says that a relay accepted a countersignature of ours, or why it was given up. Written by audit.
type WitnessPublished struct {
	Event  nostr.ID `json:"event"`
	Failed string   `json:"failed,omitempty"`
}

// Type returns the stored name.
func (WitnessAsked) Type() string { return "witness.asked" }

// Type returns the stored name.
func (SealWitnessed) Type() string { return "seal.witnessed" }

// Type returns the stored name.
func (CheckpointWitnessed) Type() string { return "checkpoint.witnessed" }

// Type returns the stored name.
func (WitnessPublished) Type() string { return "witness.published" }

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

// Type returns the stored name.
func (JournalClosed) Type() string { return "journal.closed" }
