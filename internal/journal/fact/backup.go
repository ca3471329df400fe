package fact

import (
	"fiatjaf.com/nostr"

	"guild"
)

// BackupSubject is the guard of all backups.
const BackupSubject Subject = "backup.all"

// BackupMade says that the trust matrix was encrypted and stored, and carries the signed message that names the copy. Written by
// backup.
type BackupMade struct {
	Backup  string      `json:"backup"`  // its id: the hash of the encrypted snapshot, in hex
	Matrix  guild.Hash  `json:"matrix"`  // hash of the matrix in it
	Through uint64      `json:"through"` // the last entry in it
	URLs    []string    `json:"urls"`    // of the encrypted snapshot
	Size    int64       `json:"size"`
	Cause   string      `json:"cause"`   // why it was made
	Message nostr.Event `json:"message"` // the gift wrap (NIP-17) to ourselves

	Note *nostr.Event `json:"note,omitempty"` // the same as a note (NIP-78), which can be found by its author
}

// BackupSent says that a relay accepted the message. Written by backup.
type BackupSent struct {
	Backup string   `json:"backup"`
	Relays []string `json:"relays"`
}

// BackupFailed says that a backup was given up. The next significant change makes another one due. Written by backup.
type BackupFailed struct {
	Backup string `json:"backup,omitempty"` // "" if none could be made
	Reason string `json:"reason"`
}

// BackupChosen says that the matrix is going to be restored from a backup. No backup is due until that is done, since it would be
// incomplete; a person may still have one made. Written by backup.
type BackupChosen struct {
	Backup string     `json:"backup"`
	Matrix guild.Hash `json:"matrix"`
	Made   int64      `json:"made"` // Unix ms
}

// BackupRestored says that the matrix was restored from a backup. Written by backup, after the last part.
type BackupRestored struct {
	Backup    string     `json:"backup"`
	Matrix    guild.Hash `json:"matrix"`
	Services  int        `json:"services"`
	Made      int64      `json:"made"`      // Unix ms
	Unclaimed int        `json:"unclaimed"` // services in it that are not announced any more
}

// Type returns the stored name.
func (BackupMade) Type() string { return "backup.made" }

// Type returns the stored name.
func (BackupSent) Type() string { return "backup.sent" }

// Type returns the stored name.
func (BackupFailed) Type() string { return "backup.failed" }

// Type returns the stored name.
func (BackupChosen) Type() string { return "backup.chosen" }

// Type returns the stored name.
func (BackupRestored) Type() string { return "backup.restored" }
