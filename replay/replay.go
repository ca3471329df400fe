// Package replay reads and writes trajectories in the format REPLAY.jsonl version 1 (the OpenAgents surface,
// "Trajectory Format"): one event per line, a header first, SessionStart second, SessionEnd last.
//
// Reading is lenient: unknown events and fields are kept as they came, statuses may be in lower case, and a
// faulty line is reported and passed over. Writing is strict: the order is enforced, times and hashes are
// checked, and each line is canonical JSON, so that the hash of a trajectory can be taken while it is written.
//
// What is written is what is hashed. So secrets are taken out before: Redact, RedactText and RedactJSON replace what is
// secret by its name or by its shape with a mark that says what was there, and leave everything else as it is. The
// Writer does not call them; whoever decides what belongs into a trajectory does. A hash beside a redacted text must be
// that of the redacted text where the text is there whole: from the hash of the other one, a short password could be
// found by trying. The hash of an output too long for its preview covers what nobody sees, and is that of the whole
// output as it was, which the format wants.
//
// A ReplayBundle, the older form of a trajectory, is read by FromBundle in both of its shapes and written by ToBundle.
// Compare sets two trajectories side by side.
package replay

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"guild/digest"
)

// Limits.
const (
	MaxLine    = 1 << 20 // bytes of one line that is read
	MaxPreview = 2000    // characters of a preview

	MaxMs    = 100 * 366 * 24 * 3600 * 1000 // ms that anything takes: 100 years
	MaxDelta = 1 << 30                      // of a verification, up or down; sums of deltas and of times have room
)

// Reasons why a line or a file is not what it should be.
var (
	ErrOrder      = errors.New("out of order")
	ErrIncomplete = errors.New("ends without SessionEnd")
	ErrTooLong    = errors.New("line too long")
	ErrValue      = errors.New("value not allowed")
)

// order is where an event may stand: header, SessionStart, anything else, SessionEnd, nothing.
type order struct {
	lines int // so far
	ended bool
}

// next takes the next event, or a line that could not be read ("").
func (o *order) next(name string) error {
	line, ended := o.lines, o.ended
	o.lines++
	o.ended = ended || name == "SessionEnd"
	switch {
	case ended:
		return fmt.Errorf("%.40s after SessionEnd: %w", name, ErrOrder)
	case name == "":
		return nil
	case (line == 0) != (name == "ReplayHeader"):
		return fmt.Errorf("%.40s as line %d: %w", name, line+1, ErrOrder)
	case (line == 1) != (name == "SessionStart"):
		return fmt.Errorf("%.40s as line %d: %w", name, line+1, ErrOrder)
	}
	return nil
}

func checkTime(s string) error {
	if _, err := time.Parse(time.RFC3339Nano, s); err != nil {
		return fmt.Errorf("time %.40q: %w", s, ErrValue)
	}
	return nil
}

// checkMs refuses what nothing takes, and what sums could overflow by. Below zero it says nothing: clocks are set back.
func checkMs(ms int64) error {
	if ms < -MaxMs || ms > MaxMs {
		return fmt.Errorf("%d ms: %w", ms, ErrValue)
	}
	return nil
}

func checkDelta(delta int) error {
	if delta < -MaxDelta || delta > MaxDelta {
		return fmt.Errorf("verification_delta %d: %w", delta, ErrValue)
	}
	return nil
}

func checkHash(s string) error {
	if _, err := digest.Parse(s); err != nil || !strings.HasPrefix(s, "sha256:") {
		return fmt.Errorf("hash %.80q: %w", s, ErrValue)
	}
	return nil
}

func both(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
