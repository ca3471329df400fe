package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/nip89"
)

// stranger returns a provider by its number.
func stranger(n int) provider {
	secret := key.NewSecret(nostr.SecretKey{29: 7, 30: byte(n >> 8), 31: byte(n)})
	return provider{key.NewSigner(secret), secret.PubKey()}
}

// aged returns an announcement made some time ago.
func aged(h nip89.Handler, ago time.Duration) nostr.Event {
	e := h.Event()
	e.CreatedAt = nostr.Timestamp(time.Now().Add(-ago).Unix())
	return e
}

// inSeen returns the number and the size of the messages in SEEN under a prefix.
func (w *world) inSeen(prefix string) (count, bytes int) {
	w.Helper()
	for m, err := range w.journal.Seen(w.Context(), seenPrefix+prefix) {
		if err != nil {
			w.Fatal(err)
		}
		count++
		bytes += len(m.Data)
	}
	return count, bytes
}

// ds returns the d of all services, sorted.
func (w *world) ds() []string {
	var all []string
	for o := range w.Offers("", 0) {
		all = append(all, o.Service.D)
	}
	return slices.Sorted(slices.Values(all))
}

func (w *world) wantServices(want ...string) {
	w.Helper()
	for range 2 {
		if got := w.ds(); !slices.Equal(got, want) {
			w.Errorf("kept are %v, want %v", got, want)
		}
		if n, _ := w.inSeen("card"); n != w.Len() {
			w.Errorf("%d announcements are in SEEN, want %d", n, w.Len())
		}
		room := w.room
		w.open()
		w.room = room
	}
}

func TestServicesOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mallory, bob := newWorld(t), newProvider(1), newProvider(2)
		known := mallory.service("known")
		w.announces(mallory, python("known"))
		w.move(known, guild.Active)
		for n := range 40 {
			err := w.observe(mallory, python(fmt.Sprint("d", n)).Event())
			switch {
			case n < 32 && err != nil:
				t.Fatal(err)
			case n >= 32:
				wantDrop(t, err, guild.Flood)
			}
		}
		time.Sleep(time.Second)
		w.announces(bob, python("bob"))
		w.announces(mallory, python("d7")) // its services that are known can still be updated
		w.announces(mallory, python("known"))
		w.move(mallory.service("met"), guild.Active)
		w.announces(mallory, python("met")) // a service with facts does not count
		for range 2 {
			if n, _ := w.inSeen("card"); w.Len() != 35 || n != 35 {
				t.Errorf("%d services are known and %d are in SEEN, want 35", w.Len(), n)
			}
			w.open()
		}
	})
}

func TestRestartAfterFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mallory := newWorld(t), newProvider(1)
		w.announces(newProvider(2), python("bob"))
		large := python("large")
		large.About = strings.Repeat("x", 20<<10)
		for n := range 50 {
			h := python(fmt.Sprint("d", n))
			if n == 0 {
				h = large
			}
			v, err := guild.Sign(t.Context(), mallory.signer, aged(h, 0))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := v.Event().MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			b, err := sighting{First: 1}.encode(raw)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.journal.See(t.Context(), seenPrefix+IDOf(mallory.service(h.D)).place(), b); err != nil {
				t.Fatal(err)
			}
		}
		w.open()
		if n, _ := w.inSeen("card"); w.Len() != 33 || n != 33 {
			t.Errorf("%d services are known and %d are in SEEN, want 33", w.Len(), n)
		}
		if _, ok := w.Offer(mallory.service("large")); ok {
			t.Error("a stranger's large announcement is kept")
		}
	})
}

func TestDropOrder(t *testing.T) {
	const day = 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.room.services = 6
		mallory, old, older := stranger(1), stranger(2), stranger(3)
		announce := func(p provider, d string, ago time.Duration) error { return w.observe(p, aged(python(d), ago)) }
		for _, err := range []error{
			announce(mallory, "m1", 0), announce(mallory, "m2", time.Hour), announce(mallory, "m3", time.Minute),
			announce(old, "old", 20*day), announce(older, "older", 21*day), announce(stranger(4), "archived", 91*day),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		steps := []struct {
			who  provider
			d    string
			ago  time.Duration
			want []string // nil if it is refused
		}{
			{stranger(5), "archived too", 92 * day, nil},
			{stranger(6), "a", 0, []string{"a", "m1", "m2", "m3", "old", "older"}}, // the archived one was dropped
			{mallory, "m4", 0, nil},                                                // its key already has the most services
			{stranger(7), "b", 0, []string{"a", "b", "m1", "m3", "old", "older"}},
			{stranger(8), "c", 25 * day, []string{"a", "b", "c", "m1", "old", "older"}}, // the oldest that is not archived, but the only one of its key
			{mallory, "m5", 0, nil},
			{stranger(9), "d", 0, []string{"a", "b", "d", "m1", "old", "older"}}, // each key has one: the oldest is dropped
			{stranger(10), "e", 22 * day, nil},                                   // it would be the oldest itself
		}
		for _, step := range steps {
			before := w.ds()
			err := announce(step.who, step.d, step.ago)
			if step.want == nil {
				wantDrop(t, err, guild.Flood)
				step.want = before
			} else if err != nil {
				t.Errorf("%s: %v", step.d, err)
			}
			w.wantServices(step.want...)
		}
		w.move(older.service("older"), guild.Active)
		if err := w.recommends(newProvider(200), "5000", old.service("old")); err != nil {
			t.Fatal(err)
		}
		for n := range 20 { // services with facts, and those that friends recommend, are never dropped
			time.Sleep(time.Second)
			if err := announce(stranger(20+n), fmt.Sprint("z", n), 0); err != nil {
				t.Fatal(err)
			}
		}
		w.wantServices("old", "older", "z16", "z17", "z18", "z19")
	})
}

func TestKnownServiceGetsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.room.services = 2
		for _, d := range []string{"a", "b", "c"} {
			w.move(alice.service(d), guild.Active)
		}
		w.announces(stranger(1), python("x"))
		w.announces(stranger(2), python("y"))
		for _, d := range []string{"a", "b", "c"} {
			if err := w.observe(alice, aged(python(d), 80*24*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		w.wantServices("a", "b", "c")
	})
}

func TestSeenBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.room.stored = 64 << 10
		long := python("long")
		long.About = strings.Repeat("x", 12<<10)
		for n := range 30 {
			time.Sleep(time.Second)
			w.announces(stranger(n), long)
		}
		if _, bytes := w.inSeen("card"); bytes > 80<<10 || bytes != w.index.stored-w.Len()*framing {
			t.Errorf("%d bytes are in SEEN, and %d are counted", bytes, w.index.stored)
		}
		before := w.index.stored
		w.open()
		if w.index.stored != before {
			t.Errorf("%d bytes after the start, %d before", w.index.stored, before)
		}
	})
}

func TestStrangersAnnouncementSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		long := python("a")
		long.About = strings.Repeat("x", 15<<10)
		w.announces(alice, long)
		long.About = strings.Repeat("x", 60<<10)
		time.Sleep(time.Second)
		wantDrop(t, w.observe(alice, long.Event()), guild.TooLarge)
		w.move(alice.service("a"), guild.Active)
		w.announces(alice, long) // the specification's 64 KB apply to known services
		w.open()
		if c := w.card(alice.service("a")); len(c.About) != 60<<10 {
			t.Errorf("%d bytes are kept", len(c.About))
		}
	})
}

func TestStrangersRelayLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice, mallory, met := newWorld(t), newProvider(1), newProvider(2), newProvider(3)
		long := nostr.Event{Kind: KindRelays, Tags: nostr.Tags{{"p", alice.key.Hex()}}}
		for n := range 400 {
			long.Tags = append(long.Tags, nostr.Tag{"r", fmt.Sprintf("wss://r%03d.example/%s", n, strings.Repeat("a", 100))})
		}
		wantDrop(t, w.observe(mallory, long), guild.Stranger)
		w.announces(alice, python("a"))
		w.move(met.service("gone"), guild.Warned)
		for _, p := range []provider{alice, met, newProvider(200)} { // announces, has done a job, is followed
			if err := w.observe(p, long); err != nil {
				t.Error(err)
			}
		}
		reach := w.card(alice.service("a")).Reach
		if n, bytes := w.inSeen("relays"); n != 3 || bytes > 3*8<<10 || len(reach) != 2+maxNamed {
			t.Errorf("%d lists of %d bytes, alice is reached by %v", n, bytes, reach)
		}
		w.open()
		if got := w.card(alice.service("a")).Reach; !slices.Equal(got, reach) {
			t.Errorf("reached by %v after the start, %v before", got, reach)
		}
		if err := w.observe(alice, deletion(alice, "a")); err != nil {
			t.Fatal(err)
		}
		w.open()
		if n, _ := w.inSeen("relays"); n != 2 {
			t.Errorf("%d lists are kept once their author announces nothing", n)
		}
	})
}

func TestTooManyRelayLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("a"))
		for n := range mostLists {
			w.lists[nostr.PubKey{1, byte(n), byte(n >> 8)}] = list{at: nostr.Timestamp(n + 1)}
		}
		stale := stranger(1)
		w.announces(stale, python("b"))
		w.lists[stale.key] = list{} // the oldest, but its key announces a service
		before := maps.Clone(w.lists)
		if err := w.observe(alice, nostr.Event{Kind: KindRelays, Tags: nostr.Tags{{"r", "wss://r.example"}}}); err != nil {
			t.Fatal(err)
		}
		_, first := w.lists[nostr.PubKey{1}]
		if _, kept := w.lists[stale.key]; len(w.lists) != mostLists || len(before) != mostLists+1 || first || !kept || len(w.lists.of(alice.key)) != 1 {
			t.Errorf("%d lists of %d, the oldest kept: %v", len(w.lists), len(before), first)
		}
	})
}

func TestDeletionSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		d := strings.Repeat("d", 1000)
		h := python("x")
		h.D = d
		w.announces(alice, h)
		if err := w.observe(alice, deletion(alice, d)); err != nil {
			t.Fatal(err)
		}
		if n, bytes := w.inSeen("card"); n != 1 || bytes > 100 {
			t.Errorf("%d retractions of %d bytes", n, bytes)
		}
		w.open()
		wantDrop(t, w.observe(alice, aged(h, time.Second)), guild.Outdated)
	})
}
