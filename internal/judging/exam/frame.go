package exam

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// maxFrame limits one frame of a channel, in bytes.
const maxFrame = 64 << 10

// newChannel returns the judge's end of a channel to a run, and the end to pass as sandbox.IO.Channel.
func newChannel() (ours net.Conn, theirs *os.File, err error) {
	ends, err := channelPair()
	if err != nil {
		return nil, nil, err
	}
	defer ends[0].Close()
	if ours, err = net.FileConn(ends[0]); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("channel: %w", err), ends[1].Close())
	}
	return ours, ends[1], nil
}

// writeFrame writes the length in four bytes, and then the bytes.
func writeFrame(w io.Writer, b []byte) error {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	_, err := w.Write(append(head, b...))
	return err
}

// frameReader reads frames that a hostile run writes. As an io.Reader it reads one answer, which ends with an empty
// frame.
type frameReader struct {
	r      *bufio.Reader
	left   int  // unread bytes of the current frame
	open   bool // the end of the current answer was not read yet
	broken bool // the channel cannot be used any more
}

// head reads the length of the next frame.
func (f *frameReader) head() (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		f.broken = true
		return 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		f.broken = true
		return 0, fmt.Errorf("a frame of %d bytes", n)
	}
	return int(n), nil
}

// whole reads one frame.
func (f *frameReader) whole() ([]byte, error) {
	n, err := f.head()
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if _, err = io.ReadFull(f.r, b); err != nil {
		f.broken = true
	}
	return b, err
}

// next skips the rest of the current answer, so that Read reads the next one.
func (f *frameReader) next() error {
	var rest [4 << 10]byte
	for f.open {
		if _, err := f.Read(rest[:]); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	f.open = true
	return nil
}

// Read implements io.Reader for one answer.
//
// A missing end of an answer is io.ErrUnexpectedEOF, so that an interrupted answer cannot pass for a complete one.
func (f *frameReader) Read(p []byte) (int, error) {
	if !f.open {
		return 0, io.EOF
	}
	if f.left == 0 {
		n, err := f.head()
		if err != nil {
			f.open = false
			return 0, io.ErrUnexpectedEOF
		}
		if n == 0 {
			f.open = false
			return 0, io.EOF
		}
		f.left = n
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	if err != nil {
		f.open, f.broken = false, true
	}
	return n, err
}
