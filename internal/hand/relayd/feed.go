package relayd

import (
	"sync"

	"fiatjaf.com/nostr"
)

// feed holds all open subscriptions.
type feed struct {
	mu   sync.RWMutex
	open map[*subscription]struct{}
}

func (f *feed) add(s *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = make(map[*subscription]struct{})
	}
	f.open[s] = struct{}{}
}

func (f *feed) remove(s *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, s)
}

// publish sends a new event to all subscriptions that match.
func (f *feed) publish(e nostr.Event, encoded []byte) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for s := range f.open {
		if s.wants(e) {
			s.deliver(stored{e.ID, encoded})
		}
	}
}

// subscription is one REQ. New events are held back until its stored events are sent.
type subscription struct {
	filters []nostr.Filter
	prefix  []byte
	send    func([]byte) // does not block
	cut     func()       // ends the session if the client is too slow

	mu       sync.Mutex
	live     bool
	held     []stored
	heldSize int // bytes
}

func (s *subscription) wants(e nostr.Event) bool { return matchesAny(s.filters, e) }

func (s *subscription) deliver(e stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live {
		s.send(sayEvent(s.prefix, e.encoded))
		return
	}
	if s.heldSize += len(e.encoded); s.heldSize > maxWaiting {
		s.held = nil
		s.cut()
		return
	}
	s.held = append(s.held, e)
}

// goLive sends the events that were held back, except those that the client got from the store.
func (s *subscription) goLive(seen map[nostr.ID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.held {
		if !seen[e.id] {
			s.send(sayEvent(s.prefix, e.encoded))
		}
	}
	s.held, s.live = nil, true
}
