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

// Line is one line as it was read.
type Line struct {
	Number int    // from 1
	Event  Event  // one of the types of this package, not a pointer
	Raw    []byte // as received, with the fields that Event does not have; Writer.WriteRaw writes it again

	canonical []byte
}

// LineError says what is wrong with one line. The lines after it are read all the same.
type LineError struct {
	Number int // from 1
	Err    error
}

func (e *LineError) Error() string { return fmt.Sprintf("replay: line %d: %v", e.Number, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Read reads a trajectory. A line that cannot be read comes as a *LineError with an empty Line; one that stands
// where it must not comes with both. Only an error of r, which is none, ends the sequence early. Blank lines
// are passed over.
func Read(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := reader{in: bufio.NewReader(r)}
		for {
			line, err := lines.next()
			if err == io.EOF {
				break
			}
			if !yield(line, err) || err != nil && !isLineError(err) {
				return
			}
		}
		if !lines.order.ended {
			yield(Line{}, &LineError{lines.number + 1, ErrIncomplete})
		}
	}
}

func isLineError(err error) bool {
	_, ok := errors.AsType[*LineError](err)
	return ok
}

// reader takes a file apart line by line.
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
			return Line{}, &LineError{r.number, errors.Join(err, r.order.next(""))}
		}
		if err := r.order.next(line.Event.EventName()); err != nil {
			return line, &LineError{r.number, err}
		}
		return line, nil
	}
}

// readLine reads up to the next line feed. A line over MaxLine is read to its end and ErrTooLong.
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

// decode reads one line, and returns its canonical form beside it.
func decode(raw []byte) (Event, []byte, error) {
	canonical, err := canon.Canonical(raw) // refuses what two readers could read differently
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

// TrajectoryHash is the canonical hash of the array of all events of a file. Any fault of the file is an error:
// what cannot be read whole has no hash.
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
