package fact

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
}

// Type returns the stored name.
func (JournalArchived) Type() string { return "journal.archived" }

// Type returns the stored name.
func (JournalRepaired) Type() string { return "journal.repaired" }
