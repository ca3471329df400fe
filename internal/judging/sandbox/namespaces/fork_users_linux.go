package namespaces

import "sync"

// users hands out the user ids of a template's namespace, from 1, so that concurrent runs have different ones. If guild is
// run by an ordinary user, who has only its own id to give, the template uses 0 for all of them.
type users struct {
	mu    sync.Mutex
	taken map[uint32]bool
}

// take returns an id that no other run has. release gives it back.
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
