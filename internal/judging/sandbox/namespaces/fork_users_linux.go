package namespaces

import "sync"

// users assigns the user ids of a template's namespace, from 1, so that concurrent runs have different ones and cannot
// signal each other. If guild runs as an ordinary user, which has only its own id, the template uses 0 for all runs.
type users struct {
	mu    sync.Mutex
	taken map[uint32]bool
}

// take returns an id that no other run has. release returns it to the pool.
func (u *users) take() (id uint32, release func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken == nil {
		u.taken = map[uint32]bool{}
	}
	for id = 1; u.taken[id]; id++ {
	}
	u.taken[id] = true
	return id, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.taken, id)
	}
}
