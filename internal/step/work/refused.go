package work

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"fiatjaf.com/nostr"
)

// maxRefused is the number of refusals that outlast the process. Relays are read again from two minutes before the stop,
// and the limits on answers allow fewer refusals than this in that time.
const maxRefused = 4096

// refusedPrefix is the first word of the subjects in the stream SEEN that hold refusals. Each has a place, from 0 to
// maxRefused-1, and a new refusal replaces the oldest.
const refusedPrefix = "refused"

// refusedRequests holds the latest requests whose customers were told that we do not take them. After a restart relays
// send such a request again, and it would look like a new one.
type refusedRequests struct {
	mu   sync.Mutex
	ids  map[nostr.ID]bool
	ring [maxRefused]nostr.ID
	next int // place of the next one
}

func (r *refusedRequests) put(place int, id nostr.ID) {
	if r.ids == nil {
		r.ids = map[nostr.ID]bool{}
	}
	delete(r.ids, r.ring[place])
	r.ring[place], r.ids[id] = id, true
	r.next = (place + 1) % maxRefused
}

// has reports whether a request was refused.
func (r *refusedRequests) has(id nostr.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[id]
}

// Recall reads which requests were refused before the start. Call it before Observe.
func (w *Work) Recall(ctx context.Context) error {
	w.refused.mu.Lock()
	defer w.refused.mu.Unlock()
	for m, err := range w.c.Journal.Seen(ctx, refusedPrefix) {
		if err != nil {
			return fmt.Errorf("refused requests: %w", err)
		}
		place, err := strconv.Atoi(strings.TrimPrefix(m.Subject, refusedPrefix+"."))
		id, wrong := nostr.IDFromHex(string(m.Data))
		if err == nil && wrong == nil && place >= 0 && place < maxRefused {
			w.refused.put(place, id)
		}
	}
	return nil
}

// remember stores that a request was refused.
func (w *Work) remember(ctx context.Context, id nostr.ID) error {
	w.refused.mu.Lock()
	defer w.refused.mu.Unlock()
	if err := w.c.Journal.See(ctx, fmt.Sprintf("%s.%d", refusedPrefix, w.refused.next), []byte(id.Hex())); err != nil {
		return fmt.Errorf("refuse request %.8s: %w", id.Hex(), err)
	}
	w.refused.put(w.refused.next, id)
	return nil
}
