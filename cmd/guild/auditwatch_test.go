package main

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/seal"
)

// A countersignature is evidence against its author only: anybody can sign one.
func TestWatchComparesWhatTheKeySigned(t *testing.T) {
	customer, provider := key.NewSigner(key.NewSecret(nostr.SecretKey{31: 1})), key.NewSigner(key.NewSecret(nostr.SecretKey{31: 2}))
	owner, err := customer.GetPublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sign := func(by *key.Signer, e nostr.Event) guild.Verified {
		v, err := guild.Sign(t.Context(), by, e)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	point := func(size uint64, root byte) seal.Checkpoint {
		return seal.Checkpoint{Journal: "a", Size: size, Root: guild.Hash{root}}
	}
	witness := func(c seal.Checkpoint) nostr.Event {
		return seal.Witness{Customer: owner, Checkpoint: c}.Event(3)
	}
	one := sign(customer, point(5, 1).Event(1))
	for name, c := range map[string]struct {
		events      []guild.Verified
		two, hidden int
	}{
		"one history":                     {[]guild.Verified{one, sign(customer, point(6, 2).Event(2))}, 0, 0},
		"signed twice":                    {[]guild.Verified{one, sign(customer, point(5, 1).Event(2))}, 0, 0},
		"two roots of one size":           {[]guild.Verified{one, sign(customer, point(5, 2).Event(2))}, 1, 0},
		"three roots, one of them twice":  {[]guild.Verified{one, sign(customer, point(5, 2).Event(2)), sign(customer, point(5, 3).Event(2)), sign(customer, point(5, 3).Event(3))}, 2, 0},
		"another root by a stranger":      {[]guild.Verified{one, sign(provider, point(5, 2).Event(2))}, 0, 0},
		"another journal":                 {[]guild.Verified{one, sign(customer, seal.Checkpoint{Journal: "b", Size: 5, Root: guild.Hash{2}}.Event(2))}, 0, 0},
		"a countersignature":              {[]guild.Verified{one, sign(provider, witness(point(5, 1)))}, 0, 0},
		"a countersignature of another":   {[]guild.Verified{one, sign(provider, witness(point(5, 2)))}, 0, 1},
		"a countersignature, for another": {[]guild.Verified{one, sign(provider, seal.Witness{Customer: nostr.PubKey{1}, Checkpoint: point(5, 2)}.Event(3))}, 0, 0},
	} {
		s := statements{signer: owner, all: map[nostr.ID]*statement{}}
		for _, v := range c.events {
			s.add(v, "wss://a.example")
			s.add(v, "wss://b.example")
		}
		two, hidden, err := s.compare(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(two) != c.two || len(hidden) != c.hidden {
			t.Errorf("%s: %d contradictions and %d hidden, want %d and %d", name, len(two), len(hidden), c.two, c.hidden)
		}
		if known := s.all[one.Event().ID]; len(known.From) != 2 {
			t.Errorf("%s: it is from %v", name, known.From)
		}
	}
}
