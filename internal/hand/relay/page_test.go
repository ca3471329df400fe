package relay

import (
	"testing"

	"fiatjaf.com/nostr"
)

// brought adds n events of a kind to a stream, all of one second or each a second older than the one before.
func brought(st *stream, n int, kind nostr.Kind, from, step nostr.Timestamp) {
	for i := range n {
		st.count(nostr.Event{Kind: kind, CreatedAt: from - step*nostr.Timestamp(i)})
	}
}

func TestOlderPages(t *testing.T) {
	one, two, limited := nostr.Filter{Kinds: []nostr.Kind{1}}, nostr.Filter{Kinds: []nostr.Kind{2}},
		nostr.Filter{Kinds: []nostr.Kind{1}, Limit: 100}
	st := &stream{filters: []nostr.Filter{one, two, limited}}
	brought(st, fullPage, 1, 1000, 1)
	brought(st, 1, 2, 5, 1)
	next, unread := st.older()
	if next == nil || len(next.filters) != 1 || next.filters[0].Kinds[0] != 1 || next.filters[0].Until != 901 || unread != nil {
		t.Fatalf("got %v %v", next, unread)
	}
}

// crowded returns a stream whose page brought n events of one second, and no older ones.
func crowded(n int) *stream {
	st := &stream{filters: []nostr.Filter{{Kinds: []nostr.Kind{1, 2}, Since: 700, Until: 901}}}
	brought(st, n, 1, 901, 0)
	return st
}

func TestFullSecond(t *testing.T) {
	next, unread := crowded(500).older()
	if next == nil || len(next.filters) != 2 || unread != nil {
		t.Fatalf("got %v %v", next, unread)
	}
	second, rest := next.filters[0], next.filters[1]
	if second.Since != 901 || second.Until != 901 || rest.Since != 700 || rest.Until != 900 {
		t.Errorf("asks for %v and %v", second, rest)
	}
}

func TestFirstSecondOfFilter(t *testing.T) {
	st := &stream{filters: []nostr.Filter{{Since: 901, Until: 901}}}
	brought(st, 500, 1, 901, 0)
	if next, _ := st.older(); next == nil || len(next.filters) != 1 || next.filters[0].Since != 901 {
		t.Errorf("got %v", next)
	}
}

func TestCutSecond(t *testing.T) {
	for _, c := range []struct {
		name          string
		page, n, rest int
		short         bool
	}{
		{"more than the page had", 500, 2000, 500, false},
		{"as many, and there is nothing older", 151, 151, 0, false},
		{"as many, which is a number at which relays stop", 500, 500, 0, true},
		{"as many, and there are older ones", 151, 151, 3, true},
		{"as many as any relay gives", 500, maxSecond, 500, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, _ := crowded(c.page).older()
			brought(st, c.n, 1, 901, 0)
			brought(st, c.rest, 1, 900, 0)
			next, unread := st.older()
			var parts []nostr.Filter
			if next != nil {
				for i, f := range next.filters {
					if f.Since == 901 && next.page(i) == c.page {
						parts = append(parts, f)
					}
				}
			}
			if divided := len(parts) == 2 && len(parts[0].Kinds) == 1 && len(parts[1].Kinds) == 1; divided != c.short || len(unread) != 0 {
				t.Fatalf("got %v, unread %v", parts, unread)
			}
			if !c.short {
				return
			}
			last := &stream{filters: parts, pages: []int{c.page, c.page}}
			brought(last, 500, 1, 901, 0)
			brought(last, 7, 2, 901, 0)
			next, unread = last.older()
			if c.page == 500 && (next != nil || len(unread) != 1 || unread[0].Kinds[0] != 1) {
				t.Errorf("got %v, unread %v", next, unread)
			}
		})
	}
}

func TestEmptySecond(t *testing.T) {
	st, _ := crowded(151).older()
	brought(st, 3, 1, 900, 0)
	if next, unread := st.older(); next != nil || len(unread) != 1 || unread[0].Since != 901 {
		t.Errorf("got %v, unread %v", next, unread)
	}
}

func TestHalvesOfFilter(t *testing.T) {
	var two [2]nostr.PubKey
	two[1][0] = 1
	for name, f := range map[string]nostr.Filter{
		"kinds":   {Kinds: []nostr.Kind{1, 2, 3}, Authors: two[:]},
		"authors": {Kinds: []nostr.Kind{1}, Authors: two[:]},
		"tags":    {Tags: nostr.TagMap{"p": {"a"}, "t": {"x", "y", "z"}}},
	} {
		for depth := 0; ; depth++ {
			parts := halves(f)
			if len(parts) == 0 && depth > 0 {
				break
			}
			if len(parts) != 2 || depth > 3 {
				t.Fatalf("%s: got %v", name, parts)
			}
			f = parts[1]
		}
	}
	if parts := halves(nostr.Filter{Kinds: []nostr.Kind{1, 2}, Limit: 10}); parts != nil {
		t.Errorf("with a limit: %v", parts)
	}
}
