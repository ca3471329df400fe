package jobs

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nip90"
)

// solicitation returns the latest published request for offers.
func (w *world) solicitation() publication {
	w.Helper()
	for _, sent := range slices.Backward(w.sent(5000)) {
		if !sent.Tags.Has("p") {
			return sent
		}
	}
	w.Fatal("nobody was asked for an offer")
	return publication{}
}

// offers returns feedback that makes an offer.
func offers(request nostr.ID, price guild.Msat) nostr.Event {
	f := nip90.Feedback{Request: request, Customer: customer.key, Status: nip90.Processing, Text: "I would"}
	if price > 0 {
		f.Status, f.Amount = nip90.PaymentRequired, price
	}
	return f.Event()
}

func TestBestOfferGetsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2), carol.offers(3))
		id := w.opens(Order{Open: true, Bid: 1000})
		w.wants(id)
		asked := w.solicitation()
		r, err := nip90.ParseRequest(asked.Event, nil)
		if err != nil || !r.Solicits() || r.Job != id.String() || r.Get(nip90.ParamJobType) != "python" || r.Bid != 1000 || r.Content != "Do it" ||
			r.Get(nip90.ParamBundleSHA256) != guild.Sum([]byte("the task")).Hex() || r.Get(nip90.ParamBundleSize) != "8" || r.Get(nip90.ParamJobHash) == "" ||
			!slices.Equal(r.Inputs, []nip90.Input{{Data: "Do it", Type: "text"}}) || r.Relays[0] != "wss://ours.example" || r.Output != "application/json" || r.Deadline().IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
		if want := []string{"wss://ours.example", "wss://first.example"}; !slices.Equal(asked.relays, want) {
			t.Errorf("published to %v, want %v", asked.relays, want)
		}
		if err := w.says(bob, offers(asked.ID, 900)); err != nil {
			t.Fatal(err)
		}
		if err := w.says(carol, offers(asked.ID, 800)); err != nil {
			t.Fatal(err)
		}
		w.pass(10*time.Second - time.Millisecond)
		w.wants(id)
		w.pass(time.Millisecond)
		w.wants(id, guild.Requested)
		if a := w.attempt(id); a.Provider.PubKey != carol.key {
			t.Errorf("asked %.8s", a.Provider.PubKey.Hex())
		}
		work, _ := w.asked(carol)
		if work.Solicits() || work.Get(nip90.ParamJobHash) != r.Get(nip90.ParamJobHash) {
			t.Errorf("%+v", work)
		}
		taken := w.sent(5)
		if len(taken) != 1 || taken[0].Tags.Find("e")[1] != asked.ID.Hex() || taken[0].Tags.Find("k")[1] != "5000" {
			t.Errorf("taken back: %v", taken)
		}
		w.says(carol, feedback(w.attempt(id).ID, nip90.Error, "no compiler"))
		w.wants(id, guild.Refused, guild.Requested)
		if a := w.attempt(id); a.Provider.PubKey != bob.key {
			t.Error("the next is who made the next best offer")
		}
		w.says(bob, feedback(w.attempt(id).ID, nip90.Error, "no compiler"))
		w.pass(time.Minute)
		w.ends(id, guild.JobUnclaimed)
		if w.fold.Open() != 0 {
			t.Error("something is still due")
		}
	})
}

// TestOffersAreAskedForInEachKind has providers of one task listen in different kinds. One of them takes both, and makes
// an offer in each; the job remains one job.
func TestOffersAreAskedForInEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := bob.offers(2)
		other.Kind, other.Kinds = 5050, []int{5000, 5050}
		w := newWorld(t, alice.offers(1), other)
		w.trust[bob.service()] = 900_000
		id := w.opens(Order{Open: true, Bid: 1000})
		usual, text := w.sent(5000), w.sent(5050)
		if len(usual) != 1 || len(text) != 1 {
			t.Fatalf("%d and %d solicitations", len(usual), len(text))
		}
		for _, asked := range []publication{usual[0], text[0]} {
			if r, err := nip90.ParseRequest(asked.Event, nil); err != nil || !r.Solicits() || r.Job != id.String() || asked.Tags.Has("p") {
				t.Errorf("%+v, %v", r, err)
			}
			if err := w.says(bob, offers(asked.ID, 500)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.says(alice, offers(usual[0].ID, 600)); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		w.wants(id, guild.Requested)
		if a := w.attempt(id); a.Provider.PubKey != bob.key || a.Planned.Request.Kind != 5050 {
			t.Errorf("asked %.8s in kind %d", a.Provider.PubKey.Hex(), a.Planned.Request.Kind)
		}
		var back []string
		for _, tag := range w.sent(5)[0].Tags {
			back = append(back, tag[1])
		}
		if want := []string{usual[0].ID.Hex(), "5000", text[0].ID.Hex(), "5050"}; len(w.sent(5)) != 1 || !slices.Equal(back, want) {
			t.Errorf("taken back: %v, want %v", back, want)
		}
	})
}

