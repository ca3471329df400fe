package registry

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip13"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/journaltest"
	"guild/nip89"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// provider is a key that announces services.
type provider struct {
	signer *key.Signer
	key    nostr.PubKey
}

func newProvider(n byte) provider {
	secret := key.NewSecret(nostr.SecretKey{31: n})
	return provider{key.NewSigner(secret), secret.PubKey()}
}

func (p provider) service(d string) guild.Service { return guild.Service{PubKey: p.key, D: d} }

// decisions implements Partners with values that a test sets.
type decisions struct {
	standings map[guild.Service]Standing
	announced []ID         // services with a changed announcement
	asked     atomic.Int64 // calls of Standing
}

// move puts a service in a state.
func (d *decisions) move(s guild.Service, to guild.ProviderState) {
	known := d.Standing(s)
	known.State = to
	d.standings[s] = known
}

func (d *decisions) Standing(s guild.Service) Standing {
	d.asked.Add(1)
	if known, ok := d.standings[s]; ok {
		return known
	}
	return Standing{Provider: guild.Provider{Service: s, State: guild.Seen}}
}

func (d *decisions) Has(i ID) bool {
	for s := range d.standings {
		if IDOf(s) == i {
			return true
		}
	}
	return false
}

func (d *decisions) Deals(key nostr.PubKey) bool {
	for s := range d.standings {
		if s.PubKey == key {
			return true
		}
	}
	return false
}

func (d *decisions) Announced(i ID) { d.announced = append(d.announced, i) }

// world is a registry with a journal.
type world struct {
	*testing.T
	*Registry
	*decisions
	journal *journal.Journal
	follow  []nostr.PubKey
	changes int // calls of Changed
}

// newWorld opens a journal in a directory of its own, and a registry for it.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, decisions: &decisions{standings: map[guild.Service]Standing{}}, journal: journaltest.Open(t), follow: []nostr.PubKey{newProvider(200).key}}
	w.open()
	return w
}

const day = 24 * time.Hour

// open opens the registry again.
func (w *world) open() {
	w.Helper()
	r, err := Open(w.Context(), Config{Journal: w.journal, Now: time.Now, Changed: func() { w.changes++ },
		Synonyms: map[string][]string{"python": {"py"}}, Follow: w.follow}, w.decisions)
	if err != nil {
		w.Fatal(err)
	}
	w.Registry = r
}

// observe passes an event signed by p to the registry. If it has no date, the date is now.
func (w *world) observe(p provider, e nostr.Event) error {
	w.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	}
	v, err := guild.Sign(w.Context(), p.signer, e)
	if err != nil {
		w.Fatal(err)
	}
	return w.Observe(w.Context(), "wss://relay.example.com", v)
}

// announces announces a service of p now.
func (w *world) announces(p provider, h nip89.Handler) {
	w.Helper()
	if err := w.observe(p, h.Event()); err != nil {
		w.Fatal(err)
	}
}

func python(d string) nip89.Handler {
	return nip89.Handler{D: d, Name: d, Kinds: []int{5000}, Tasks: []string{"python"}, Encryption: []string{"nip44"},
		Relays: []string{"wss://" + d + ".example"}, Price: 7, MaxConcurrent: 3}
}

// first returns the first of some offers.
func first(offers iter.Seq[guild.Offer]) guild.Offer {
	for o := range offers {
		return o
	}
	return guild.Offer{}
}

// names returns the names of the offers for a task.
func (w *world) names(task string) (names []string) {
	for o := range w.Offers(task, 5000) {
		names = append(names, o.Name)
	}
	return names
}

func wantDrop(t *testing.T, err error, want guild.Reason) {
	t.Helper()
	if dropped, ok := errors.AsType[*guild.DropError](err); !ok || dropped.Reason != want {
		t.Errorf("got %v, want %q dropped", err, want)
	}
}

func TestAnnouncementBecomesOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("alice"))
		if err := w.observe(alice, nostr.Event{Kind: KindRelays, Tags: nostr.Tags{
			{"r", "wss://read.example", "read"}, {"r", "wss://write.example", "write"}, {"r", "wss://both.example"}, {"r"}}}); err != nil {
			t.Fatal(err)
		}
		offers := slices.Collect(w.Offers("python", 5000))
		if len(offers) != 1 {
			t.Fatalf("%d offers", len(offers))
		}
		o := offers[0]
		relays := []string{"wss://alice.example", "wss://relay.example.com", "wss://both.example", "wss://read.example"}
		if o.Service != alice.service("alice") || o.State != guild.Seen || !o.Encrypts || o.Price != 7 || o.Slots != 3 ||
			!slices.Equal(o.Relays, relays) || o.Announced != time.Now().Unix() || o.Confidence != 1 || !o.Confirmed {
			t.Errorf("%+v", o)
		}
		if w.Name(o.Service) != "alice" || w.Len() != 1 || w.changes != 2 {
			t.Errorf("%q, %d services, %d changes", w.Name(o.Service), w.Len(), w.changes)
		}
		if w.journal.Last() != 0 {
			t.Error("an announcement became a fact")
		}
	})
}

func TestOfferOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		latency := 5.0
		inferred := nip89.Handler{D: "inferred", Name: "inferred", Kinds: []int{5000}, Performance: nip89.Performance{TypicalLatencyMs: &latency}}
		pattern, synonym := python("pattern"), python("synonym")
		pattern.Tasks, synonym.Tasks = []string{"pyth*"}, []string{"py"}
		other := python("other")
		other.Tasks = []string{"rust"}
		for n, h := range []nip89.Handler{inferred, other, synonym, pattern, python("exact")} {
			w.announces(newProvider(byte(n+1)), h)
		}
		got := w.names("python")
		if len(got) != 4 || got[0] != "exact" || got[3] != "inferred" {
			t.Errorf("%v", got)
		}
		if all := w.names(""); len(all) != 5 {
			t.Errorf("all: %v", all)
		}
	})
}

func TestNewestAnnouncementCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		now := nostr.Timestamp(time.Now().Unix())
		dated := func(name string, at nostr.Timestamp) nostr.Event {
			h := python("alice")
			h.Name = name
			e := h.Event()
			e.CreatedAt = at
			return e
		}
		for _, e := range []nostr.Event{dated("second", now-10), dated("third", now)} {
			if err := w.observe(alice, e); err != nil {
				t.Fatal(err)
			}
		}
		wantDrop(t, w.observe(alice, dated("first", now-20)), guild.Outdated)
		if err := w.observe(alice, dated("third", now)); err != nil {
			t.Errorf("an event sent again is dropped: %v", err)
		}
		if got := w.names("python"); len(got) != 1 || got[0] != "third" || w.changes != 2 {
			t.Errorf("%v after %d changes", got, w.changes)
		}
	})
}

func TestSpellingsOfService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("My  Service"))
		time.Sleep(time.Second)
		w.announces(alice, python("my service"))
		if w.Len() != 1 {
			t.Errorf("%d services", w.Len())
		}
	})
}

func TestDroppedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		future := python("alice").Event()
		future.CreatedAt = nostr.Timestamp(time.Now().Add(time.Hour + time.Second).Unix())
		wantDrop(t, w.observe(alice, future), guild.Future)
		wantDrop(t, w.observe(alice, nostr.Event{Kind: Kind, Content: "{"}), guild.Malformed)
		wantDrop(t, w.observe(alice, nostr.Event{Kind: 1}), guild.Unexpected)
		wantDrop(t, w.observe(alice, nostr.Event{Kind: KindDeletion}), guild.Misdirected)
		wantDrop(t, w.observe(alice, nostr.Event{Kind: KindDeletion, Tags: nostr.Tags{{"a"}, {"e", "x"}, {"a", "30023:x:y"}}}), guild.Misdirected)
		if w.Len() != 0 || w.changes != 0 {
			t.Errorf("%d services, %d changes", w.Len(), w.changes)
		}
	})
}

// deletion returns an event that deletes services by their addresses.
func deletion(p provider, ds ...string) nostr.Event {
	e := nostr.Event{Kind: KindDeletion}
	for _, d := range ds {
		e.Tags = append(e.Tags, nostr.Tag{"a", fmt.Sprintf("%d:%s:%s", Kind, p.key.Hex(), d)})
	}
	return e
}

func TestDeletionByAuthorOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice, mallory := newWorld(t), newProvider(1), newProvider(2)
		w.announces(alice, python("alice"))
		wantDrop(t, w.observe(mallory, deletion(alice, "alice")), guild.Misdirected)
		if w.Len() != 1 {
			t.Fatal("a stranger deleted it")
		}
		if err := w.observe(alice, deletion(alice, "alice")); err != nil || w.Len() != 0 {
			t.Errorf("%v, %d services", err, w.Len())
		}
		old := python("alice").Event()
		old.CreatedAt = nostr.Timestamp(time.Now().Add(-time.Minute).Unix())
		wantDrop(t, w.observe(alice, old), guild.Outdated)
		time.Sleep(time.Second)
		w.announces(alice, python("alice"))
		if w.Len() != 1 {
			t.Error("a later announcement does not count")
		}
	})
}

func TestNameAfterDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice, bob := newWorld(t), newProvider(1), newProvider(2)
		w.announces(alice, python("alice"))
		w.announces(bob, python("bob"))
		asked := guild.Service{PubKey: alice.key, D: "alice"}
		w.standings[asked] = Standing{Provider: guild.Provider{Service: asked, State: guild.Seen}, Name: "Alice"}
		for _, p := range []provider{alice, bob} {
			if err := w.observe(p, deletion(p, map[nostr.PubKey]string{alice.key: "alice", bob.key: "bob"}[p.key])); err != nil {
				t.Fatal(err)
			}
		}
		if name := w.Name(asked); name != "Alice" {
			t.Errorf("name %q of a service that was asked, want Alice", name)
		}
		if name := w.Name(guild.Service{PubKey: bob.key, D: "bob"}); name != "" {
			t.Errorf("name %q of a service that was never asked", name)
		}
	})
}

func TestDeletionOfAllNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		for _, d := range []string{"one", "two", "three"} {
			w.announces(alice, python(d))
		}
		if err := w.observe(alice, deletion(alice, "one", "three")); err != nil {
			t.Fatal(err)
		}
		if got := w.names(""); len(got) != 1 || got[0] != "two" {
			t.Errorf("left: %v", got)
		}
	})
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("one"))
		w.announces(alice, python("two"))
		if err := w.observe(alice, deletion(alice, "two")); err != nil {
			t.Fatal(err)
		}
		if err := w.observe(alice, nostr.Event{Kind: KindRelays, Tags: nostr.Tags{{"r", "wss://read.example"}}}); err != nil {
			t.Fatal(err)
		}
		before := slices.Collect(w.Offers("", 0))
		w.open()
		after := slices.Collect(w.Offers("", 0))
		if len(after) != 1 || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("before %v, after %v", before, after)
		}
	})
}

// What orders newcomers (when a service was first seen, and its proof of work) survives a restart.
func TestOfferOfNewcomer(t *testing.T) {
	worked := func(p provider, bits, committed int) nostr.Event {
		e := python("one").Event()
		e.PubKey, e.CreatedAt = p.key, nostr.Timestamp(time.Now().Unix())
		e.Tags = append(e.Tags, nostr.Tag{"nonce", "", strconv.Itoa(committed)})
		for n := 0; ; n++ {
			e.Tags[len(e.Tags)-1][1] = strconv.Itoa(n)
			if nip13.Difficulty(guild.EventID(e)) >= bits {
				return e
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w, alice, followed := newWorld(t), newProvider(1), newProvider(200)
		first := time.Now().UnixMilli()
		w.announces(alice, python("one"))
		w.announces(followed, python("one"))
		time.Sleep(day)
		for _, c := range []struct{ bits, committed, want int }{{8, 8, 8}, {9, 4, 4}, {4, 40, 0}, {8, -1, 0}} {
			if err := w.observe(alice, worked(alice, c.bits, c.committed)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				o, ok := w.Offer(alice.service("one"))
				if !ok || o.First != first || o.Work != c.want || o.Followed {
					t.Errorf("%d bits of %d: %+v", c.bits, c.committed, o)
				}
				w.open()
			}
			time.Sleep(time.Minute)
		}
		if o, _ := w.Offer(followed.service("one")); !o.Followed {
			t.Error("a followed key is not known as such")
		}
	})
}

func TestAnnouncementAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.announces(newProvider(1), python("alice"))
		for _, c := range []struct {
			age  time.Duration
			want []guild.ProviderState
		}{
			{30*day - time.Second, []guild.ProviderState{guild.Seen}},
			{30 * day, []guild.ProviderState{guild.Stale}},
			{90*day - time.Second, []guild.ProviderState{guild.Stale}},
			{90 * day, nil},
		} {
			w.Registry.c.Now = func() time.Time { return time.Now().Add(c.age) }
			var got []guild.ProviderState
			for o := range w.Offers("python", 5000) {
				got = append(got, o.State)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("after %v: %v, want %v", c.age, got, c.want)
			}
		}
	})
}
