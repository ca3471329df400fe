package route

import (
	"slices"
	"sync"

	"fiatjaf.com/nostr"

	"guild"
)

// maxChanges limits the changes that are kept for lists in no current use. A list that has missed some is rebuilt.
const maxChanges = 1 << 16

// changes is a log of the services that may have changed. A list reads it when it is next used.
//
// The folds apply an entry one after the other. A reader between two folds sees the entry in one of them and not in the
// other. So the changes of the latest entry stay apart in fresh, and every read looks at them again. When a later entry
// arrives, all folds have applied the earlier one, and its changes move to items, where each list reads them for the
// last time.
type changes struct {
	mu     sync.Mutex
	items  []change
	first  uint64   // number of items[0]; it only grows
	fresh  []change // changes of the latest entry
	latest uint64   // sequence number of the latest entry
	wanted bool     // a list exists, so changes must be kept
}

// add records a change that does not come from an entry.
func (c *changes) add(one change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.append(one)
}

// append adds to the log. If that is full, it drops all of it: lists that have missed a part must be rebuilt anyway, so
// a part of the log is of no use.
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

// begin starts the log, and returns the position from which a new list must read.
func (c *changes) begin() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = true
	return c.first + uint64(len(c.items))
}

// since returns the changes from a position on, and the position to continue from. ok is false if some of them were
// dropped.
func (c *changes) since(from uint64) (all []change, next uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from < c.first {
		return nil, 0, false
	}
	return slices.Concat(c.items[from-c.first:], c.fresh), c.first + uint64(len(c.items)), true
}

// forget drops the changes that every list has read. It drops small numbers only if nothing remains, because
// slices.Delete moves the rest.
func (c *changes) forget(before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := int(min(before-min(before, c.first), uint64(len(c.items)))); n >= 1024 || n == len(c.items) {
		c.drop(n)
	}
}

// Touch records that a service may have changed: its announcement is new, was deleted, or has other content. The caller
// may hold any lock that the source takes.
func (m *Matrix) Touch(s guild.Service) { m.changes.add(change{service: s}) }

// TouchAll does the same as Touch for all services of a provider.
func (m *Matrix) TouchAll(p nostr.PubKey) {
	m.changes.add(change{service: guild.Service{PubKey: p}, key: true})
}

// Applied records that an entry of the journal is being applied, and that it may change some services and all services
// of some providers. It must be called for every entry.
func (m *Matrix) Applied(seq uint64, services []guild.Service, providers []nostr.PubKey) {
	var of []change
	for _, s := range services {
		of = append(of, change{service: s})
	}
	for _, p := range providers {
		of = append(of, change{service: guild.Service{PubKey: p}, key: true})
	}
	c := &m.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq > c.latest {
		c.append(c.fresh...)
		c.latest, c.fresh = seq, nil
	}
	c.fresh = append(c.fresh, of...)
}
