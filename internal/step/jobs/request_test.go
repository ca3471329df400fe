package jobs

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// turns lists the providers that are asked for an order, one after the other if each fails.
func turns(offers []guild.Offer, trust map[guild.Service]guild.Trust, o Order) (keys []nostr.PubKey) {
	j := New(Config{
		Market: offered(func(string, int) []guild.Offer { return offers }),
		Trust:  func(_ string, s guild.Service) (guild.Trust, bool) { t, met := trust[s]; return t, met },
		Now:    time.Now, Policy: orderly,
	}, NewFold())
	job := &Job{JobOpened: fact.JobOpened{Task: "python", Bid: o.Bid, Private: o.Private, Providers: o.Providers, Release: o.Release}}
	for {
		choice := j.field(job, 1, time.Now()).best
		if choice == nil {
			return keys
		}
		keys = append(keys, choice.Service.PubKey)
		asked := *job
		asked.Attempts = append(slices.Clip(job.Attempts), Attempt{Attempt: guild.Attempt{Provider: choice.Service, State: guild.Expired}})
		job = &asked
	}
}

func TestWhoIsAskedFirst(t *testing.T) {
	encrypting := func(o guild.Offer) guild.Offer { o.Encrypts = true; return o }
	keyed := func(o guild.Offer, recipient string) guild.Offer { o.Encrypts, o.Recipient = true, recipient; return o }
	forOwn := &fact.Release{Vaults: []fact.Sealed{{}}}
	in := func(o guild.Offer, s guild.ProviderState) guild.Offer { o.State = s; return o }
	for _, c := range []struct {
		name   string
		offers []guild.Offer
		trust  map[guild.Service]guild.Trust
		order  Order
		want   []nostr.PubKey // in turn, when nothing comes of the one before
	}{
		{"the cheaper of two that nobody knows", []guild.Offer{alice.offers(2), bob.offers(1)}, nil, Order{}, []nostr.PubKey{bob.key, alice.key}},
		{"the trusted before the cheap", []guild.Offer{alice.offers(1), bob.offers(2)},
			map[guild.Service]guild.Trust{bob.service(): 600_000}, Order{}, []nostr.PubKey{bob.key, alice.key}},
		{"the more trusted first", []guild.Offer{alice.offers(1), bob.offers(2)},
			map[guild.Service]guild.Trust{alice.service(): 600_000, bob.service(): 700_000}, Order{}, []nostr.PubKey{bob.key, alice.key}},
		{"below the threshold too", []guild.Offer{alice.offers(1), bob.offers(2)},
			map[guild.Service]guild.Trust{bob.service(): 499_999}, Order{}, []nostr.PubKey{bob.key, alice.key}},
		{"below 0.3 nobody is asked", []guild.Offer{alice.offers(1), bob.offers(2)},
			map[guild.Service]guild.Trust{alice.service(): 299_999}, Order{}, []nostr.PubKey{bob.key}},
		{"over the bid nobody is asked", []guild.Offer{alice.offers(1001), bob.offers(1000)}, nil, Order{Bid: 1000}, []nostr.PubKey{bob.key}},
		{"the rejected and the removed are not asked", []guild.Offer{in(alice.offers(1), guild.Unqualified), in(bob.offers(1), guild.Removed),
			in(carol.offers(3), guild.Warned)}, nil, Order{}, []nostr.PubKey{carol.key}},
		{"the stale and the suspended neither", []guild.Offer{in(alice.offers(1), guild.Stale), in(bob.offers(1), guild.Suspended),
			in(carol.offers(3), guild.Active)}, nil, Order{}, []nostr.PubKey{carol.key}},
		{"what is private goes to who can read it", []guild.Offer{alice.offers(1), encrypting(bob.offers(2))}, nil, Order{Private: true}, []nostr.PubKey{bob.key}},
		{"credentials go to who can read them", []guild.Offer{alice.offers(1), encrypting(bob.offers(2))}, nil, Order{Release: forOwn}, []nostr.PubKey{bob.key}},
		{"credentials that are sealed go to whom they are sealed for", []guild.Offer{encrypting(alice.offers(1)), keyed(bob.offers(2), "age1b"),
			keyed(carol.offers(3), "age1c")}, nil, Order{Release: &fact.Release{Vaults: []fact.Sealed{{For: "age1c"}}}}, []nostr.PubKey{carol.key}},
		{"what the node can seal again goes to all of those", []guild.Offer{encrypting(alice.offers(1)), keyed(bob.offers(2), "age1b")}, nil,
			Order{Release: &fact.Release{Vaults: []fact.Sealed{{For: "age1c"}, {}}}}, []nostr.PubKey{alice.key, bob.key}},
		{"no choice of the customer's overrules that", []guild.Offer{alice.offers(1), encrypting(bob.offers(2))}, nil,
			Order{Release: forOwn, Providers: []nostr.PubKey{alice.key}}, nil},
		{"the customer's own order wins", []guild.Offer{alice.offers(1), bob.offers(2), carol.offers(3)},
			map[guild.Service]guild.Trust{alice.service(): 900_000}, Order{Providers: []nostr.PubKey{carol.key, alice.key}}, []nostr.PubKey{carol.key, alice.key}},
		{"over everything that we think of them", []guild.Offer{in(alice.offers(9000), guild.Unqualified)},
			map[guild.Service]guild.Trust{alice.service(): 100_000}, Order{Bid: 1, Providers: []nostr.PubKey{alice.key}}, []nostr.PubKey{alice.key}},
		{"but not over a removal", []guild.Offer{in(alice.offers(1), guild.Removed)}, nil, Order{Providers: []nostr.PubKey{alice.key}}, nil},
		{"nor over privacy", []guild.Offer{alice.offers(1)}, nil, Order{Private: true, Providers: []nostr.PubKey{alice.key}}, nil},
		{"a provider is asked once, whatever number of services it announces", []guild.Offer{alice.offers(1), another(alice.offers(2)), bob.offers(3)},
			nil, Order{}, []nostr.PubKey{alice.key, bob.key}},
	} {
		if got := turns(c.offers, c.trust, c.order); !slices.Equal(got, c.want) {
			t.Errorf("%s: asked %v, want %v", c.name, got, c.want)
		}
	}
}

