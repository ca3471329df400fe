package canon

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"guild/digest"
)

// Copy writes the canonical form of src, which is one JSON value, to dst. It processes arrays element by element. It
// keeps only objects in memory, because their members may have to be reordered. After an error, dst can contain a part
// of the output.
func Copy(dst io.Writer, src io.Reader) error {
	s := stream{in: bufio.NewReader(src), to: bufio.NewWriter(dst)}
	err := s.copy(0)
	if err == nil {
		err = s.trailing()
	}
	if err == nil {
		err = s.to.Flush()
	}
	if err != nil {
		return fmt.Errorf("canonical form: %w", err)
	}
	return nil
}

// HashOf returns the SHA-256 of the canonical form of src, which it reads like Copy.
func HashOf(src io.Reader) (digest.SHA256, error) {
	sum := sha256.New()
	if err := Copy(sum, src); err != nil {
		return digest.SHA256{}, err
	}
	return digest.SHA256(sum.Sum(nil)), nil
}

// stream processes the outermost arrays and passes their other elements to a writer.
type stream struct {
	in *bufio.Reader
	to *bufio.Writer // keeps the first error, and Flush returns it
	writer
}

// copy writes the next value.
func (s *stream) copy(depth int) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != '[' {
		return s.element(depth)
	}
	if depth >= MaxDepth {
		return ErrDepth
	}
	for first := true; ; first = false {
		s.to.WriteByte(c)
		s.in.Discard(1)
		if c, err = s.peek(); err != nil {
			return err
		}
		if c == ']' && first {
			break
		}
		if err := s.copy(depth + 1); err != nil {
			return err
		}
		if c, err = s.peek(); err != nil {
			return err
		}
		if c == ']' {
			break
		}
		if c != ',' {
			return fmt.Errorf("%w: unexpected %q in an array", ErrSyntax, c)
		}
	}
	s.in.Discard(1)
	s.to.WriteByte(']')
	return nil
}

// peek skips white space and returns the next byte without consuming it.
func (s *stream) peek() (byte, error) {
	for {
		b, err := s.in.Peek(1)
		if errors.Is(err, io.EOF) {
			return 0, errEnd
		}
		if err != nil {
			return 0, err
		}
		if !isSpace(b[0]) {
			return b[0], nil
		}
		s.in.Discard(1)
	}
}

// element writes a value that is not an array.
func (s *stream) element(depth int) error {
	if err := s.read(); err != nil {
		return err
	}
	s.at, s.out = 0, s.out[:0]
	if err := s.value(depth); err != nil {
		return err
	}
	if s.at < len(s.src) {
		return s.unexpected()
	}
	_, err := s.to.Write(s.out)
	return err
}

// read reads the bytes of a value that is not an array into src. It finds the end by quotes and brackets; value checks
// whether the bytes are JSON.
func (s *stream) read() error {
	s.src = s.src[:0]
	open, quoted := 0, false
	for {
		c, err := s.in.ReadByte()
		if errors.Is(err, io.EOF) && open == 0 && !quoted {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return errEnd
		}
		if err != nil {
			return err
		}
		if open == 0 && !quoted && len(s.src) > 0 && (isSpace(c) || bytes.IndexByte([]byte(",]"), c) >= 0) {
			return s.in.UnreadByte() // end of a number or literal
		}
		s.src = append(s.src, c)
		switch {
		case quoted && c == '\\':
			if c, err = s.in.ReadByte(); err == nil {
				s.src = append(s.src, c)
			}
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
		case c == '}' || c == ']':
			open--
		}
		if open <= 0 && !quoted && (c == '"' || c == '}' || c == ']') {
			return nil
		}
	}
}

// trailing returns an error if anything but white space follows.
func (s *stream) trailing() error {
	c, err := s.peek()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	case err != nil:
		return err
	case c == ']' || c == '}' || c == ',' || c == ':':
		return fmt.Errorf("%w: unexpected %q behind the value", ErrSyntax, c)
	}
	return ErrTrailing
}
