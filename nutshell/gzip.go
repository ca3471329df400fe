package nutshell

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

const (
	pieceSize = 512 << 10 // bytes that are compressed in one go; a border costs a few bytes and 100 µs
	reach     = 32 << 10  // how far deflate looks back
)

// gzipWriter writes one gzip member (RFC 1952) with the work shared among processors. The text is cut after every
// pieceSize bytes; each piece is compressed with the reach before it as a dictionary and ends at a whole byte, so
// that the pieces form one deflate stream. The bytes do not depend on the number of processors: the same files must give
// the same bundle, and so the same hash, on every machine.
type gzipWriter struct {
	w       io.Writer
	level   Level
	workers int

	filling *piece
	pending []*piece // being compressed, the oldest first
	begun   bool     // the header is written
	crc     uint32
	size    uint32
	err     error // the first one
}

// piece is a part of the text and its compressed form.
type piece struct {
	in   []byte // dictionary and text
	dict int    // bytes of the dictionary
	last bool
	out  bytes.Buffer
	err  error
	done chan struct{} // closed when out is complete; nil if it is at once
}

// add appends to the text. Once it is larger than a small bundle, it gets all its memory at once.
func (p *piece) add(b []byte) {
	if n := len(p.in) + len(b); n > cap(p.in) && n > reach {
		p.in = append(make([]byte, 0, reach+pieceSize), p.in...)
	}
	p.in = append(p.in, b...)
}

// pieces keeps pieces for the next bundle, because most bundles are smaller than the memory of one.
var pieces = sync.Pool{New: func() any { return new(piece) }}

func newGzipWriter(w io.Writer, l Level) *gzipWriter {
	return &gzipWriter{w: w, level: l, workers: workers(), filling: pieces.Get().(*piece)}
}

// Write implements io.Writer. Its error may be about an earlier Write.
func (z *gzipWriter) Write(p []byte) (int, error) {
	n := len(p)
	z.crc = crc32.Update(z.crc, crc32.IEEETable, p)
	z.size += uint32(n)
	for len(p) > 0 && z.err == nil {
		room := z.filling.dict + pieceSize - len(z.filling.in)
		if room == 0 { // and there is more to come
			z.next()
			continue
		}
		some := p[:min(room, len(p))]
		z.filling.add(some)
		p = p[len(some):]
	}
	return n - len(p), z.err
}

// Close implements io.Closer. It waits for everything that was begun.
func (z *gzipWriter) Close() error {
	if z.filling == nil {
		return z.err
	}
	z.filling.last = true
	z.start(z.filling)
	z.filling = nil
	for len(z.pending) > 0 {
		z.settle()
	}
	trailer := binary.LittleEndian.AppendUint32(nil, z.crc)
	z.put(binary.LittleEndian.AppendUint32(trailer, z.size))
	return z.err
}

// next starts to compress the full piece and begins another one.
func (z *gzipWriter) next() {
	full := z.filling
	z.filling = pieces.Get().(*piece)
	z.filling.add(full.in[len(full.in)-reach:])
	z.filling.dict = reach
	z.start(full)
	if z.workers == 1 || len(z.pending) > z.workers { // one more than there are processors, so that no processor waits
		z.settle()
	}
}

// start compresses a piece: in another goroutine if there are several processors and several pieces.
func (z *gzipWriter) start(p *piece) {
	z.pending = append(z.pending, p)
	if z.workers == 1 || p.last && len(z.pending) == 1 {
		p.compress(z.level)
		return
	}
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		p.compress(z.level)
	}()
}

// settle writes out the oldest piece.
func (z *gzipWriter) settle() {
	p := z.pending[0]
	z.pending = append(z.pending[:0], z.pending[1:]...)
	if p.done != nil {
		<-p.done
	}
	if p.err != nil && z.err == nil {
		z.err = p.err
	}
	if !z.begun {
		z.begun = true
		z.put(z.header())
	}
	z.put(p.out.Bytes())
	p.in, p.dict, p.last, p.done, p.err = p.in[:0], 0, false, nil, nil
	p.out.Reset()
	pieces.Put(p)
}

// header returns the header that the reference program writes: no time, no name, an unknown system, and the level.
func (z *gzipWriter) header() []byte {
	const extraFlags = 8
	b := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
	switch z.level {
	case Best:
		b[extraFlags] = 2
	case Fast:
		b[extraFlags] = 4
	}
	return b
}

// put writes bytes to the file unless something has failed.
func (z *gzipWriter) put(b []byte) {
	if z.err == nil {
		_, z.err = z.w.Write(b)
	}
}

// compress fills out.
func (p *piece) compress(l Level) {
	pool := deflaters[l]
	d := pool.Get().(*flate.Writer)
	d.ResetDict(&p.out, p.in[:p.dict])
	_, err := d.Write(p.in[p.dict:])
	switch {
	case err != nil:
	case p.last:
		err = d.Close()
	default:
		err = d.Flush()
	}
	if err != nil {
		p.err = fmt.Errorf("compress: %w", err)
	}
	d.ResetDict(io.Discard, nil) // do not hold on to the piece
	pool.Put(d)
}

// deflaters are writers of each level to be used again: one takes a megabyte, which is more work to make than most
// bundles are to compress. What is written does not depend on what was written before.
var deflaters = map[Level]*sync.Pool{
	Fast:    deflatersOf(2), // as fast as 1, and smaller
	Default: deflatersOf(6), // the strongest that takes a third of the standard library's time
	Best:    deflatersOf(9),
}

func deflatersOf(level int) *sync.Pool {
	return &sync.Pool{New: func() any {
		d, err := flate.NewWriter(io.Discard, level)
		if err != nil {
			panic(err) // there is no such level
		}
		return d
	}}
}
