package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Limits of the queue between the reader of a connection and the delivery of its events.
const (
	maxQueued = 4 << 20         // bytes of events
	lightest  = 512             // bytes that an event counts at least, see weight
	patience  = 5 * time.Second // time that a full queue blocks the reader
)

// item is one message in the queue: an event, or the end of a stream.
type item struct {
	stream *stream
	end    string // "", EOSE or CLOSED
	text   string // CLOSED: the reason
	event  nostr.Event

	ignored bool // see Config.Ignore

	once     sync.Once
	verified guild.Verified
	err      error
}

// verify verifies the event in the first goroutine that calls it. Others wait for the result.
func (it *item) verify(s *seen) (guild.Verified, error) {
	it.once.Do(func() { it.verified, it.err = s.verify(it.event) })
	return it.verified, it.err
}

// queue is a bounded buffer between the reader of a connection and its delivery.
type queue struct {
	items chan *item
	bytes atomic.Int64
	space chan struct{} // receives when there may be space again

	full       *time.Timer // set while the queue was full and is not yet half empty
	discarding bool
}

func newQueue() *queue {
	return &queue{items: make(chan *item, maxQueued/lightest+maxStreams), space: make(chan struct{}, 1)}
}

// put appends an item. If the queue is full it waits, which makes the relay wait too. After patience it refuses events until
// the queue is half empty, because the reader must go on to see pongs and answers. The feed that loses events reads them
// again later.
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

// done notes that an item from the queue was handled.
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
