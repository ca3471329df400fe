package nutshell

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	magic          = "NUT\x01"
	magicEncrypted = "NUT\x02"

	maxWindow = 32 << 20 // bytes of zstd's window; its strongest common level needs as much
	minBudget = 1 << 20  // bytes that any bundle may unpack to, whatever the ratio
)

// payload reads the unpacked archive of a bundle: gzip members, one zstd frame, or a plain tar archive.
//
// Nothing may follow it. Two readers must not see different files in bytes that have one hash, which a request, a receipt
// and a signature name. RFC 1952 makes the members of a gzip file one stream, and a tar archive that ends with the first
// of them may only be followed by zeros; so a reader that stops after one member sees the same files or an archive that
// was cut. Decoders differ in what they make of a second zstd frame.
type payload struct {
	io.Reader
	finish func() error // at the end of the stream: an error if bytes follow it
	close  func()
}

// openPayload detects how the archive is compressed and opens it.
func openPayload(r io.ReaderAt, size int64) (*payload, error) {
	head := make([]byte, len(magic)+512)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	head = head[:max(0, min(int64(n), size))]
	if err := checkMagic(head); err != nil {
		return nil, err
	}
	rest := io.NewSectionReader(r, int64(len(magic)), size-int64(len(magic)))
	head = head[len(magic):]
	switch {
	case len(head) == 0:
		return nil, ErrTruncated
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return openGzip(rest)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return openZstd(rest)
	case len(head) >= 262 && string(head[257:262]) == "ustar":
		return &payload{rest, func() error { return nil }, func() {}}, nil
	}
	return nil, fmt.Errorf("%w: its archive is neither gzip nor zstd nor plain tar", ErrNotBundle)
}

func checkMagic(head []byte) error {
	switch {
	case bytes.HasPrefix(head, []byte(magic)):
		return nil
	case bytes.HasPrefix(head, []byte(magicEncrypted)):
		return ErrEncrypted
	case len(head) >= len(magic) && bytes.HasPrefix(head, []byte("NUT")):
		return fmt.Errorf(`%w: container version %d is not known, only 1`, ErrNotBundle, head[3])
	}
	return fmt.Errorf(`%w: it does not start with NUT\x01`, ErrNotBundle)
}

// openGzip opens the members of a gzip file as one stream. Bytes after them that are no member count as trailing.
func openGzip(r io.Reader) (*payload, error) {
	g := gunzips.Get().(*gunzip)
	g.in.Reset(r)
	if err := g.begin(); err != nil {
		return nil, damage(err)
	}
	p := &payload{Reader: g, finish: func() error { return nil }}
	p.close = func() {
		p.Reader = bytes.NewReader(nil) // a late read must not read from the next bundle
		g.in.Reset(nil)
		gunzips.Put(g)
	}
	return p, nil
}

// gunzip is a gzip reader with its buffer. Most bundles are smaller than it is, so it is used again.
type gunzip struct {
	in  *bufio.Reader
	out gzip.Reader
}

// begin reads the header of the next member.
func (g *gunzip) begin() error {
	err := g.out.Reset(g.in)
	g.out.Multistream(false)
	return err
}

// Read implements io.Reader. Package gzip could read all members by itself, but does not tell bytes that are no member
// from a damaged one.
func (g *gunzip) Read(p []byte) (int, error) {
	for {
		n, err := g.out.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			if errors.Is(err, io.EOF) {
				err = nil // the next call comes back to the end of the member
			}
			return n, err
		}
		next, err := g.in.Peek(2)
		switch {
		case len(next) == 0 && errors.Is(err, io.EOF):
			return 0, io.EOF
		case !bytes.Equal(next, []byte{0x1f, 0x8b}):
			return 0, ErrTrailing
		}
		if err := g.begin(); err != nil {
			return 0, err
		}
	}
}

var gunzips = sync.Pool{New: func() any { return &gunzip{in: bufio.NewReaderSize(nil, 32<<10)} }}

// openZstd opens one zstd frame. Anything after it, even another frame, counts as trailing bytes.
func openZstd(r *io.SectionReader) (*payload, error) {
	length, err := frameLength(r)
	if err != nil {
		return nil, damage(err)
	}
	if length != r.Size() {
		return nil, ErrTrailing
	}
	unpacked, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxWindow))
	if err != nil {
		return nil, damage(err)
	}
	return &payload{unpacked, func() error { return nil }, unpacked.Close}, nil
}

// frameLength finds the end of the zstd frame at the start of r by its block headers (RFC 8878 section 3.1.1),
// because the decoder would silently go on into the next frame.
func frameLength(r *io.SectionReader) (int64, error) {
	in := window{r: r}
	head, err := in.at(0, min(zstd.HeaderMaxSize, r.Size()))
	if err != nil {
		return 0, err
	}
	var frame zstd.Header
	if err := frame.Decode(head); err != nil {
		return 0, err
	}
	end := int64(frame.HeaderSize)
	for last := false; !last; {
		b, err := in.at(end, 3)
		if err != nil {
			return 0, err
		}
		header := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		last = header&1 != 0
		end += 3 + blockLength(header)
	}
	if frame.HasCheckSum {
		end += 4
	}
	if end > r.Size() {
		return 0, io.ErrUnexpectedEOF
	}
	return end, nil
}

// window reads small pieces at rising offsets, many for each read of the file.
type window struct {
	r     io.ReaderAt
	start int64
	n     int64
	buf   [4 << 10]byte
}

// at returns n bytes, which are good until the next call.
func (w *window) at(offset, n int64) ([]byte, error) {
	if offset < w.start || offset+n > w.start+w.n {
		got, err := w.r.ReadAt(w.buf[:], offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		w.start, w.n = offset, int64(got)
	}
	if n > w.n-(offset-w.start) {
		return nil, io.ErrUnexpectedEOF
	}
	return w.buf[offset-w.start:][:n], nil
}

// blockLength returns the bytes that follow a block header: one for a run of the same byte.
func blockLength(header uint32) int64 {
	if kind := header >> 1 & 3; kind == 1 {
		return 1
	}
	return int64(header >> 3)
}

// damage turns an error of a decoder into ErrTruncated or ErrDamaged.
func damage(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// budgetReader counts the bytes that are read and returns an error at a limit, which stops a decompression bomb. It
// counts below the tar reader, because headers, padding and long names cost memory and time too.
type budgetReader struct {
	r     io.Reader
	n     int64
	limit *LimitError // Limit is in its own unit
	max   int64       // bytes
}

// budget returns the reader that holds unpacked to the stricter of Total and Ratio, for a bundle of size bytes.
func (l Limits) budget(unpacked io.Reader, size int64) *budgetReader {
	byTotal := l.Total + int64(l.Entries)*int64(2*l.Path+4<<10) // with the headers of all files
	byRatio := max(minBudget, int64(l.Ratio)*size)
	if byRatio <= byTotal {
		return &budgetReader{r: unpacked, max: byRatio, limit: &LimitError{What: "Ratio", Limit: int64(l.Ratio)}}
	}
	return &budgetReader{r: unpacked, max: byTotal, limit: &LimitError{What: "Total", Limit: l.Total}}
}

func (b *budgetReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	if b.n > b.max {
		return 0, b.limit
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = damage(err)
	}
	return n, err
}