func another(o guild.Offer) guild.Offer { o.Service.D = "another"; return o }

func TestQuarantineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resting := alice.offers(0)
		resting.Until = time.Now().Add(5 * time.Second).UnixMilli()
		w := newWorld(t, resting)
		id := w.opens(Order{})
		w.wants(id)
		w.pass(10 * time.Second)
		w.wants(id, guild.Requested)
	})
}

func TestLessLoadedProviderIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(1))
		count := map[nostr.PubKey]int{}
		for range 10 {
			count[w.attempt(w.opens(Order{})).Provider.PubKey]++
		}
		if count[alice.key] != 5 || count[bob.key] != 5 {
			t.Errorf("%d and %d", count[alice.key], count[bob.key])
		}
	})
}

func TestNobodyElseReadsAnEncryptedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := alice.offers(0)
		reader.Encrypts = true
		w := newWorld(t, reader)
		id := w.opens(Order{Private: true, Bid: 5})
		e := w.sent(5000)[0].Event
		if text := e.String(); strings.Contains(text, "python") || strings.Contains(text, "Do it") || strings.Contains(text, "bundle") {
			t.Errorf("in clear: %s", text)
		}
		if _, err := nip90.ParseRequest(e, opener(mallory)); err == nil {
			t.Error("a stranger read it")
		}
		r, err := nip90.ParseRequest(e, opener(alice))
		if err != nil || r.Get(nip90.ParamJobType) != "python" || r.Content != "Do it" || r.Encrypted != nip90.NIP44 {
			t.Errorf("%+v, %v", r, err)
		}
		if b, err := r.Bundle(); err != nil || string(b.Inline) != "the task" {
			t.Errorf("%v", err)
		}

		sealed := nip90.Result{Kind: 6000, Request: e.ID, Customer: customer.key}
		if err := sealed.SetDelivery(nip90.NewParcel([]byte("the work"))); err != nil {
			t.Fatal(err)
		}
		answer, err := sealed.Sealed(func(text string) (string, error) { return alice.signer.Encrypt(t.Context(), text, customer.key) })
		if err != nil {
			t.Fatal(err)
		}
		if err := w.says(alice, answer); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Delivered)
	})
}

