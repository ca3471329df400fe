package replay

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"

	"guild/canon"
	"guild/digest"
)

// Line is one line as Read returns it.
type Line struct {
	Number int    // from 1
	Event  Event  // one of the types of this package, not a pointer
	Raw    []byte // as received, with unknown fields; Writer.WriteRaw accepts it

	canonical []byte
}

// LineError reports a faulty line. Read continues with the next one.
type LineError struct {
	Number int // from 1
	Err    error
}

func (e *LineError) Error() string { return fmt.Sprintf("replay: line %d: %v", e.Number, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Read returns the lines of a trajectory. For a line that cannot be parsed it yields an empty Line and a *LineError;
// for a valid line at a wrong place, the line and a *LineError. Only an error of r, which is not a *LineError, ends
// the sequence early. Blank lines are skipped.
func Read(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := reader{in: bufio.NewReader(r)}
		for {
			line, err := lines.next()
			if err == io.EOF {
				break
			}
			_, faulty := errors.AsType[*LineError](err)
			if !yield(line, err) || err != nil && !faulty {
				return
			}
		}
		if !lines.order.ended {
			yield(Line{}, &LineError{lines.number + 1, ErrIncomplete})
		}
	}
}

// reader splits a file into lines.
type reader struct {
	in     *bufio.Reader
	number int
	order  order
}

// next returns the next line that is not blank, or io.EOF.
func (r *reader) next() (Line, error) {
	for {
		raw, err := r.readLine()
		if err != nil && !errors.Is(err, ErrTooLong) {
			return Line{}, err
		}
		r.number++
		if err == nil && len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		line := Line{Number: r.number, Raw: raw}
		if err == nil {
			line.Event, line.canonical, err = decode(raw)
		}
		if err != nil {
			// An unreadable line keeps its place in the order. Otherwise one broken header would make every later line an
			// error.
			return Line{}, &LineError{r.number, errors.Join(err, r.order.next(""))}
		}
		if err := r.order.next(line.Event.EventName()); err != nil {
			return line, &LineError{r.number, err}
		}
		return line, nil
	}
}

// readLine returns the next line without its line end. It reads and discards the whole of a line over MaxLine and
// returns ErrTooLong, so that the next call starts at the next line.
func (r *reader) readLine() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > MaxLine; !long {
			line = append(line, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || len(line) == 0 && !long):
			return nil, err
		case long:
			return nil, fmt.Errorf("over %d bytes: %w", MaxLine, ErrTooLong)
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// decode parses one line and returns the event and its canonical form.
func decode(raw []byte) (Event, []byte, error) {
	canonical, err := canon.Canonical(raw) // refuses JSON that two parsers could read differently
	if err != nil {
		return nil, nil, err
	}
	var head struct {
		Event string `json:"event"`
	}
	if err := json.Unmarshal(canonical, &head); err != nil {
		return nil, nil, err
	}
	if head.Event == "" {
		return nil, nil, fmt.Errorf("no event field: %w", ErrValue)
	}
	e, err := decodeAs(head.Event, canonical)
	if err != nil {
		return nil, nil, fmt.Errorf("%.40s: %w", head.Event, err)
	}
	return e, canonical, nil
}

func decodeAs(name string, raw []byte) (Event, error) {
	switch name {
	case "ReplayHeader":
		e, err := read[ReplayHeader](raw)
		if err == nil && e.Version != 1 {
			err = fmt.Errorf("replay_version %d: %w", e.Version, ErrValue)
		}
		return e, err
	case "SessionStart":
		return read[SessionStart](raw)
	case "PlanStart":
		return read[PlanStart](raw)
	case "ToolCall":
		return read[ToolCall](raw)
	case "ToolResult":
		return read[ToolResult](raw)
	case "StepComplete":
		return read[StepComplete](raw)
	case "Verification":
		return read[Verification](raw)
	case "SessionEnd":
		return read[SessionEnd](raw)
	}
	return Unknown{name, raw}, nil
}

func read[T Event](raw []byte) (T, error) {
	var e T
	err := json.Unmarshal(raw, &e)
	return e, err
}

// TrajectoryHash returns the canonical hash of the array of all events of a file. Any faulty line is an error: a file
// that cannot be read completely has no hash.
func TrajectoryHash(r io.Reader) (digest.SHA256, error) {
	h := sha256.New()
	n := 0
	for line, err := range Read(r) {
		if err != nil {
			return digest.SHA256{}, err
		}
		n++
		addToHash(h, line.canonical, n)
	}
	return sumOf(h), nil
}
