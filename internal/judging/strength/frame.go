package strength

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// maxFrame limits a frame, in bytes; it is the examiner's own limit.
const maxFrame = 16 << 20

// Kinds of frames.
const (
	request = iota
	answer
	raised
	over // from the judge: this run of the test does not count
)

// frame is one message between examiner and subject. A request has thread, op and args, the others have a value. Values
// have the types of encoding/json, with numbers as json.Number.
type frame struct {
	kind, number, thread int64
	op                   string
	args                 []any
	value                any
	extra                map[string]any
}

// readFrame reads the bytes of one frame without its length.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, longError(n)
	}
	raw := make([]byte, n)
	_, err := io.ReadFull(r, raw)
	return raw, err
}

// longError is the length of a frame that is too long, in bytes.
type longError uint32

func (e longError) Error() string { return fmt.Sprintf("a message of %d bytes", uint32(e)) }

func writeFrame(w io.Writer, raw []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, len(raw)+4), uint32(len(raw))), raw...))
	return err
}

// parse reads the form that every frame has.
func parse(raw []byte) (frame, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var parts []any
	if err := d.Decode(&parts); err != nil {
		return frame{}, fmt.Errorf("a message that is not JSON: %w", err)
	}
	malformed := fmt.Errorf("a message of no known kind: %.100s", raw)
	if len(parts) != 4 && len(parts) != 6 {
		return frame{}, malformed
	}
	var f frame
	var ok [5]bool
	f.kind, ok[0] = integer(parts[0])
	f.number, ok[1] = integer(parts[1])
	f.extra, ok[2] = parts[len(parts)-1].(map[string]any)
	ok[3], ok[4] = true, true
	if f.kind == request && len(parts) == 6 {
		var named, listed bool
		f.thread, ok[3] = integer(parts[2])
		f.op, named = parts[3].(string)
		f.args, listed = parts[4].([]any)
		ok[4] = named && listed
	} else if f.kind == request || f.kind > over || len(parts) != 4 {
		return frame{}, malformed
	} else {
		f.value = parts[2]
	}
	if ok != [5]bool{true, true, true, true, true} || f.kind < 0 {
		return frame{}, malformed
	}
	return f, nil
}

func (f frame) encode() ([]byte, error) {
	parts := []any{f.kind, f.number, f.value, orEmpty(f.extra)}
	if f.kind == request {
		args := f.args
		if args == nil {
			args = []any{}
		}
		parts = []any{f.kind, f.number, f.thread, f.op, args, orEmpty(f.extra)}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(parts)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

func orEmpty(extra map[string]any) map[string]any {
	if extra == nil {
		return map[string]any{}
	}
	return extra
}

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

// tagged returns the tag and the payload of a value that is not plain.
func tagged(v any) (tag string, payload any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return "", nil
	}
	for tag, payload = range m {
	}
	return tag, payload
}

// numbered returns the number of a value that has one: of something known, or of something that the value defines.
func numbered(v any) (number int64, defines, ok bool) {
	tag, payload := tagged(v)
	if tag == "k" {
		number, ok = integer(payload)
		return number, false, ok
	}
	if tag == "p" {
		number, ok = integer(payload)
		return number, true, ok
	}
	parts, isList := payload.([]any)
	if !isList || len(parts) == 0 || tag == "t" || tag == "z" || tag == "c" || tag == "r" || tag == "l" || tag == "v" || tag == "a" {
		return 0, false, false
	}
	number, ok = integer(parts[0])
	return number, true, ok
}

func known(number int64) any { return map[string]any{"k": literal(number)} }

func literal(n int64) json.Number { return json.Number(fmt.Sprint(n)) }

// each calls f for a value and all values in it, in order.
func each(v any, f func(any)) {
	f(v)
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			each(x, f)
		}
	case map[string]any:
		for _, x := range v {
			each(x, f)
		}
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
