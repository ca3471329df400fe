package journal

import (
	"errors"
	"fmt"

	"guild/internal/journal/fact"
)

// Errors that callers branch on. Each is matched with errors.Is; Hint says what a person can do about it.
var (
	// ErrNotInitialised means that the directory holds no journal.
	ErrNotInitialised = errors.New("no journal here")
	// ErrInitialised means that the directory already holds a journal, or remains of one.
	ErrInitialised = errors.New("there is a journal here already")
	// ErrLocked means that another process has the journal open. It comes as a *LockedError.
	ErrLocked = errors.New("the journal is in use")
	// ErrClock means that the wall clock is more than a minute before the last fact.
	ErrClock = errors.New("the clock is behind the journal")
	// ErrFull means that the disk has no room left for facts.
	ErrFull = errors.New("the disk is full")
	// ErrTooLarge means that an entry is larger than fact.MaxEntry.
	ErrTooLarge = errors.New("the entry is too large")
	// ErrClosed means that the journal was closed.
	ErrClosed = errors.New("the journal is closed")
	// ErrUnknown means that nobody can tell yet whether the decision was recorded: the journal stopped
	// answering before it said so. The decision must be taken again, from the state as it will be then.
	ErrUnknown = errors.New("the journal did not answer")
	// ErrNoEntry means that the journal holds no entry of that sequence.
	ErrNoEntry = errors.New("no such entry")
	// ErrSubject means that a guard is not "noun.id" in letters, digits, dashes and underscores.
	ErrSubject = errors.New("not a subject")
	// ErrQuarantined means that entries of a guard are lost, so that nothing is decided under it until it is released.
	// It comes as a *QuarantinedError.
	ErrQuarantined = errors.New("in quarantine since the journal was repaired: entries of it are lost")
	// ErrNotQuarantined means that a guard that is to be released is not in quarantine.
	ErrNotQuarantined = errors.New("not in quarantine")
)

// Repairing is the command that a *DamagedError names.
const Repairing = "guild journal repair"

// Releasing is the command that a *QuarantinedError names, without the guard.
const Releasing = "guild journal release"

// DamagedError says that the journal on disk is not what was written there. Nothing is appended to such a
// journal and nothing in it is changed.
type DamagedError struct {
	What   string // what was found, for a person
	Remedy string // the command to run
}

// Error says what was found.
func (e *DamagedError) Error() string { return "the journal is damaged: " + e.What }

// Hint says what to run.
func (e *DamagedError) Hint() string {
	return "run '" + e.Remedy + "': it keeps a copy of everything before it changes anything"
}

// LockedError says who has the journal open.
type LockedError struct {
	Dir string
	PID int // 0 if not known
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

// QuarantinedError says which guard is in quarantine.
type QuarantinedError struct{ Guard fact.Subject }

// Error names the guard.
func (e *QuarantinedError) Error() string { return fmt.Sprintf("%s is %v", e.Guard, ErrQuarantined) }

// Is makes the error match ErrQuarantined.
func (e *QuarantinedError) Is(target error) bool { return target == ErrQuarantined }

// Hint says how it goes on.
func (e *QuarantinedError) Hint() string {
	return "'" + Releasing + " " + string(e.Guard) + "' lets it go on; what was lost of it may then be done again"
}

// ObstacleError says that a directory is where a file of the journal belongs, or the other way round.
type ObstacleError struct {
	Path string
	Want string // what belongs there: "a file" or "a directory"
}

// Error says what is in the way.
func (e *ObstacleError) Error() string { return fmt.Sprintf("%s is not %s", e.Path, e.Want) }

// Hint says what to do with it.
func (e *ObstacleError) Hint() string { return "move it away: what belongs there is made again" }

// Hint says what a person can do about err, or "" if this package knows nothing better than the error itself.
func Hint(err error) string {
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		return damaged.Hint()
	}
	if obstacle, ok := errors.AsType[*ObstacleError](err); ok {
		return obstacle.Hint()
	}
	if quarantined, ok := errors.AsType[*QuarantinedError](err); ok {
		return quarantined.Hint()
	}
	for _, h := range hints() {
		if errors.Is(err, h.err) {
			return h.hint
		}
	}
	return ""
}

type hint struct {
	err  error
	hint string
}

func hints() []hint {
	return []hint{
		{ErrNotInitialised, "run 'guild init' first"},
		{ErrInitialised, "choose another directory, or use this one as it is"},
		{ErrLocked, "stop the other process, or talk to it instead of opening its directory"},
		{ErrClock, "set the clock right; facts are never dated back"},
		{ErrFull, "free some space on the disk; running jobs go on recording while they can"},
		{ErrTooLarge, "what is large belongs in a blob"},
		{ErrNotQuarantined, "guild status lists what is in quarantine"},
		{ErrArchiveGone, "put it back where it was; archive files belong to the journal"},
	}
}

func damaged(format string, args ...any) error {
	return &DamagedError{What: fmt.Sprintf(format, args...), Remedy: Repairing}
}
