package relay

import (
	"slices"
	"sync"

	"fiatjaf.com/nostr"
)

// stream is one REQ on one connection. It belongs to a feed or to a query.
type stream struct {
	id      string
	filters []nostr.Filter // as sent
	feed    *feed
	query   *query

	eose  bool   // only for the reader of the socket
	pages []int  // for a filter that asks for a whole second, the number of events in the page before; else 0 or missing
	spans []span // one for each filter; only for the feed
}

func (st *stream) asksFor(e nostr.Event) bool {
	return slices.ContainsFunc(st.filters, func(f nostr.Filter) bool { return f.Matches(e) })
}

// since returns filters that begin no earlier than t.
func since(filters []nostr.Filter, t nostr.Timestamp) []nostr.Filter {
	later := slices.Clone(filters)
	for i := range later {
		later[i].Since = max(later[i].Since, t)
	}
	return later
}

// Limits on the result of one query at one relay.
const (
	maxFound      = 10_000   // events
	maxFoundBytes = 32 << 20 // see weight
)

// query collects stored events. The reader of the connection adds them, and the caller waits for over.
type query struct {
	over chan struct{} // closed at the end of the stored events

	mu     sync.Mutex
	items  []*item
	bytes  int
	closed string // reason of a CLOSED; "" without one
	done   bool
}

// add reports whether the event was taken.
func (q *query) add(it *item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.done {
		return false
	}
	q.items = append(q.items, it)
	q.bytes += weight(it.event)
	if len(q.items) >= maxFound || q.bytes >= maxFoundBytes {
		q.end()
	}
	return true
}

func (q *query) finish(label, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.done {
		return
	}
	if label == "CLOSED" {
		q.closed = "closed: " + why
		if isAuth(why) {
			q.closed = why
		}
	}
	q.end()
}

func (q *query) end() {
	q.done = true
	close(q.over)
}

// found returns the events so far.
func (q *query) found() (items []*item, closed string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.items), q.closed
}
