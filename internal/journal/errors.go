package journal

import (
	"errors"
	"fmt"
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
)

// Repairing is the command that a *DamagedError names.
const Repairing = "guild journal repair"

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
		{ErrArchiveGone, "put it back where it was; archive files belong to the journal"},
	}
}

func damaged(format string, args ...any) error {
	return &DamagedError{What: fmt.Sprintf(format, args...), Remedy: Repairing}
}
