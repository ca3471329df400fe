package confine

import (
	"io"
	"math"
	"sync/atomic"

	"guild/internal/judging/sandbox"
)

// overflow limits a run's output: it is killed after writing this multiple of Limits.Output.
const overflow = 16

// Flood counts the bytes that a run writes to all its streams, and signals when they exceed the limit.
type Flood struct {
	written atomic.Int64
	limit   int64
	cut     atomic.Bool
	over    chan struct{} // closed when the limit is exceeded
}

// NewFlood returns a Flood for a run; kept is the number of bytes kept of each stream.
func NewFlood(kept int64) *Flood {
	return &Flood{limit: kept * overflow, over: make(chan struct{})}
}

// Written returns the number of bytes written so far, kept or not.
func (f *Flood) Written() int64 { return f.written.Load() }

// Cut reports whether a stream was longer than its kept part.
func (f *Flood) Cut() bool { return f.cut.Load() }

// Keep returns a writer for one stream that passes on the first bytes to w, or all of them if w is a sandbox.Whole. w
// may be nil.
func (f *Flood) Keep(w io.Writer, bytes int64) io.Writer {
	whole, ok := w.(sandbox.Whole)
	switch {
	case ok && whole.Free:
		return whole.Writer
	case ok:
		return &keep{whole.Writer, math.MaxInt64, f}
	}
	return &keep{w, bytes, f}
}

// keep passes on the first bytes of a stream and discards the rest. So the run neither blocks nor can find out where
// its output was cut.
type keep struct {
	to    io.Writer
	left  int64
	flood *Flood
}

// Write implements io.Writer. It fails only if the underlying writer fails.
func (k *keep) Write(p []byte) (int, error) {
	now := k.flood.written.Add(int64(len(p)))
	if now > k.flood.limit && now-int64(len(p)) <= k.flood.limit {
		close(k.flood.over)
	}
	n := min(int64(len(p)), k.left)
	if n < int64(len(p)) {
		k.flood.cut.Store(true)
	}
	k.left -= n
	if n == 0 || k.to == nil {
		return len(p), nil
	}
	if _, err := k.to.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
