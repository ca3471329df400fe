package fact

import (
	"fiatjaf.com/nostr"

	"guild"
)

// BackupSubject is the boundary of all backups.
const BackupSubject Subject = "backup.all"

// BackupMade says that the matrix was sealed and stored, and carries the signed message that names it. Written by backup.
type BackupMade struct {
	Backup  string      `json:"backup"`  // its id: the hash of the sealed snapshot, hex
	Matrix  guild.Hash  `json:"matrix"`  // what it restores
	Through uint64      `json:"through"` // the last entry in it
	URLs    []string    `json:"urls"`    // where the sealed snapshot is
	Size    int64       `json:"size"`
	Cause   string      `json:"cause"`   // what made it due
	Message nostr.Event `json:"message"` // the gift wrap (NIP-17) to ourselves

	Note *nostr.Event `json:"note,omitempty"` // the same in a note of ours (NIP-78), which can be asked for by its author
}

// BackupSent says that a relay took the message. Written by backup.
type BackupSent struct {
	Backup string   `json:"backup"`
	Relays []string `json:"relays"`
}

// BackupFailed says that it was given up; the next significant change makes another. Written by backup.
type BackupFailed struct {
	Backup string `json:"backup,omitempty"` // "" when it could not be made at all
	Reason string `json:"reason"`
}

// BackupChosen says that the matrix is about to be taken over from a backup. Until that is done, or a person has a backup
// made, there is none: it would be of a part. Written by backup.
type BackupChosen struct {
	Backup string     `json:"backup"`
	Matrix guild.Hash `json:"matrix"`
	Made   int64      `json:"made"` // Unix ms
}

// BackupRestored says that the matrix was taken over from a backup. Written by backup, after all of it is there.
type BackupRestored struct {
	Backup    string     `json:"backup"`
	Matrix    guild.Hash `json:"matrix"`
	Services  int        `json:"services"`
	Made      int64      `json:"made"`      // Unix ms
	Unclaimed int        `json:"unclaimed"` // services of it that nobody announces any more
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
