package work

import (
	"cmp"
	"maps"
	"slices"

	"fiatjaf.com/nostr"
)

// moment is what the step knows of itself right now and no fact says.
type moment struct {
	running map[nostr.ID]bool // what a worker is on
	served  map[visitor]int64 // Unix ms when work for a customer last ended
}

// now copies what is running and who was served last.
func (w *Work) now() moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := moment{running: make(map[nostr.ID]bool, len(w.running)), served: maps.Clone(w.served)}
	for id := range w.running {
		m.running[id] = true
	}
	return m
}

// turn is a request with its place in the order.
type turn struct {
	request
	running bool
	round   int   // how many of its customer's are before it, those that run first
	since   int64 // Unix ms since when its customer has stood in line
}

// inTurn orders the unfinished requests to one service so that its customers take turns: whoever has the fewest
// running is next, and among those whoever has stood in line longest, since it was served last or since the first
// of its requests came. So a customer with one request waits for no other customer's whole queue, and one who
// comes anew is not before those who wait.
func inTurn(all []request, m moment) []turn {
	turns := make([]turn, len(all))
	for i, r := range all {
		turns[i] = turn{request: r, running: m.running[r.ID]}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { // running before waiting, then as they came
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

// forgetServed drops who was served last and has nothing waiting: when it comes again, it stands in line anew.
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
