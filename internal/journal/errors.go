package journal

import (
	"errors"
	"fmt"

	"guild/internal/journal/fact"
)

// Errors to match with errors.Is. Hint says what a person can do about them.
var (
	// ErrNotInitialised means that the directory holds no journal.
	ErrNotInitialised = errors.New("no journal here")
	// ErrInitialised means that the directory already holds a journal, or parts of one.
	ErrInitialised = errors.New("there is a journal here already")
	// ErrLocked means that another process has the journal open. The error is a *LockedError.
	ErrLocked = errors.New("the journal is in use")
	// ErrClock means that the wall clock is more than a minute behind the last entry.
	ErrClock = errors.New("the clock is behind the journal")
	// ErrFull means that the disk has too little free space.
	ErrFull = errors.New("the disk is full")
	// ErrTooLarge means that an entry is larger than fact.MaxEntry.
	ErrTooLarge = errors.New("the entry is too large")
	// ErrClosed means that the journal was closed.
	ErrClosed = errors.New("the journal is closed")
	// errUnknown means that a decision may or may not have been recorded: the server stopped answering before it said so. The
	// caller must decide again, from the state as it is then.
	errUnknown = errors.New("the journal did not answer")
	// ErrNoEntry means that the journal holds no entry of that sequence.
	ErrNoEntry = errors.New("no such entry")
	// ErrSubject means that a guard is not "noun.id" in letters, digits, dashes and underscores.
	ErrSubject = errors.New("not a subject")
	// ErrQuarantined means that a guard has lost entries and nothing can be decided under it before Release, or ever if it was
	// closed.
	ErrQuarantined = errors.New("in quarantine since the journal was repaired: entries of it are lost")
	// ErrNotQuarantined means that a guard cannot be released, since it is not in quarantine.
	ErrNotQuarantined = errors.New("not in quarantine")
)

// Repairing is the command in the hint of a *DamagedError.
const Repairing = "guild journal repair"

// Releasing is the command in the hint of ErrQuarantined, without the guard.
const Releasing = "guild journal release"

// DamagedError means that the journal on disk differs from what was written. Nothing is appended to such a journal, and
// nothing in it is changed.
type DamagedError struct {
	What   string // the damage, for a person
	Remedy string // the command to run
}

// Error describes the damage.
func (e *DamagedError) Error() string { return "the journal is damaged: " + e.What }

// Hint names the command to run.
func (e *DamagedError) Hint() string {
	return "run '" + e.Remedy + "': it keeps a copy before it changes anything"
}

// LockedError means that another process has the journal open.
type LockedError struct {
	Dir string
	PID int // of the process, 0 if unknown
}

// Error names the process if it is known.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: %v", e.Dir, ErrLocked)
	}
	return fmt.Sprintf("%s: %v by process %d", e.Dir, ErrLocked, e.PID)
}

// Is makes the error match ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// quarantinedError is ErrQuarantined of a guard.
type quarantinedError struct {
	guard  fact.Subject
	closed bool
}

func (e *quarantinedError) Error() string {
	if e.closed {
		return fmt.Sprintf("%s was closed in quarantine: entries of it are lost", e.guard)
	}
	return fmt.Sprintf("%s is %v", e.guard, ErrQuarantined)
}

func (e *quarantinedError) Is(target error) bool { return target == ErrQuarantined }

func (e *quarantinedError) hint() string {
	if e.closed {
		return ""
	}
	return "'" + Releasing + " " + string(e.guard) + "' lets it go on; what was lost of it may then be done again"
}

// ObstacleError means that there is a directory in the place of one of the journal's files, or a file in that of a directory.
type ObstacleError struct {
	Path string
	Want string // "a file" or "a directory"
}

// Error names the path and what should be there.
func (e *ObstacleError) Error() string { return fmt.Sprintf("%s is not %s", e.Path, e.Want) }

// Hint says what to do.
func (e *ObstacleError) Hint() string { return "move it away: what belongs there is made again" }

// Hint returns what a person can do about err, or "" if there is nothing to add to it.
func Hint(err error) string {
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		return damaged.Hint()
	}
	if obstacle, ok := errors.AsType[*ObstacleError](err); ok {
		return obstacle.Hint()
	}
	if quarantined, ok := errors.AsType[*quarantinedError](err); ok {
		return quarantined.hint()
	}
	for _, h := range []struct {
		err  error
		hint string
	}{
		{ErrNotInitialised, "run 'guild init' first"},
		{ErrInitialised, "choose another directory, or use this one as it is"},
		{ErrLocked, "stop the other process, or talk to it instead of opening its directory"},
		{ErrClock, "set the clock right; facts are never dated back"},
		{ErrFull, "free some space on the disk; running jobs go on recording while they can"},
		{ErrTooLarge, "what is large belongs in a blob"},
		{ErrNotQuarantined, "guild status lists what is in quarantine"},
		{ErrArchiveGone, "put it back where it was; archive files belong to the journal"},
	} {
		if errors.Is(err, h.err) {
			return h.hint
		}
	}
	return ""
}

func damaged(format string, args ...any) error {
	return &DamagedError{What: fmt.Sprintf(format, args...), Remedy: Repairing}
}
