package route

import (
	"testing"

	"guild"
)

// Folds apply an entry one after the other. A decision between two of them sees it in one only; the next decision must
// look again.
func TestEntryChangesReadUntilApplied(t *testing.T) {
	alice, bob := met(1, 850_000), met(2, 820_000)
	m := newMarket(t, true, alice, bob)
	m.settings.Epsilon, m.settings.EpsilonFloor = 0, 0
	first := func() guild.Service { f, _, _ := m.asks(1, nil); return f.Offer.Service }
	m.Applied(6, []guild.Service{bob.Offer.Service}, nil) // before any list exists
	if first() != alice.Offer.Service {
		t.Fatal("bob is trusted less")
	}
	bob.Trust = 900_000
	m.services[bob.Offer.Service] = bob // now the other fold has applied it
	if first() != bob.Offer.Service {
		t.Error("what an entry changed was read too early, and never again")
	}
	m.Applied(7, nil, nil)
	m.reads = 0
	first()
	first()
	if m.reads != 3 {
		t.Errorf("%d services were read: bob once more, and each time the one that is chosen", m.reads)
	}
}

// A list that is unused during too many changes is rebuilt.
func TestChangeLogOverflowRebuildsList(t *testing.T) {
	alice, bob := met(1, 850_000), met(2, 820_000)
	m := newMarket(t, true, alice, bob)
	m.settings.Epsilon, m.settings.EpsilonFloor = 0, 0
	m.asks(1, nil)
	bob.Trust = 900_000
	m.sets(bob)
	for n := range maxChanges {
		m.Touch(service(1000 + n))
	}
	if f, _, _ := m.asks(1, nil); f.Offer.Service != bob.Offer.Service {
		t.Error("a change was lost")
	}
	if n := len(m.changes.items); n > maxChanges {
		t.Errorf("%d changes are kept", n)
	}
	if m.asks(1, nil); len(m.changes.items) > 0 {
		t.Errorf("%d changes are kept that every list has seen", len(m.changes.items))
	}
}

// Announcements change without an entry. Such a change is read once, and the log stays within its limit whatever the
// latest entry changed.
func TestTouchedServiceReadOnce(t *testing.T) {
	m := newMarket(t, true, met(1, 850_000), met(2, 820_000))
	m.asks(1, nil)
	m.Applied(7, []guild.Service{service(1)}, nil)
	for n := range 100 {
		m.Touch(service(1000 + n))
	}
	m.asks(1, nil)
	m.reads = 0
	m.asks(1, nil)
	if m.reads != 2 {
		t.Errorf("%d services were looked at: that of the latest entry, and the one that is chosen", m.reads)
	}
	for n := range 2 * maxChanges {
		m.Touch(service(1000 + n))
	}
	if n := len(m.changes.items); n > maxChanges {
		t.Errorf("%d changes are kept", n)
	}
}

// Some facts change with time only, without notice. So the chosen service is read once more.
func TestChosenServiceIsReadAgain(t *testing.T) {
	alice, bob := met(1, 850_000), met(2, 820_000)
	m := newMarket(t, true, alice, bob)
	m.settings.Epsilon, m.settings.EpsilonFloor = 0, 0
	m.asks(1, nil)
	alice.Offer.State = guild.Stale
	m.services[alice.Offer.Service] = alice
	if f, _, _ := m.asks(1, nil); f.Offer.Service != bob.Offer.Service {
		t.Error("who is stale by now was chosen")
	}
	delete(m.services, bob.Offer.Service)
	if f, _, ok := m.asks(1, nil); ok {
		t.Errorf("%v is gone, and was chosen", f.Offer.Service)
	}
}
