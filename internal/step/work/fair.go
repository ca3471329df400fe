package work

import (
	"cmp"
	"maps"
	"slices"

	"fiatjaf.com/nostr"
)

// activity is the part of the state that no fact says.
type activity struct {
	running map[nostr.ID]bool // requests that a worker is on
	served  map[visitor]int64 // Unix ms when work for a customer last ended
}

// activity copies what is running, and who was served last.
func (w *Work) activity() activity {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := activity{running: make(map[nostr.ID]bool, len(w.running)), served: maps.Clone(w.served)}
	for id := range w.running {
		m.running[id] = true
	}
	return m
}

// turn is a request with its place in the order.
type turn struct {
	request
	running bool
	round   int   // number of its customer's requests before it; the running ones come first
	since   int64 // Unix ms since when its customer waits
}

// inTurn orders the unfinished requests to one service. The next one is of the customer with the fewest running requests,
// and among those of the one that has waited longest: since its last run ended, or since its first request came.
//
// So a customer with one request does not wait for the whole queue of another, and a new customer does not come before
// those that wait already. The round of a request is its number among its customer's, so the first request of everybody
// comes before the second of anybody.
func inTurn(all []request, m activity) []turn {
	turns := make([]turn, len(all))
	for i, r := range all {
		turns[i] = turn{request: r, running: m.running[r.ID]}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { // the running first, then in the order they came
		switch {
		case a.running == b.running:
			return 0
		case a.running:
			return -1
		}
		return 1
	})
	count, since := map[nostr.PubKey]int{}, map[nostr.PubKey]int64{}
	for i := range turns {
		t := &turns[i]
		t.round = count[t.Customer]
		count[t.Customer]++
		if _, stands := since[t.Customer]; !stands && !t.running {
			since[t.Customer] = max(t.At, m.served[visitor{t.Customer, t.Service}])
		}
	}
	for i := range turns {
		turns[i].since = since[turns[i].Customer]
	}
	slices.SortStableFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.since, b.since))
	})
	return turns
}

// forgetServed drops customers with no pending request: when they come again, they wait from then on.
func (w *Work) forgetServed(pending []request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.served) == 0 {
		return
	}
	here := make(map[visitor]bool, len(pending))
	for _, r := range pending {
		here[visitor{r.Customer, r.Service}] = true
	}
	maps.DeleteFunc(w.served, func(v visitor, _ int64) bool { return !here[v] })
}
