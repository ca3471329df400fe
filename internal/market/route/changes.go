package route

import (
	"slices"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
)

// maxChanges is how many changes are remembered for lists that nobody asks for; who missed some is made anew.
const maxChanges = 1 << 16

// changes is what may have changed, in order, for lists that are brought up to date when somebody asks.
//
// A fact reaches one fold after the other. Whoever reads between two of them sees one with it and one without. So the
// changes of the latest entry stay apart, and are looked at each time: once there is a later entry, all folds have had
// this one, and what it changed is looked at for the last time.
type changes struct {
	mu     sync.Mutex
	items  []change
	first  uint64   // number of items[0]
	fresh  []change // of the latest entry
	latest uint64   // entry
	wanted bool     // there are lists
}

// apply notes what an entry changes.
func (c *changes) apply(seq uint64, of ...change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq > c.latest {
		c.append(c.fresh...)
		c.latest, c.fresh = seq, nil
	}
	c.fresh = append(c.fresh, of...)
}

// add notes a change that is not an entry's.
func (c *changes) add(one change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.append(one)
}

func (c *changes) append(all ...change) {
	if !c.wanted {
		return
	}
	if len(c.items)+len(all) > maxChanges {
		c.drop(len(c.items))
	}
	c.items = append(c.items, all...)
}

func (c *changes) drop(n int) {
	c.items = slices.Delete(c.items, 0, n)
	c.first += uint64(n)
}

// begin is the number from which a list that is made now must look.
func (c *changes) begin() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = true
	return c.first + uint64(len(c.items))
}

// since lists the changes from a number on, and the number to go on from. ok is false when some are not known any more.
func (c *changes) since(from uint64) (all []change, next uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from < c.first {
		return nil, 0, false
	}
	return slices.Concat(c.items[from-c.first:], c.fresh), c.first + uint64(len(c.items)), true
}

// forget drops what every list has seen.
func (c *changes) forget(before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := int(min(before-min(before, c.first), uint64(len(c.items)))); n >= 1024 || n == len(c.items) {
		c.drop(n)
	}
}

// Touch notes that what is known of a service may have changed: its announcement came, went, or says something else.
// It may be called with any lock held that the source takes.
func (m *Matrix) Touch(s guild.Service) { m.changes.add(change{service: s}) }

// TouchAll notes that of all services of a provider.
func (m *Matrix) TouchAll(p nostr.PubKey) {
	m.changes.add(change{service: guild.Service{PubKey: p}, key: true})
}

// Applied notes that an entry of the journal is being applied, and may change what is known of some services and of
// all services of some providers. Every entry is noted.
func (m *Matrix) Applied(seq uint64, services []guild.Service, providers []nostr.PubKey) {
	var of []change
	for _, s := range services {
		of = append(of, change{service: s})
	}
	for _, p := range providers {
		of = append(of, change{service: guild.Service{PubKey: p}, key: true})
	}
	m.changes.apply(seq, of...)
}
