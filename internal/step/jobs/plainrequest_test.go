package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// plainly is alice without bundles, asked in the kind of text generation.
func plainly(price guild.Msat) guild.Offer {
	o := alice.offers(price)
	o.Plain, o.Kind = true, 5050
	return o
}

func TestPlainRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plainly(10_000))
		id := w.opens(Order{Bundle: aTask(t)})
		w.pass(0)
		a := w.attempt(id)
		r, err := nip90.ParseRequest(a.Planned.Request, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []nip90.Input{{Data: "Write it in capitals.", Type: "text"}, {Data: "hello", Type: "text", Marker: "files/in.txt"}}
		if !slices.Equal(r.Inputs, want) {
			t.Errorf("inputs %+v, want %+v", r.Inputs, want)
		}
		if r.Kind != 5050 || r.Content != "" || r.Output != "text/plain" || r.Bid != 10_000 {
			t.Errorf("kind %d, content %q, output %q, bid %d", r.Kind, r.Content, r.Output, r.Bid)
		}
		if !a.Planned.Plain {
			t.Error("the journal does not say that it was plain")
		}
		if err := w.says(alice, nostr.Event{Kind: 6050, Tags: nostr.Tags{{"e", a.ID.Hex()}, {"p", customer.key.Hex()}}, Content: "HELLO"}); err != nil {
			t.Fatal(err)
		}
		if a := w.attempt(id); a.State != guild.Delivered {
			t.Errorf("it is %s", a.State)
		}
	})
}

func TestBidReachesThePlainPrice(t *testing.T) {
	for _, c := range []struct {
		order Order
		want  guild.Msat
	}{
		{Order{}, 5_000_000}, {Order{Most: 4_000}, 4_000}, {Order{Bid: 700, Providers: []nostr.PubKey{alice.key}}, 700},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, plainly(5_000_000))
			c.order.Bundle = aTask(t)
			c.order.Providers = []nostr.PubKey{alice.key}
			id := w.opens(c.order)
			w.pass(0)
			if got := w.attempt(id).Bid; got != c.want {
				t.Errorf("bid %d, want %d", got, c.want)
			}
		})
	}
}

func TestPlainBenchmarkIsItsRequirements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, plainly(0))
		id := w.opens(Order{Bundle: aTask(t), Bid: 1000, Providers: []nostr.PubKey{alice.key}, Meeting: &fact.Benchmark{Suite: "python-1", Limit: 3}})
		w.pass(0)
		r, err := nip90.ParseRequest(w.attempt(id).Planned.Request, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Inputs[0].Data != "Write it in capitals." || strings.Contains(fmt.Sprint(r.Inputs), "benchmark_id") {
			t.Errorf("inputs %+v", r.Inputs)
		}
		if r.Get(nip90.ParamTimeLimit) != "300" {
			t.Errorf("%s s for the work", r.Get(nip90.ParamTimeLimit))
		}
	})
}

func TestWhatNeedsABundleIsNotSentPlainly(t *testing.T) {
	many := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Do it"}}`)}}
	for i := range maxPlainFiles + 1 {
		many[fmt.Sprintf("files/%d.txt", i)] = &fstest.MapFile{Data: []byte("x")}
	}
	private := plainly(0)
	private.Encrypts = true
	binary := packed(t, fstest.MapFS{"nutshell.json": many["nutshell.json"], "files/a.bin": {Data: []byte{0, 1}}})
	for name, c := range map[string]struct {
		order Order
		offer guild.Offer
		want  string
	}{
		"too many files":     {Order{Bundle: packed(t, many)}, plainly(0), "the task has more than 16 files"},
		"a private upload":   {Order{Bundle: binary, Private: true}, private, "the files do not fit into an encrypted request"},
		"the vault's values": {Order{Bundle: aTask(t), Release: &fact.Release{Vaults: []fact.Sealed{{For: ""}}}}, private, "cannot be given credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.offer)
				c.order.Providers = []nostr.PubKey{alice.key}
				id := w.opens(c.order)
				w.wants(id)
				job, _ := w.fold.Job(id)
				if why := w.field(job, 1, time.Now()).why; !strings.Contains(why, c.want) {
					t.Error(why)
				}
			})
		})
	}
}
