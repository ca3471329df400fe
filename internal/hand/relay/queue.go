package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// The buffer between the reader of a socket and the one who hands its events on.
const (
	maxQueued = 4 << 20         // bytes of events
	lightest  = 512             // bytes that an event counts at least, see weight
	patience  = 5 * time.Second // how long a full buffer holds up the reader
)

// item is one message on its way through the queue of a socket: an event, or the end of a stream.
type item struct {
	stream *stream
	end    string // "", EOSE or CLOSED
	text   string // CLOSED: why
	event  nostr.Event

	once     sync.Once
	verified guild.Verified
	err      error
}

// verify checks the event, in whichever goroutine asks first; the others wait for the result.
func (it *item) verify(s *seen) (guild.Verified, error) {
	it.once.Do(func() { it.verified, it.err = s.verify(it.event) })
	return it.verified, it.err
}

// queue is a bounded buffer with one writer, the reader of the socket, and one reader.
type queue struct {
	items chan *item
	bytes atomic.Int64
	space chan struct{} // says that there may be space again

	full       *time.Timer // runs from when the queue was full until it is half empty
	discarding bool
}

func newQueue() *queue {
	return &queue{items: make(chan *item, maxQueued/lightest+maxStreams), space: make(chan struct{}, 1)}
}

// put appends an item. When the queue is full it waits, which holds up the sender at the other end of the
// socket; when it has been full for longer than patience it refuses events until it is half empty again, so
// that the reader gets to see pings and answers.
func (q *queue) put(ctx context.Context, it *item) (taken bool) {
	if it.end == "" && !q.wait(ctx) {
		return false
	}
	q.bytes.Add(int64(it.weight()))
	select {
	case q.items <- it:
		return true
	case <-ctx.Done():
		return false
	}
}

func (q *queue) wait(ctx context.Context) bool {
	if q.half() {
		q.discarding = false
		if q.full != nil {
			q.full.Stop()
			q.full = nil
		}
	}
	for !q.discarding && q.bytes.Load() > maxQueued {
		if q.full == nil {
			q.full = time.NewTimer(patience)
		}
		select {
		case <-q.space:
		case <-q.full.C:
			q.discarding = true
		case <-ctx.Done():
			return false
		}
	}
	return !q.discarding
}

// done says that an item taken from the queue has been dealt with.
func (q *queue) done(it *item) {
	q.bytes.Add(-int64(it.weight()))
	select {
	case q.space <- struct{}{}:
	default:
	}
}

func (q *queue) half() bool { return q.bytes.Load() <= maxQueued/2 }

func (it *item) weight() int {
	if it.end != "" {
		return 0
	}
	return weight(it.event)
}
