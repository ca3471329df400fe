package sandbox

import (
	"io"
	"sync/atomic"
)

// flood counts what one run writes on all its streams, and tells when it is too much.
type flood struct {
	written atomic.Int64
	limit   int64
	cut     atomic.Bool
	over    chan struct{} // closed once the limit is passed
}

func newFlood(kept int64) *flood {
	return &flood{limit: kept * overflow, over: make(chan struct{})}
}

// add counts n more bytes.
func (f *flood) add(n int) {
	now := f.written.Add(int64(n))
	if now > f.limit && now-int64(n) <= f.limit {
		close(f.over)
	}
}

// keep passes the first bytes of one stream on and swallows the rest, so that the writer inside never blocks
// and never learns where the cut is.
type keep struct {
	to    io.Writer
	left  int64
	flood *flood
}

func (k *keep) Write(p []byte) (int, error) {
	k.flood.add(len(p))
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
