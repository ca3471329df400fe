package canon

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
)

// Copy writes the canonical form of src, which is one JSON value, to dst. Arrays pass through element by element: only
// an object is kept in memory until it ends, for its members may have to change places. After an error, dst may have
// been written to.
func Copy(dst io.Writer, src io.Reader) error {
	s := stream{
		in:  jsontext.NewDecoder(src, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), // writer looks
		out: bufio.NewWriter(dst),
	}
	err := s.value(0)
	if err == nil {
		err = s.end()
	}
	if err == nil {
		err = s.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("canonical form: %w", err)
	}
	return nil
}

// HashOf is the SHA-256 of the canonical form of src, read as Copy reads it.
func HashOf(src io.Reader) (h guild.Hash, err error) {
	sum := sha256.New()
	if err := Copy(sum, src); err != nil {
		return guild.Hash{}, err
	}
	return guild.Hash(sum.Sum(nil)), nil
}

// stream goes through the arrays that are outermost, and leaves what is in them to a writer.
type stream struct {
	in  *jsontext.Decoder
	out *bufio.Writer
	writer
}

func (s *stream) value(depth int) error {
	if s.in.PeekKind() != '[' {
		return s.element(depth)
	}
	if depth >= MaxDepth {
		return ErrDepth
	}
	if _, err := s.in.ReadToken(); err != nil {
		return syntax(err)
	}
	s.out.WriteByte('[') // the first error stays, and Flush returns it
	for first := true; s.in.PeekKind() != ']'; first = false {
		if !first {
			s.out.WriteByte(',')
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
	_, err := s.in.ReadToken()
	s.out.WriteByte(']')
	return syntax(err)
}

// element is whatever is no array.
func (s *stream) element(depth int) error {
	raw, err := s.in.ReadValue()
	if err != nil {
		return syntax(err)
	}
	s.src, s.at, s.writer.out = raw, 0, s.writer.out[:0]
	if err := s.writer.value(depth); err != nil {
		return err
	}
	_, err = s.out.Write(s.writer.out)
	return err
}

func (s *stream) end() error {
	switch _, err := s.in.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return ErrTrailing
	default:
		return syntax(err)
	}
}

// syntax tells what is wrong with the JSON from what is wrong with its source.
func syntax(err error) error {
	if _, ok := errors.AsType[*jsontext.SyntacticError](err); ok || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return err
}
