package partner

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"

	"guild"
	"guild/internal/market/registry"
)

// agenda lists the services to look at: those with a new fact or announcement now, the others at their time. A fact
// therefore costs nothing for the services that it is not about. The agenda is not part of the state. New fills it from
// the records.
type agenda struct {
	mu       sync.Mutex
	now      map[registry.ID]bool  // to look at now
	alarms   alarms                // to look at later
	at       map[registry.ID]int64 // Unix ms: the valid alarm of each service; others in alarms are ignored
	checkups map[registry.ID]guild.Checkup
}

func newAgenda() agenda {
	return agenda{now: map[registry.ID]bool{}, at: map[registry.ID]int64{}, checkups: map[registry.ID]guild.Checkup{}}
}

// touch puts a service on the agenda.
func (a *agenda) touch(i registry.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now[i] = true
}

// take removes and returns the services to look at by now.
func (a *agenda) take(now int64) []registry.ID {
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
	a.now = map[registry.ID]bool{} // clear would visit all buckets of the largest size that the map ever had
	slices.SortFunc(all, func(a, b registry.ID) int { return slices.Compare(a[:], b[:]) })
	return all
}

// set has a service looked at by a time, in Unix ms. An earlier alarm is kept. It costs one look in vain, but no alarm
// has to be moved each time a provider answers.
func (a *agenda) set(i registry.ID, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
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

// clear removes the alarm of a service.
func (a *agenda) clear(i registry.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.at, i)
}

// first returns the next alarm.
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

// setCheckup sets the benchmark that is due for a service, or removes it.
func (a *agenda) setCheckup(i registry.ID, c guild.Checkup, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if due {
		a.checkups[i] = c
	} else {
		delete(a.checkups, i)
	}
}

// dueCheckups lists the benchmarks that are due, the longest due first.
func (a *agenda) dueCheckups() []guild.Checkup {
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

// alarm is the time at which to look at a service.
type alarm struct {
	at      int64 // Unix ms
	service registry.ID
}

// alarms is a heap by time.
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
