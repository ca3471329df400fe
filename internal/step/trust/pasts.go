package trust

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"guild"
)

// pasts holds the changes of a standing. A snapshot contains as many as a year has verdicts. They are written as binary
// numbers, because reading them as JSON would delay a start by several seconds.
type pasts []Past

// Flags of a change in a snapshot.
const (
	flagFirst = 1
	flagHeld  = 2 // the amount follows
)

// MarshalText writes each change as the differences to the one before, in base64.
func (p pasts) MarshalText() ([]byte, error) {
	b := make([]byte, 0, 40*len(p))
	var last Past
	for _, c := range p {
		flags := int64(0)
		if c.First {
			flags = flagFirst
		}
		if c.Held != 0 {
			flags |= flagHeld
		}
		for _, n := range []int64{int64(c.Seq - last.Seq), c.At - last.At, int64(c.From), int64(c.To), int64(c.Confidence), flags} {
			b = binary.AppendVarint(b, n)
		}
		if c.Held != 0 {
			b = binary.AppendVarint(b, int64(c.Held))
		}
		b = appendWord(appendWord(b, c.Rule), c.Pattern)
		last = c
	}
	return base64.RawStdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText reads the form that MarshalText writes.
func (p *pasts) UnmarshalText(text []byte) error {
	b, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil {
		return err
	}
	var all pasts
	var last Past
	for len(b) > 0 {
		if len(all) == maxPast {
			return errors.New("too many changes of one standing")
		}
		var n [6]int64
		for i := range n {
			size := 0
			if n[i], size = binary.Varint(b); size <= 0 {
				return errShort
			}
			b = b[size:]
		}
		c := Past{Seq: last.Seq + uint64(n[0]), At: last.At + n[1], First: n[5]&flagFirst != 0}
		c.From, c.To, c.Confidence = guild.Trust(n[2]), guild.Trust(n[3]), guild.Trust(n[4])
		if n[5]&flagHeld != 0 {
			held, size := binary.Varint(b)
			if size <= 0 {
				return errShort
			}
			c.Held, b = guild.Trust(held), b[size:]
		}
		if c.Rule, b, err = word(b); err != nil {
			return err
		}
		if c.Pattern, b, err = word(b); err != nil {
			return err
		}
		all, last = append(all, c), c
	}
	*p = all
	return nil
}

var errShort = errors.New("the changes of a standing are cut off")

func appendWord(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func word(b []byte) (string, []byte, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, errShort
	}
	b = b[size:]
	return string(b[:n]), b[n:], nil
}
