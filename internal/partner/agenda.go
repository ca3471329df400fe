package partner

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"

	"guild"
	"guild/internal/registry"
)

// agenda is what is to be looked at, and when: a service at once when a fact or an announcement was about it, and all
// others when their time comes. So a fact costs nothing for the services that it is not about. None of it is state: it
// is made anew from the records.
type agenda struct {
	mu       sync.Mutex
	now      map[registry.ID]bool  // to be looked at
	alarms   alarms                // to be looked at later
	at       map[registry.ID]int64 // when, Unix ms: the alarm that counts
	checkups map[registry.ID]guild.Checkup
}

func newAgenda() agenda {
	return agenda{now: map[registry.ID]bool{}, at: map[registry.ID]int64{}, checkups: map[registry.ID]guild.Checkup{}}
}

// touch has a service looked at.
func (a *agenda) touch(i registry.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now[i] = true
}

// ripe lists the services that are to be looked at by now, and forgets that they were.
func (a *agenda) ripe(now int64) []registry.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.alarms) > 0 && a.alarms[0].at <= now {
		one := heap.Pop(&a.alarms).(alarm)
		if a.at[one.service] == one.at {
			delete(a.at, one.service)
			a.now[one.service] = true
		}
	}
	all := make([]registry.ID, 0, len(a.now))
	for i := range a.now {
		all = append(all, i)
	}
	a.now = map[registry.ID]bool{} // clearing one that was large once takes as long as that
	slices.SortFunc(all, func(a, b registry.ID) int { return slices.Compare(a[:], b[:]) })
	return all
}

// set has a service looked at again at a time, or before; 0 is never. An alarm that comes too early costs one look, and
// so nothing has to be set back whenever a provider says something.
func (a *agenda) set(i registry.ID, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at == 0 {
		delete(a.at, i)
		return
	}
	if old, ok := a.at[i]; ok && old <= at {
		return
	}
	a.at[i] = at
	heap.Push(&a.alarms, alarm{at, i})
	if len(a.alarms) > 2*len(a.at)+64 {
		a.alarms = slices.DeleteFunc(a.alarms, func(one alarm) bool { return a.at[one.service] != one.at })
		heap.Init(&a.alarms)
	}
}

// first is the next alarm.
func (a *agenda) first() (alarm, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.alarms) > 0 && a.at[a.alarms[0].service] != a.alarms[0].at {
		heap.Pop(&a.alarms)
	}
	if len(a.alarms) == 0 {
		return alarm{}, false
	}
	return a.alarms[0], true
}

// wants notes the benchmark that is due for a service, or that none is.
func (a *agenda) wants(i registry.ID, c guild.Checkup, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if due {
		a.checkups[i] = c
	} else {
		delete(a.checkups, i)
	}
}

// wanted lists the benchmarks that are due, those first that are so for longest.
func (a *agenda) wanted() []guild.Checkup {
	a.mu.Lock()
	all := make([]guild.Checkup, 0, len(a.checkups))
	for _, c := range a.checkups {
		all = append(all, c)
	}
	a.mu.Unlock()
	slices.SortFunc(all, func(a, b guild.Checkup) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), slices.Compare(a.Service.PubKey[:], b.Service.PubKey[:]), cmp.Compare(a.Service.D, b.Service.D))
	})
	return all
}

// alarm is when a service is to be looked at.
type alarm struct {
	at      int64 // Unix ms
	service registry.ID
}

// alarms is a heap.
type alarms []alarm

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at < h[j].at }
func (h alarms) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *alarms) Push(x any) { *h = append(*h, x.(alarm)) }

// Pop implements heap.Interface.
func (h *alarms) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
