package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// recommends signs a recommendation of services.
func (w *world) recommends(p provider, handles string, services ...guild.Service) error {
	w.Helper()
	r := nip89.Recommendation{Handles: handles}
	for _, s := range services {
		r.Handlers = append(r.Handlers, nip89.Recommended{PubKey: s.PubKey, D: s.D})
	}
	return w.observe(p, r.Event())
}

func TestRecommendations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice, friend, stranger := newWorld(t), newProvider(1), newProvider(200), newProvider(2)
		s := alice.service("alice")
		w.announces(alice, python("alice"))
		wantDrop(t, w.recommends(stranger, "5000", s), guild.Stranger)
		wantDrop(t, w.recommends(alice, "5000", s), guild.Stranger) // herself, who is not followed
		want := func(n int) {
			t.Helper()
			if o, _ := w.Offer(s); o.Recommended != n || len(w.Recommenders(s)) != n || first(w.Offers("python", 5000)).Recommended != n {
				t.Errorf("recommended by %d, want %d", o.Recommended, n)
			}
		}
		for _, handles := range []string{"5000", "5050"} { // two by one key count once
			if err := w.recommends(friend, handles, s); err != nil {
				t.Fatal(err)
			}
		}
		want(1)
		w.open()
		want(1)
		time.Sleep(time.Second)
		if err := w.recommends(friend, "5000"); err != nil { // replaced by an empty one
			t.Fatal(err)
		}
		want(1)
		deletes := nostr.Event{Kind: KindDeletion, Tags: nostr.Tags{{"a", fmt.Sprintf("31989:%s:5050", friend.key.Hex())}}}
		if !w.Deletes(nostr.Event{PubKey: friend.key, Tags: deletes.Tags}) {
			t.Error("Deletes does not know a deletion of a recommendation")
		}
		wantDrop(t, w.observe(stranger, deletes), guild.Misdirected)
		if err := w.observe(friend, deletes); err != nil {
			t.Fatal(err)
		}
		want(0)
		w.open()
		want(0)
	})
}

func TestDeletionByID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice, mallory := newWorld(t), newProvider(1), newProvider(2)
		w.announces(alice, python("one"))
		w.announces(alice, python("two"))
		id := w.card(alice.service("one")).ID
		byID := nostr.Event{Kind: KindDeletion, Tags: nostr.Tags{{"e", id.Hex()}}}
		if !w.Deletes(nostr.Event{PubKey: alice.key, Tags: byID.Tags}) || w.Deletes(nostr.Event{Tags: nostr.Tags{{"e", nostr.ID{1}.Hex()}, {"k", "5000"}}}) {
			t.Error("Deletes does not know the id")
		}
		wantDrop(t, w.observe(mallory, byID), guild.Misdirected)
		if err := w.observe(alice, byID); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := w.names(""); !slices.Equal(got, []string{"two"}) {
				t.Errorf("left: %v", got)
			}
			wantDrop(t, w.observe(alice, python("one").Event()), guild.Outdated)
			w.open()
		}
	})
}

func TestDeletionOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("one"))
		w.announces(alice, python("two"))
		if err := w.observe(alice, deletion(alice, "one", "two")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.announces(alice, python("one"))
		w.open()
		if got := w.names(""); !slices.Equal(got, []string{"one"}) {
			t.Errorf("after the restart: %v", got)
		}
	})
}

func TestRelaysOfAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		e := python("alice").Event()
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
		v, err := guild.Sign(t.Context(), alice.signer, e)
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{"wss://one.example/", "wss://two.example", "wss://one.example", "ws://10.0.0.1", "", "wss://3.example", "wss://4.example", "wss://5.example"} {
			if err := w.Observe(t.Context(), from, v); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"wss://one.example", "wss://two.example", "wss://3.example", "wss://4.example"}
		for range 2 {
			c := w.card(alice.service("alice"))
			if !slices.Equal(c.From, want) || !slices.Equal(c.Reach, append([]string{"wss://alice.example"}, want...)) {
				t.Errorf("seen on %v, reached by %v", c.From, c.Reach)
			}
			w.open()
		}
	})
}

func TestReadsOldSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		keep := func(place string, e nostr.Event) {
			e.CreatedAt = nostr.Timestamp(time.Now().Unix())
			v, err := guild.Sign(t.Context(), alice.signer, e)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(v.Event())
			if err != nil {
				t.Fatal(err)
			}
			if err := w.journal.See(t.Context(), "registry.card."+alice.key.Hex()+"."+place, raw); err != nil {
				t.Fatal(err)
			}
		}
		keep("1", python("one").Event())
		keep("2", python("two").Event())
		keep("3", deletion(alice, "two"))
		if err := w.journal.See(t.Context(), "registry.card.garbage", []byte("{\n{")); err != nil {
			t.Fatal(err)
		}
		w.open()
		if got := w.names(""); !slices.Equal(got, []string{"one"}) {
			t.Errorf("%v", got)
		}
		if c, ok, err := w.Card(t.Context(), alice.service("one")); err != nil || !ok || c.Whole || c.Name != "one" {
			t.Errorf("%+v, %v: memory has it", c, err)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		changes := w.Watch(t.Context())
		w.announces(alice, python("alice"))
		time.Sleep(time.Second)
		w.announces(alice, python("alice"))
		w.announces(alice, python("alice")) // the same again
		if err := w.observe(alice, deletion(alice, "alice")); err != nil {
			t.Fatal(err)
		}
		var got []What
		for c := range changes {
			if c.Service != alice.service("alice") || c.Name != "alice" || c.Missed != 0 {
				t.Errorf("%+v", c)
			}
			got = append(got, c.What)
			if len(got) == 3 {
				break
			}
		}
		if want := []What{Announced, Updated, Retracted}; !slices.Equal(got, want) || len(w.watchers) != 0 {
			t.Errorf("%v, %d watchers are left", got, len(w.watchers))
		}
	})
}

func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		changes := w.Watch(t.Context())
		for n := range 257 {
			w.mu.Lock()
			w.tell(Change{What: Announced, Name: fmt.Sprint(n)})
			w.mu.Unlock()
		}
		seen := 0
		for c := range changes {
			if seen++; seen == 256 {
				w.mu.Lock()
				w.tell(Change{What: Updated})
				w.mu.Unlock()
			}
			if c.Missed > 0 {
				if seen != 257 || c.Missed != 1 || c.What != Updated {
					t.Errorf("%d: %+v", seen, c)
				}
				break
			}
		}
	})
}

func TestRelaysNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n, relays := range [][]string{{"wss://a.example", "wss://all.example"}, {"wss://all.example/"}, {"wss://b.example", "wss://all.example"}} {
			h := python("x")
			h.Relays = relays
			w.announces(newProvider(byte(n+1)), h)
		}
		if got := w.RelaysNamed(2); !slices.Equal(got, []string{"wss://all.example", "wss://a.example"}) {
			t.Errorf("%v", got)
		}
	})
}

func TestOffersFollowChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("alice"))
		offers := w.Offers("python", 5000)
		w.move(alice.service("alice"), guild.Unresponsive)
		if got := first(offers).State; got != guild.Unresponsive {
			t.Errorf("offered as %s, want unresponsive", got)
		}
		w.announces(newProvider(2), python("bob"))
		if got := w.names("python"); len(got) != 2 {
			t.Errorf("%v", got)
		}
		for range offers {
			if err := w.observe(alice, deletion(alice, "alice")); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.names("python"); !slices.Equal(got, []string{"bob"}) {
			t.Errorf("%v after a deletion, want bob", got)
		}
	})
}

func TestFirstOffersOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range byte(50) {
			w.announces(newProvider(n+1), python(fmt.Sprint("p", n)))
		}
		w.asked.Store(0)
		taken := 0
		for range w.Offers("python", 5000) {
			if taken++; taken == 3 {
				break
			}
		}
		if n := w.asked.Load(); n != 3 {
			t.Errorf("three offers took a look at %d services", n)
		}
	})
}

func TestConcurrentObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		var events []guild.Verified
		for n := range 40 {
			e := python(fmt.Sprint("d", n%4)).Event()
			e.CreatedAt = nostr.Timestamp(time.Now().Unix() - int64(n))
			v, err := guild.Sign(t.Context(), alice.signer, e)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, v)
		}
		w.changes = 0
		w.Registry.c.Changed = nil
		var relays sync.WaitGroup
		for n := range 4 {
			relays.Go(func() {
				for i := range events {
					w.Observe(t.Context(), fmt.Sprintf("wss://r%d.example", n), events[(i*7+n*11)%len(events)])
					w.names("python")
				}
			})
		}
		relays.Wait()
		for range 2 {
			for n := range 4 {
				if c := w.card(alice.service(fmt.Sprint("d", n))); c.ID != events[n].Event().ID || !c.Whole {
					t.Errorf("d%d: %+v", n, c)
				}
			}
			w.open()
		}
	})
}

func TestTouchedServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		var named []string
		w.Registry.index.touched = func(s guild.Service) { named = append(named, s.D) }
		w.announces(alice, python("a"))
		w.announces(alice, python("b"))
		time.Sleep(time.Second)
		h := python("a")
		h.Price = 7
		w.announces(alice, h)
		time.Sleep(time.Second)
		if err := w.observe(alice, deletion(alice, "b")); err != nil {
			t.Fatal(err)
		}
		a, b := IDOf(alice.service("a")), IDOf(alice.service("b"))
		if want := []ID{a, b, a, b}; !slices.Equal(w.decisions.announced, want) {
			t.Errorf("partners were told of %v, want %v", w.decisions.announced, want)
		}
		if want := []string{"a", "b", "a", "b"}; !slices.Equal(named, want) {
			t.Errorf("%v, want %v", named, want)
		}
	})
}
