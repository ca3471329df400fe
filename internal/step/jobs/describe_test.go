package jobs

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nip90"
)

// asked reads the latest request to p with the key of p.
func (w *world) asked(p person) (nip90.Request, publication) {
	w.Helper()
	for _, sent := range slices.Backward(w.sent(5000)) {
		if sent.Tags.FindWithValue("p", p.key.Hex()) == nil {
			continue
		}
		r, err := nip90.ParseRequest(sent.Event, opener(p))
		if err != nil {
			w.Fatal(err)
		}
		return r, sent
	}
	w.Fatalf("nothing was asked of %.8s", p.key.Hex())
	return nip90.Request{}, publication{}
}

// TestRequestParameters is the table of section 4.1.2 of the partnership protocol.
func TestRequestParameters(t *testing.T) {
	quality := &fact.Quality{Accuracy: guild.Micro, Limit: 30}
	for _, c := range []struct {
		field  string
		reader bool // the provider reads NIP-44
		order  Order
		want   func(nip90.Request, nostr.Event) bool
	}{
		{"task payload: inline when it is small", false, Order{}, func(r nip90.Request, _ nostr.Event) bool {
			b, err := r.Bundle()
			return err == nil && string(b.Inline) == "the task" && r.Inputs[0].Type == "text" && r.Get(nip90.ParamJobType) == "python"
		}},
		{"task payload: a reference when it is large", false, Order{Bundle: bytes.Repeat([]byte("x"), nip90.Inline+1)},
			func(r nip90.Request, _ nostr.Event) bool {
				b, err := r.Bundle()
				return err == nil && b.URL == "https://blob.example/bundle" && r.Inputs[0].Type == "url"
			}},
		{"quality requirements: thresholds in parameters", false, Order{Quality: quality}, func(r nip90.Request, _ nostr.Event) bool {
			return r.Get("accuracy") == "1.00" && r.TimeLimit() == 30*time.Second
		}},
		{"deadline: an absolute time in a parameter", false, Order{Timeout: 90 * time.Second}, func(r nip90.Request, e nostr.Event) bool {
			return r.Deadline().Sub(e.CreatedAt.Time()) == 90*time.Second
		}},
		{"budget ceiling: the bid", false, Order{Bid: 1000}, func(r nip90.Request, e nostr.Event) bool {
			return r.Bid == 1000 && slices.Equal(e.Tags.Find("bid"), nostr.Tag{"bid", "1000"})
		}},
		{"budget ceiling: outside of an encrypted request too", true, Order{Bid: 1000}, func(r nip90.Request, e nostr.Event) bool {
			return r.Bid == 1000 && slices.Equal(e.Tags.Find("bid"), nostr.Tag{"bid", "1000"}) && e.Tags.Has("relays")
		}},
		{"privacy level: NIP-44 for who reads it", true, Order{Private: true}, func(r nip90.Request, e nostr.Event) bool {
			return r.Encrypted == nip90.NIP44 && !strings.Contains(e.String(), "Do it") && !e.Tags.Has("i") && !e.Tags.Has("param")
		}},
		{"privacy level: in clear for who does not", false, Order{}, func(r nip90.Request, _ nostr.Event) bool { return r.Encrypted == "" }},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := alice.offers(0)
			o.Encrypts = c.reader
			w := newWorld(t, o)
			w.opens(c.order)
			if r, sent := w.asked(alice); !c.want(r, sent.Event) {
				t.Errorf("%s: %+v", c.field, r)
			}
		})
	}
}

// TestBenchmarkParameters is the table of section 2.2.3, with 2.2.2 and 2.2.4 to 2.3.1.
func TestBenchmarkParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		w.opens(Order{Bid: 1000, Providers: []nostr.PubKey{alice.key}, Meeting: &fact.Benchmark{Meeting: "m", Run: 1, Suite: "std-v3",
			Variant: "standard", Modules: []string{"computation", "memory", "io"}, Language: "python3.11"}})
		r, sent := w.asked(alice)
		for key, want := range map[string]string{
			"benchmark-type": "standard", "time-limit": "300", "memory-limit": "512", "iterations": "5", "language": "python3.11",
		} {
			if got := r.Get(key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		i := slices.IndexFunc(r.Inputs, func(in nip90.Input) bool { return in.Marker == "benchmark_spec" })
		if i < 0 || r.Inputs[i].Data != `{"benchmark_id":"std-v3","modules":["computation","memory","io"]}` {
			t.Errorf("inputs %+v", r.Inputs)
		}
		if sent.Kind != 5000 || r.Output != "application/json" || r.Bid != 1000 || r.Relays[0] != "wss://ours.example" || *r.Provider != alice.key {
			t.Errorf("kind %d, %+v", sent.Kind, r)
		}
		var names []string
		for _, tag := range sent.Tags {
			if len(names) == 0 || names[len(names)-1] != tag[0] {
				names = append(names, tag[0])
			}
		}
		if want := []string{"p", "d", "i", "param", "output", "bid", "relays"}; !slices.Equal(names, want) {
			t.Errorf("tags in the order %v, want %v", names, want)
		}
	})
}

