package relayd

import (
	"context"
	"sync"
)

// maxWaiting bounds the bytes that wait for one client to read them.
const maxWaiting = 8 << 20

// outbox holds the messages to be written to one client.
//
// An answer waits if the outbox is full, which slows down the client that asked. A live event does not wait, because the
// client that published it, and all other subscribers, would wait too; instead a client that is too slow is disconnected.
// Answers may fill only half of the outbox. Otherwise a client that reads many stored events would be taken for too slow as
// soon as a live event comes.
type outbox struct {
	mu      sync.Mutex
	waiting [][]byte
	size    int
	filled  chan struct{} // has one element if a message waits
	drained chan struct{} // has one element if there is room again
}

func newOutbox() *outbox {
	return &outbox{filled: make(chan struct{}, 1), drained: make(chan struct{}, 1)}
}

// offer queues a live event. It reports false if the client is too slow.
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

// put queues an answer when there is room. Only the session's reader calls it.
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

// take waits for messages and returns all, in order.
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
