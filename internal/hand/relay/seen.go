package relay

import (
	"fmt"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
)

// Limits of the memory of verified events.
const (
	maxSeen   = 1 << 16 // ids
	maxBodies = 8 << 20 // bytes of whole events, the latest
)

// seen remembers which events were verified and which were delivered. An event is added only after its signature was
// verified; otherwise a forgery with the same id could hide the real event. The oldest are forgotten first.
type seen struct {
	mu      sync.Mutex
	at      map[nostr.ID]int // place in ring
	ring    []slot
	next    int                        // place to be reused when the ring is full
	flights map[nostr.ID]chan struct{} // being verified; closed when done

	bodies []body // in the order of their arrival
	bytes  int    // of bodies
}

type slot struct {
	id        nostr.ID
	event     *guild.Verified // nil when forgotten
	delivered bool
}

type body struct {
	id   nostr.ID
	size int
}

func newSeen() *seen {
	return &seen{at: make(map[nostr.ID]int), flights: make(map[nostr.ID]chan struct{})}
}

// verify returns the event as verified. If several relays send the same event at the same time, one copy is verified and the
// others wait. If its signature is wrong, the next copy is tried, since its signature may be another one.
func (s *seen) verify(e nostr.Event) (guild.Verified, error) {
	if guild.EventID(e) != e.ID {
		return guild.Verified{}, fmt.Errorf("event %.8s: %w", e.ID.Hex(), guild.ErrWrongID)
	}
	for {
		s.mu.Lock()
		if v := s.find(e.ID); v != nil {
			s.mu.Unlock()
			return *v, nil
		}
		flight, busy := s.flights[e.ID]
		if !busy {
			s.flights[e.ID] = make(chan struct{})
		}
		s.mu.Unlock()
		if !busy {
			return s.fly(e)
		}
		<-flight
	}
}

func (s *seen) fly(e nostr.Event) (guild.Verified, error) {
	v, err := guild.Verify(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.keep(v)
	}
	close(s.flights[e.ID])
	delete(s.flights, e.ID)
	return v, err
}

// add remembers a verified event.
func (s *seen) add(v guild.Verified) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(v)
}

// deliver reports whether the event is to be delivered. It is true once for each event.
func (s *seen) deliver(id nostr.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.at[id]
	if !ok {
		return true
	}
	first := !s.ring[i].delivered
	s.ring[i].delivered = true
	return first
}

// delivered reports whether the event was delivered.
func (s *seen) delivered(id nostr.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.at[id]
	return ok && s.ring[i].delivered
}

func (s *seen) find(id nostr.ID) *guild.Verified {
	if i, ok := s.at[id]; ok {
		return s.ring[i].event
	}
	return nil
}

func (s *seen) keep(v guild.Verified) {
	id := v.Event().ID
	i := s.place(id)
	if s.ring[i].event != nil {
		return
	}
	s.ring[i].event = &v
	b := body{id, weight(v.Event())}
	s.bodies = append(s.bodies, b)
	s.bytes += b.size
	for s.bytes > maxBodies {
		s.forgetBody()
	}
}

func (s *seen) place(id nostr.ID) int {
	if i, ok := s.at[id]; ok {
		return i
	}
	if len(s.ring) < maxSeen {
		s.ring = append(s.ring, slot{id: id})
		s.at[id] = len(s.ring) - 1
		return len(s.ring) - 1
	}
	i := s.next
	s.next = (s.next + 1) % maxSeen
	delete(s.at, s.ring[i].id)
	s.ring[i] = slot{id: id}
	s.at[id] = i
	return i
}

func (s *seen) forgetBody() {
	oldest := s.bodies[0]
	s.bodies = s.bodies[1:]
	s.bytes -= oldest.size
	if i, ok := s.at[oldest.id]; ok {
		s.ring[i].event = nil
	}
}

// weight estimates the memory of an event, in bytes.
func weight(e nostr.Event) int {
	n := 512 + len(e.Content)
	for _, tag := range e.Tags {
		n += 24
		for _, value := range tag {
			n += 16 + len(value)
		}
	}
	return n
}
