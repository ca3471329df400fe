package partner

import (
	"slices"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

func TestDealtPrefersEligible(t *testing.T) {
	f := newFold()
	move := func(key byte, d string, to guild.ProviderState) {
		f.Apply(fact.Entry{Facts: []fact.Fact{fact.ProviderMoved{Service: guild.Service{PubKey: nostr.PubKey{key}, D: d}, From: guild.Seen, To: to}}})
	}
	move(5, "a", guild.Active)
	move(4, "a", guild.Unresponsive)
	move(4, "b", guild.Conditional)
	move(1, "a", guild.Unresponsive)
	move(2, "a", guild.Suspended)
	move(3, "a", guild.Removed)
	tests := []struct {
		max  int
		want []nostr.PubKey
	}{
		{9, []nostr.PubKey{{1}, {2}, {4}, {5}}},
		{3, []nostr.PubKey{{1}, {4}, {5}}},
		{1, []nostr.PubKey{{4}}},
		{0, nil},
	}
	for _, test := range tests {
		if got := f.Dealt(test.max); !slices.Equal(got, test.want) {
			t.Errorf("at most %d: %v, want %v", test.max, got, test.want)
		}
	}
}

// The keys are the same each time, so that what is asked of relays for them is, too.
func TestKeysAreTheSameEachTime(t *testing.T) {
	f := newFold()
	for key := range byte(100) {
		f.Apply(fact.Entry{Facts: []fact.Fact{fact.ProviderMoved{Service: guild.Service{PubKey: nostr.PubKey{100 - key}, D: "a"}, From: guild.Seen, To: guild.Active}}})
	}
	for range 10 {
		if got := f.Keys(3); !slices.Equal(got, []nostr.PubKey{{1}, {2}, {3}}) {
			t.Errorf("%v", got)
		}
	}
	if got := f.Keys(200); len(got) != 100 {
		t.Errorf("%d keys", len(got))
	}
}
