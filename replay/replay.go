// Package replay reads and writes trajectories in the format REPLAY.jsonl version 1 (the OpenAgents surface,
// "Trajectory Format"): one event per line, a header first, SessionStart second, SessionEnd last.
//
// Reading is lenient: unknown events and fields are kept unchanged, statuses can be in lower case, and a faulty line
// is reported and skipped. Writing is strict: Writer enforces the order, checks times and hashes, and writes each line
// as canonical JSON, so that it can compute the trajectory's hash as it writes.
//
// The hash covers the bytes that are written, so secrets must be removed first. Redact, RedactText and RedactJSON
// replace secrets, which they find by name or by shape, with a mark that names the kind, and change nothing else. The
// Writer does not call them; its caller decides what belongs in a trajectory. If a redacted text is recorded
// completely, the hash beside it must be that of the redacted text: from the hash of the original, a short password
// could be found by trial. If an output is too long for its preview, the hash is that of the whole original output, as
// the format requires: most of what it covers is not shown.
//
// FromBundle reads a ReplayBundle, the older form of a trajectory, in both of its shapes; ToBundle writes one. Compare
// aligns two trajectories.
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
	MaxLine    = 1 << 20 // bytes of one line
	MaxPreview = 2000    // characters of output_preview

	MaxMs    = 100 * 366 * 24 * 3600 * 1000 // 100 years in ms, the limit of any duration
	MaxDelta = 1 << 30                      // limit of verification_delta in both directions; sums of deltas and of times cannot overflow
)

// Reasons why a line or a file is refused.
var (
	ErrOrder      = errors.New("out of order")
	ErrIncomplete = errors.New("ends without SessionEnd")
	ErrTooLong    = errors.New("line too long")
	ErrValue      = errors.New("value not allowed")
)

// order enforces the order of events: header, SessionStart, any others, SessionEnd, end of file.
type order struct {
	lines int // so far
	ended bool
}

// next advances by one event and returns an error if it is out of order. The name of a line that could not be read is
// "".
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

// checkMs refuses durations whose sums could overflow. Negative ones are valid, because clocks can be set back.
func checkMs(ms int64) error {
	if ms < -MaxMs || ms > MaxMs {
		return fmt.Errorf("%d ms: %w", ms, ErrValue)
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