func TestStrangerIsAskedInTheKindOfItsOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := bob.offers(2)
		other.Kind = 5050
		w := newWorld(t, other)
		id := w.opens(Order{Open: true, Bid: 1000, Bundle: aTask(t)})
		if err := w.says(carol, offers(w.sent(5050)[0].ID, 500)); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.pass(10 * time.Second)
		if a := w.attempt(id); a.Provider.PubKey != carol.key || a.Planned.Request.Kind != 5050 || !a.Planned.Plain {
			t.Errorf("asked %.8s in kind %d", a.Provider.PubKey.Hex(), a.Planned.Request.Kind)
		}
	})
}

func TestKindsInWhichOffersAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []guild.Offer
		for n, kind := range []int{5900, 5905, 5905, 5300, 5000, 0} {
			o := person{key: nostr.PubKey{byte(n + 1)}}.offers(0)
			o.Kind = kind
			all = append(all, o)
		}
		w := newWorld(t, all...)
		for task, want := range map[string][]int{"python": {5000, 5905, 5300}, "text": {5000, 5050, 5905}} {
			if got := w.kindsAsked(&Job{JobOpened: fact.JobOpened{Task: task, Kind: 5000}}); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", task, got, want)
			}
		}
	})
}

// aTask packs a task with requirements, a file, and what is not for a plain request.
func aTask(t *testing.T) []byte {
	return packed(t, fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Do it"},
			"context":{"requirements":"context/requirements.md"}}`)},
		"context/requirements.md": {Data: []byte("Write it in capitals.\n")},
		"files/in.txt":            {Data: []byte("hello")},
		"tests/test_it.py":        {Data: []byte("def test_it(): pass")},
		"tests/criteria.json":     {Data: []byte(`{"criteria":[]}`)},
	})
}

func TestWhichOfferIsTaken(t *testing.T) {
	trusted := map[guild.Service]guild.Trust{bob.service(): 900_000, carol.service(): 600_000}
	type offer struct {
		by    person
		price guild.Msat
	}
	for _, c := range []struct {
		name   string
		offers []offer
		trust  map[guild.Service]guild.Trust
		order  Order
		want   *person
	}{
		{"the cheapest of equals", []offer{{bob, 500}, {carol, 400}}, nil, Order{Bid: 1000}, &carol},
		{"the most trusted", []offer{{bob, 900}, {carol, 400}}, trusted, Order{Bid: 1000}, &bob},
		{"none above the bid", []offer{{bob, 1001}, {carol, 400}}, trusted, Order{Bid: 1000}, &carol},
		{"the latest of each counts", []offer{{bob, 300}, {carol, 400}, {bob, 500}}, nil, Order{Bid: 1000}, &carol},
		{"who is known before who is not", []offer{{mallory, 0}, {carol, 400}}, nil, Order{Bid: 1000}, &carol},
		{"who is not known, if nobody else offers", []offer{{mallory, 10}}, nil, Order{Bid: 1000}, &mallory},
		{"who is not known gets unimportant work only", []offer{{mallory, 10}}, nil, Order{Bid: 1000, Criticality: guild.Medium}, nil},
		{"who announced a price and made no offer is not asked", nil, trusted, Order{Bid: 1000}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, alice.offers(1), bob.offers(2000), carol.offers(1))
				w.trust = c.trust
				c.order.Open, c.order.Bundle = true, aTask(t) // who is not known gets it in plain NIP-90
				id := w.opens(c.order)
				for _, o := range c.offers {
					w.pass(time.Second)
					if err := w.says(o.by, offers(w.solicitation().ID, o.price)); err != nil {
						t.Fatal(err)
					}
				}
				w.pass(20 * time.Second)
				if c.want == nil {
					w.wants(id)
					w.ends(id, guild.JobUnclaimed)
					return
				}
				if a := w.attempt(id); a.Provider.PubKey != c.want.key {
					t.Errorf("asked %.8s at %v", a.Provider.PubKey.Hex(), a.Planned.Relays)
				}
			})
		})
	}
}

// removed is a market in which all providers are removed.
type removed struct{ Market }

func (removed) Provider(s guild.Service) guild.Provider {
	return guild.Provider{Service: s, State: guild.Removed}
}

func TestExcludedProviderIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Jobs.c.Market = removed{w.Jobs.c.Market}
		id := w.opens(Order{Open: true})
		if err := w.says(mallory, offers(w.solicitation().ID, 0)); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.wants(id)
		w.ends(id, guild.JobUnclaimed)
	})
}

func TestWhatIsNoOfferChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Open: true})
		asked := w.solicitation().ID
		before := w.Journal.Last()
		steptest.WantDrop(t, w.delivers(alice, asked, []byte("the work")), guild.Unrequested)
		steptest.WantDrop(t, w.says(alice, feedback(asked, nip90.Error, "no")), guild.Unrequested)
		steptest.WantDrop(t, w.says(alice, feedback(asked, nip90.PaymentRequired, "a lot")), guild.Malformed)
		declined := nip90.Feedback{Request: asked, Customer: customer.key, Status: nip90.Other, RawStatus: "declined"}
		steptest.WantDrop(t, w.says(alice, declined.Event()), guild.Unrequested)
		if w.Journal.Last() != before {
			t.Error("a fact was written")
		}
		w.says(alice, offers(asked, 5))
		w.pass(10 * time.Second)
		w.wants(id, guild.Requested)
		steptest.WantDrop(t, w.says(bob, offers(asked, 1)), guild.Late)
	})
}

func TestOlderOfferIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Open: true})
		old := offers(w.solicitation().ID, 5)
		old.CreatedAt = nostr.Timestamp(time.Now().Unix())
		first, err := guild.Sign(t.Context(), alice.signer, old)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		w.says(alice, offers(w.solicitation().ID, 7))
		steptest.WantDrop(t, w.Observe(t.Context(), first), guild.Outdated)
		if job, _ := w.fold.Job(id); len(job.Offers) != 1 || job.Offers[0].Price != 7 {
			t.Errorf("%+v", job.Offers)
		}
	})
}

func TestStrangersCannotFillTheOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Open: true})
		asked := w.solicitation().ID
		for i := range maxStrangers {
			if err := w.says(newPerson(byte(50+i)), offers(asked, 1)); err != nil {
				t.Fatal(err)
			}
		}
		steptest.WantDrop(t, w.says(mallory, offers(asked, 1)), guild.Flood)
		for i := range maxChanges {
			if err := w.says(alice, offers(asked, guild.Msat(1+i))); err != nil {
				t.Errorf("a provider that is known: %v", err)
			}
		}
		steptest.WantDrop(t, w.says(alice, offers(asked, 9)), guild.Flood)
		if job, _ := w.fold.Job(id); len(job.Offers) != maxStrangers+maxChanges {
			t.Errorf("%d offers", len(job.Offers))
		}
	})
}

func TestOpenJobWithoutOffers(t *testing.T) {
	for name, c := range map[string]struct {
		relay func(context.Context, nostr.Event, []string) error
		want  string
	}{
		"no provider made an offer":            {nil, "no provider made an offer"},
		"no relay took the request for offers": {deaf, "no relay took the request for offers"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, alice.offers(1))
				w.relays(c.relay)
				id := w.opens(Order{Open: true})
				w.pass(time.Minute)
				if job := w.ends(id, guild.JobUnclaimed); !strings.Contains(job.Reason, c.want) {
					t.Errorf("closed: %s", job.Reason)
				}
				w.pass(time.Hour)
				if w.fold.Open() != 0 {
					t.Error("something is still due")
				}
			})
		})
	}
}

func TestCancelWithdrawsSolicitation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Open: true})
		w.says(alice, offers(w.solicitation().ID, 1))
		if err := w.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		w.ends(id, guild.JobCancelled)
		if len(w.sent(5)) != 1 || w.fold.Open() != 0 {
			t.Errorf("%d deletions, %d open", len(w.sent(5)), w.fold.Open())
		}
		w.pass(time.Hour)
		w.wants(id)
	})
}

func TestAnOpenJobSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Open: true})
		asked := w.solicitation().ID
		w.restart()
		if err := w.says(alice, offers(asked, 1)); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.pass(10 * time.Second)
		w.wants(id, guild.Requested)
		if n := len(steptest.Facts[fact.JobSolicited](w)); n != 1 || len(w.sent(5)) != 1 {
			t.Errorf("solicited %d times, taken back %d times", n, len(w.sent(5)))
		}
		state, err := w.fold.Freeze()()
		if err != nil {
			t.Fatal(err)
		}
		again := NewFold()
		if err := again.Restore(state); err != nil {
			t.Fatal(err)
		}
		if job, ok := again.solicitation(asked); !ok || job.Job != id {
			t.Error("a restored fold does not know its solicitation")
		}
	})
}

func TestWhatCannotBeOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		for name, o := range map[string]Order{
			"a private job":      {Open: true, Private: true},
			"one with a release": {Open: true, Release: &fact.Release{Names: []string{"x"}}},
			"a benchmark":        {Open: true, Meeting: &fact.Benchmark{Meeting: "m", Run: 1}},
		} {
			o.Task, o.Kind, o.Bundle = "python", 5000, []byte("x")
			if _, err := w.Open(t.Context(), o); err == nil {
				t.Errorf("%s is taken", name)
			}
		}
	})
}