func TestRequestStaysBelowEventLimit(t *testing.T) {
	for name, encrypts := range map[string]bool{"in clear": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := alice.offers(0)
				o.Encrypts = encrypts
				w := newWorld(t, o)
				awkward := strings.Repeat("\"\n", 4000) // twice as long in JSON
				w.opens(Order{Bundle: bytes.Repeat([]byte{0xA5}, nip90.Inline-len(awkward)), Inputs: []fact.Input{{Data: awkward, Type: "text"}}})
				r, sent := w.asked(alice)
				if n := len(sent.String()); n > nip90.MaxEvent {
					t.Errorf("%d bytes", n)
				}
				if _, err := r.Bundle(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAttemptKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), bob.offers(2))
		id := w.opens(Order{Timeout: 20 * time.Minute})
		first := w.attempt(id)
		r, _ := w.asked(alice)
		want := nip90.IdempotencyKey(id, alice.key, 1)
		if got := r.Get(nip90.ParamIdempotencyKey); got != want || first.Planned.Key != want {
			t.Errorf("asked with the key %s, planned with %s, want %s", got, first.Planned.Key, want)
		}
		wanted := nip90.Feedback{Request: first.ID, Customer: customer.key, Status: nip90.PaymentRequired, Amount: 5000}
		if err := w.says(alice, wanted.Event()); err != nil {
			t.Fatal(err)
		}
		quoted := steptest.Facts[fact.AttemptQuoted](w)
		if len(quoted) != 1 || quoted[0].Key != want || quoted[0].Amount != 5000 {
			t.Errorf("quoted %+v", quoted)
		}
		r, _ = w.asked(bob)
		if got := r.Get(nip90.ParamIdempotencyKey); got != nip90.IdempotencyKey(id, bob.key, 2) {
			t.Errorf("the next provider is asked with the key %s", got)
		}
	})
}

func TestQuoteIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			text string
			kept bool
		}{"usual": {"500 test", true}, "too large": {strings.Repeat("x", maxQuote), false}} {
			w := newWorld(t, alice.offers(1))
			id := w.opens(Order{Timeout: 20 * time.Minute, Settle: &fact.Settlement{How: "escrow", Unit: "test", Most: 600}})
			f := nip90.Feedback{Request: w.attempt(id).ID, Customer: customer.key, Status: nip90.PaymentRequired, Terms: "creqA", Content: c.text}
			if err := w.says(alice, f.Event()); err != nil {
				t.Fatal(err)
			}
			quoted := steptest.Facts[fact.AttemptQuoted](w)
			if len(quoted) != 1 || (quoted[0].Answer != nil) != c.kept || c.kept && quoted[0].Answer.ID != quoted[0].Event {
				t.Errorf("%s: %+v", name, quoted)
			}
		}
	})
}

// TestRequestSaysWhatAVerdictPays checks that a provider can know before it works.
func TestRequestSaysWhatAVerdictPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			order fact.Settlement
			want  *nip90.Payout
		}{
			"escrow":       {fact.Settlement{How: Escrow, Unit: "test", Most: 600, Mixed: 40, Partial: 25, Weak: 500}, &nip90.Payout{How: nip90.Escrow, Mixed: 40, Partial: 25, Weak: 500_000}},
			"in msat":      {fact.Settlement{How: Escrow, Unit: "msat", Most: 600, Weak: 500}, &nip90.Payout{How: nip90.Escrow, Weak: 500}},
			"a huge cap":   {fact.Settlement{How: Escrow, Unit: "test", Most: 600, Weak: 1<<64 - 1}, &nip90.Payout{How: nip90.Escrow, Weak: nip90.MaxMetered / 1000 * 1000}},
			"postpaid":     {fact.Settlement{How: Postpaid, Unit: "sat", Most: 600, Weak: 1}, &nip90.Payout{How: nip90.Postpaid, Weak: 1000}},
			"prepaid":      {fact.Settlement{How: Prepaid, Unit: "sat", Most: 600}, nil},
			"on the chain": {fact.Settlement{How: Onchain, Unit: "sat", Most: 600}, nil},
		} {
			w := newWorld(t, alice.offers(1))
			id := w.opens(Order{Timeout: 20 * time.Minute, Settle: &c.order})
			r, err := nip90.ParseRequest(w.attempt(id).Planned.Request, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Payout(); !reflect.DeepEqual(got, c.want) || r.Get(nip90.ParamSettle) != c.order.How {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

// TestQuoteOfAHashThatNobodyChose checks that a provider cannot take the proof from an ordinary payment, by saying that the customer
// chose its preimage.
func TestQuoteOfAHashThatNobodyChose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1))
		id := w.opens(Order{Timeout: 20 * time.Minute, Settle: &fact.Settlement{How: "prepaid", Unit: "sat", Most: 600}})
		f := nip90.Feedback{Request: w.attempt(id).ID, Customer: customer.key, Status: nip90.PaymentRequired, Amount: 5000, Invoice: "lnbc1"}
		f.Extra = nostr.Tags{nip90.Hold(guild.Hash{1})}
		if err := w.says(alice, f.Event()); err != nil {
			t.Fatal(err)
		}
		if refused := steptest.Facts[fact.AttemptRefused](w); len(refused) != 1 || !strings.Contains(refused[0].Reason, "you chose the payment hash") {
			t.Errorf("refused: %+v", refused)
		}
	})
}

func TestOrderOfWrongKindIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		for _, kind := range []int{0, 4999, 6000, 7000} {
			if _, err := w.Open(t.Context(), Order{Task: "python", Kind: kind, Bundle: []byte("x")}); err == nil {
				t.Errorf("kind %d is taken", kind)
			}
		}
	})
}