func opener(p person) nip90.Opener {
	return func(sender nostr.PubKey, ciphertext string) (string, error) {
		return p.signer.Decrypt(context.Background(), ciphertext, sender)
	}
}

func TestClearAnswerIsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := alice.offers(1)
		reader.Encrypts = true
		w := newWorld(t, reader, bob.offers(2))
		id := w.opens(Order{})
		if err := w.delivers(alice, w.attempt(id).ID, []byte("the work")); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Refused, guild.Requested)
		job, _ := w.fold.Job(id)
		if got := job.Attempts[0].Reason; got != "answered an encrypted request in clear" {
			t.Error(got)
		}
	})
}

func TestLargeBundleIsSentByURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := alice.offers(0)
		reader.Encrypts = true
		w := newWorld(t, reader)
		large := bytes.Repeat([]byte("x"), nip90.MaxInline+1)
		w.opens(Order{Bundle: large})
		r, err := nip90.ParseRequest(w.sent(5000)[0].Event, opener(alice))
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.Bundle()
		if err != nil || b.Inline != nil || b.URL != "https://blob.example/bundle" || b.Key == nil || *b.Key != [32]byte{7} ||
			b.Hash != guild.Sum(large) || b.Size != int64(len(large)) {
			t.Errorf("%v, %v", b, err)
		}
	})
}

// elsewhere is a delivery that is fetched by its URL.
func elsewhere(delivery []byte) nip90.Parcel {
	return nip90.Parcel{Hash: guild.Sum(delivery), Size: int64(len(delivery)), URL: "https://blob.example/delivery"}
}

func TestLargeDeliveryIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{Timeout: 5 * time.Minute})
		if err := w.says(alice, result(t, w.attempt(id).ID, elsewhere([]byte("the work")))); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Delivered)
		if w.attempt(id).Away == nil {
			t.Fatal("it is here already")
		}
		w.mu.Lock()
		w.remote["https://blob.example/delivery"] = []byte("the work")
		w.mu.Unlock()
		w.pass(10 * time.Second)
		if a := w.attempt(id); a.Away != nil || !w.blobs.Has(a.Delivery) {
			t.Errorf("not fetched: %+v", a.Away)
		}
		w.pass(time.Hour) // a deadline is for the provider, and it has delivered
		w.wants(id, guild.Delivered)
	})
}

func TestWrongFetchedDeliveryIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.remote["https://blob.example/delivery"] = []byte("other work")
		id := w.opens(Order{})
		if err := w.says(alice, result(t, w.attempt(id).ID, elsewhere([]byte("the work")))); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Minute)
		if state := w.attempt(id).State; state == guild.Delivered || slices.Contains(w.facts(id), "attempt.fetched") {
			t.Errorf("%s", state)
		}
	})
}

func TestDecliningFetchedDeliveryIsRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		blocked := delivery(t, "blocked")
		w.remote["https://blob.example/delivery"] = blocked
		id := w.opens(Order{})
		if err := w.says(alice, result(t, w.attempt(id).ID, elsewhere(blocked))); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Refused)
	})
}

func TestHugeDeliveryIsRefusedUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		id := w.opens(Order{})
		huge := elsewhere([]byte("the work"))
		huge.Size = maxDelivery + 1
		if err := w.says(alice, result(t, w.attempt(id).ID, huge)); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Refused)
	})
}
