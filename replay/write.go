package replay

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"guild/canon"
	"guild/digest"
)

// Writer writes one trajectory.
type Writer struct {
	w     io.Writer
	order order
	hash  hash.Hash // over the array of lines so far, without the closing bracket
	err   error     // first error of w; nothing is written after it
}

// NewWriter returns a Writer to w. It calls w.Write once for each event.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, hash: sha256.New()}
}

// Write appends an event. It refuses an event that is out of order or has invalid values, and writes nothing then.
func (w *Writer) Write(e Event) error {
	if w.err != nil {
		return w.err
	}
	line, err := encode(e)
	if err != nil {
		return fmt.Errorf("replay: %.40s: %w", e.EventName(), err)
	}
	return w.append(e.EventName(), line)
}

// WriteRaw appends an event of another program, a JSON object, with its unknown fields. It enforces the order and
// MaxLine and that Read can parse the event. It does not check or correct the values, because the event must stay as
// its author wrote it.
func (w *Writer) WriteRaw(event []byte) error {
	if w.err != nil {
		return w.err
	}
	e, line, err := decode(event)
	if err != nil {
		return fmt.Errorf("replay: line %d: %w", w.order.lines+1, err)
	}
	if len(line)+1 > MaxLine {
		return fmt.Errorf("replay: line %d: %.40s of %d bytes: %w", w.order.lines+1, e.EventName(), len(line), ErrTooLong)
	}
	return w.append(e.EventName(), line)
}

// append writes a canonical line, if the order allows the event.
func (w *Writer) append(name string, line []byte) error {
	// A refused event must not change the order, so that the caller can go on with a valid one.
	after := w.order
	if err := after.next(name); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if _, err := w.w.Write(append(line, '\n')); err != nil {
		w.err = fmt.Errorf("replay: line %d: %w", after.lines, err)
		return w.err
	}
	addToHash(w.hash, line, after.lines)
	w.order = after
	return nil
}

// Close returns the trajectory hash, the first error of the io.Writer, or ErrIncomplete if there was no SessionEnd. It
// does not close the io.Writer.
func (w *Writer) Close() (digest.SHA256, error) {
	if w.err != nil {
		return digest.SHA256{}, w.err
	}
	if !w.order.ended {
		return digest.SHA256{}, fmt.Errorf("replay: %w", ErrIncomplete)
	}
	return sumOf(w.hash), nil
}

// encode completes an event, checks it and returns its canonical line.
func encode(e Event) ([]byte, error) {
	e, err := complete(e)
	if err != nil {
		return nil, err
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	if u, ok := e.(Unknown); ok {
		return canon.Canonical(u.Raw)
	}
	body, err := canon.Marshal(e)
	if err != nil {
		return nil, err
	}
	return canon.Canonical(append(fmt.Appendf(nil, `{"event":%q,`, e.EventName()), body[1:]...))
}

// complete sets optional fields that are empty and cuts the preview.
func complete(e Event) (Event, error) {
	switch e := e.(type) {
	case ReplayHeader:
		if e.Version == 0 {
			e.Version = 1
		}
		return e, nil
	case ToolCall:
		if len(e.Params) == 0 {
			e.Params = []byte("{}")
		}
		h, err := canon.Hash(e.Params)
		if e.ParamsHash == "" {
			e.ParamsHash = h.String()
		}
		return e, err
	case ToolResult:
		e.Preview = Preview(e.Preview)
		return e, nil
	}
	return e, nil
}

// addToHash adds the canonical line number n, counted from 1, to the hash of the array of all lines.
func addToHash(h hash.Hash, line []byte, n int) {
	if n == 1 {
		h.Write([]byte{'['})
	} else {
		h.Write([]byte{','})
	}
	h.Write(line)
}

// sumOf appends the closing bracket and returns the hash of the array.
func sumOf(h hash.Hash) digest.SHA256 {
	h.Write([]byte{']'})
	return digest.SHA256(h.Sum(nil))
}

// Check returns why Writer would refuse the values of an event; Read does not check them. It also requires that
// params_hash is the hash of the params.
func Check(e Event) error {
	if call, ok := e.(ToolCall); ok && len(call.Params) > 0 {
		h, err := canon.Hash(call.Params)
		if err != nil {
			return fmt.Errorf("params: %w", err)
		}
		if said, err := digest.Parse(call.ParamsHash); err == nil && said != h {
			return fmt.Errorf("params_hash %s, and that of the params is %s: %w", said, h, ErrValue)
		}
	}
	return e.check()
}
