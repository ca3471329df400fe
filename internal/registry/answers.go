package registry

import (
	"slices"
	"sync"
	"time"

	"guild"
)

// What is kept of earlier answers.
const (
	maxAnswers  = 32
	maxAnswered = 1 << 14 // offers, in all answers together
)

// answers are those that Offers gave since the announcements last changed.
type answers struct {
	mu   sync.Mutex
	all  map[question]answer
	size int // offers in all
}

// of returns what was answered before, if it still holds. The offers are the caller's own; what they point to is not.
func (a *answers) of(q question, age [2]uint64, now time.Time) ([]guild.Offer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, ok := a.all[q]
	if !ok || old.age != age || now.Before(old.from) || !now.Before(old.until) {
		return nil, false
	}
	return slices.Clone(old.offers), true
}

func (a *answers) keep(q question, new answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size -= len(a.all[q].offers)
	delete(a.all, q)
	if len(new.offers) > maxAnswered {
		return
	}
	if a.all == nil || len(a.all) >= maxAnswers || a.size+len(new.offers) > maxAnswered {
		a.all, a.size = map[question]answer{}, 0
	}
	new.offers = slices.Clone(new.offers)
	a.all[q] = new
	a.size += len(new.offers)
}

// forget drops all of them. It is called with the registry's lock held for writing, so that no answer of before comes
// after it.
func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) > 0 {
		a.all, a.size = nil, 0
	}
}
