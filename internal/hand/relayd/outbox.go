package relayd

import (
	"context"
	"sync"
)

// maxWaiting is how much may wait for one client to read it.
const maxWaiting = 8 << 20

// outbox holds what is to be written to one client. Answers wait for room; live events do not, for one slow
// client must not hold up the others. Answers leave half of the room to live events, or a client would count as too
// slow because it is given much that is stored.
type outbox struct {
	mu      sync.Mutex
	waiting [][]byte
	size    int
	filled  chan struct{} // has one element when something waits
	drained chan struct{} // has one element when there is room again
}

func newOutbox() *outbox {
	return &outbox{filled: make(chan struct{}, 1), drained: make(chan struct{}, 1)}
}

// offer queues a live event, or reports that the client is too slow.
func (o *outbox) offer(b []byte) bool { return o.queue(b, maxWaiting) }

func (o *outbox) queue(b []byte, room int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.size > 0 && o.size+len(b) > room {
		return false
	}
	o.waiting = append(o.waiting, b)
	o.size += len(b)
	signal(o.filled)
	return true
}

// put queues an answer as soon as there is room. Only the session's own reader calls it.
func (o *outbox) put(ctx context.Context, b []byte) error {
	for !o.queue(b, maxWaiting/2) {
		select {
		case <-o.drained:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// take waits for messages and takes them all, in order.
func (o *outbox) take(ctx context.Context) ([][]byte, error) {
	select {
	case <-o.filled:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.waiting
	o.waiting, o.size = nil, 0
	signal(o.drained)
	return taken, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
