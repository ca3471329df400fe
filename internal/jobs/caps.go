package jobs

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/fact"
)

func (l Limits) orDefaults() Limits {
	l.AtOnce = cmp.Or(l.AtOnce, 8)
	l.PerMinute = cmp.Or(l.PerMinute, 30)
	return l
}

// traffic is what the providers have been asked by us, derived from the attempts of all jobs.
type traffic struct {
	waiting map[nostr.PubKey]int     // requests that are not answered
	recent  map[nostr.PubKey][]int64 // Unix ms of the requests of the minute before the latest, in the order of the facts
}

func newTraffic() traffic {
	return traffic{map[nostr.PubKey]int{}, map[nostr.PubKey][]int64{}}
}

func (t traffic) asked(p nostr.PubKey, at int64) {
	since := at - time.Minute.Milliseconds()
	t.recent[p] = append(slices.DeleteFunc(slices.Clone(t.recent[p]), func(was int64) bool { return was <= since }), at)
}

// changed follows a job from one state to the next.
func (t traffic) changed(from, to []Attempt) {
	for _, a := range from {
		t.wait(a, -1)
	}
	for _, a := range to {
		t.wait(a, +1)
	}
}

func (t traffic) wait(a Attempt, by int) {
	if !a.State.Waiting() {
		return
	}
	if t.waiting[a.Provider.PubKey] += by; t.waiting[a.Provider.PubKey] == 0 {
		delete(t.waiting, a.Provider.PubKey)
	}
}

// asked says how many requests a provider has not answered, and when each of the last minute was made.
func (f *Fold) asked(p nostr.PubKey, now time.Time) (waiting int, minute []int64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	since := now.Add(-time.Minute).UnixMilli()
	for _, at := range f.traffic.recent[p] {
		if at > since {
			minute = append(minute, at)
		}
	}
	return f.traffic.waiting[p], minute
}

// room says when a provider has room for one request more, of which it has beside given away already: at once, from
// a certain time on, or (known is false) when it has answered one.
func (j *Jobs) room(p nostr.PubKey, now time.Time, beside int) (when time.Time, known bool) {
	waiting, minute := j.fold.asked(p, now)
	if waiting+beside >= j.c.Limits.AtOnce {
		return time.Time{}, false
	}
	if over := len(minute) + beside - j.c.Limits.PerMinute; over >= 0 {
		freed := min(over, len(minute)-1) // of what is beside nothing is known but that it is younger
		if freed < 0 {
			return now.Add(time.Minute), true
		}
		return time.UnixMilli(minute[freed]).Add(time.Minute), true
	}
	return now, true
}

// promise is room that was given to a request whose fact is on its way into the journal.
type promise struct {
	to nostr.PubKey
	at time.Time
}

// admit gives a planned request its room, inside the decision that appends it. The guard of a decision is its job,
// and two jobs may decide at the same time to ask one provider: what the fold does not know yet of such decisions is
// counted here. That holds within one node; two nodes on one journal can each give away the last place.
func (j *Jobs) admit(p fact.AttemptPlanned, now time.Time) bool {
	j.promised.Lock()
	defer j.promised.Unlock()
	maps.DeleteFunc(j.promises, func(id nostr.ID, given promise) bool {
		_, _, known := j.fold.Attempt(id)
		return known || id == p.Attempt || now.Sub(given.at) > time.Minute // the decision failed in the end
	})
	beside := 0
	for _, given := range j.promises {
		if given.to == p.Provider.PubKey {
			beside++
		}
	}
	when, known := j.room(p.Provider.PubKey, now, beside)
	if !known || when.After(now) {
		return false
	}
	j.promises[p.Attempt] = promise{p.Provider.PubKey, now}
	return true
}
