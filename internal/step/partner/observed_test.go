package partner

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
)

// requests returns the entries of a request that was sent over relays, and of the facts that follow.
func requests(n int, s guild.Service, encrypted bool, relays []string, then ...func(nostr.ID) fact.Fact) (all []fact.Entry) {
	id := nostr.ID{byte(n), byte(n >> 8), 1}
	facts := []fact.Fact{
		fact.AttemptPlanned{Attempt: id, Provider: s, Encrypted: encrypted, Request: nostr.Event{Kind: nostr.Kind(5000 + n%2)}},
		fact.AttemptRequested{Attempt: id, Relays: relays},
	}
	for _, f := range then {
		facts = append(facts, f(id))
	}
	for _, f := range facts {
		all = append(all, fact.Entry{At: int64(1000 + n), Facts: []fact.Fact{f}})
	}
	return all
}

// asks applies the entries of requests.
func asks(o *Observed, n int, s guild.Service, encrypted bool, relays []string, then ...func(nostr.ID) fact.Fact) {
	for _, e := range requests(n, s, encrypted, relays, then...) {
		o.Apply(e)
	}
}

func delivered(latency int64) func(nostr.ID) fact.Fact {
	return func(id nostr.ID) fact.Fact { return fact.AttemptDelivered{Attempt: id, LatencyMs: latency} }
}

func refused(r fact.AttemptRefused) func(nostr.ID) fact.Fact {
	return func(id nostr.ID) fact.Fact { r.Attempt = id; return r }
}

func TestMeasured(t *testing.T) {
	alice, relays := newProvider(1).service("a"), []string{"wss://one.example/"}
	o := NewObserved()
	if m, ok := o.Of(alice); ok || m.Asked != 0 {
		t.Errorf("%+v of a service that was never asked", m)
	}
	again := func(id nostr.ID) fact.Fact {
		return fact.AttemptRequested{Attempt: id, Relays: []string{"wss://two.example"}}
	}
	quoted := func(id nostr.ID) fact.Fact { return fact.AttemptQuoted{Attempt: id, Amount: 21_000} }
	fault := func(id nostr.ID) fact.Fact { return fact.AttemptProgressed{Attempt: id, Fault: true} }
	asks(o, 1, alice, true, relays, again, delivered(300), judged(guild.Success, 900_000))
	asks(o, 2, alice, false, relays, delivered(100), judged(guild.Failure, 0))
	asks(o, 3, alice, false, relays, fault, delivered(200), judged(guild.Partial, 700_000))
	asks(o, 4, alice, true, relays, refused(fact.AttemptRefused{Fault: true, Reason: "answered an encrypted request in clear"}))
	asks(o, 5, alice, false, relays, refused(fact.AttemptRefused{Later: true}))
	asks(o, 6, alice, false, relays, quoted, refused(fact.AttemptRefused{}))
	asks(o, 7, alice, false, relays, silent)
	asks(o, 8, alice, false, relays) // still open
	got, _ := o.Of(alice)
	want := Measured{
		Since: 1001, Asked: 8, Answered: 6, Delivered: 3, Accepted: 1, Ended: 5, Expired: 1, Refused: 3, Faults: 2, P50: 200, P95: 300, Quoted: 21_000,
		Encrypted: 1, InClear: 1, Kinds: []int{5000, 5001}, Relays: []Path{{"wss://two.example", 1, 0}, {"wss://one.example", 6, 1}}, Heard: 1006,
	}
	slices.SortFunc(want.Relays, func(a, b Path) int { return (b.Worked - b.Lost) - (a.Worked - a.Lost) })
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if rate, ok := got.SuccessRate(); !ok || rate != 0.2 {
		t.Errorf("success rate %v, %v", rate, ok)
	}
	if _, ok := o.Of(newProvider(1).service("b")); ok {
		t.Error("another service of the key has measurements")
	}
	if n := fold.Read(o.State, func(st *observed) int { return st.Open.Len() }); n != 1 {
		t.Errorf("%d attempts are open", n)
	}
}

func TestUnverifiedIsNotMeasured(t *testing.T) {
	o, s := NewObserved(), newProvider(1).service("a")
	asks(o, 1, s, false, nil, judged(guild.Success, 900_000))
	want, _ := o.Of(s)
	asks(o, 2, s, false, nil, func(id nostr.ID) fact.Fact {
		return fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: guild.Success, Strength: guild.Unverified}}
	})
	if got, _ := o.Of(s); got.Ended != want.Ended || got.Accepted != want.Accepted {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestMeasuredIsBounded(t *testing.T) {
	o, alice := NewObserved(), newProvider(1).service("a")
	for n := range 3000 {
		asks(o, n, alice, false, []string{fmt.Sprintf("wss://r%d.example", n%40), "wss://same.example"}, delivered(int64(n)), judged(guild.Success, 1_000_000))
	}
	b, err := o.Freeze()()
	if err != nil || len(b) > 4<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	m, _ := o.Of(alice)
	if m.P50 != 2949 || m.P95 != 2994 || len(m.Relays) > maxPaths {
		t.Errorf("%+v", m)
	}
	for _, p := range m.Relays {
		if p.Worked+p.Lost > maxPathLog {
			t.Errorf("%+v", p)
		}
	}
}

func TestLossyRelayComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		h := python("alice")
		h.Relays = []string{"wss://deaf.example", "wss://good.example"}
		w.announces(alice, h)
		first := func() string { return w.offers("python")[0].Relays[0] }
		requested := func(relay string, end func(nostr.ID) fact.Fact) {
			w.attempt(alice.service("alice"), func(id nostr.ID) fact.Fact { return fact.AttemptRequested{Attempt: id, Relays: []string{relay}} })
			id := nostr.ID{byte(w.attempts)}
			w.append(end(id))
		}
		requested("wss://deaf.example", silent)
		if got := first(); got != "wss://deaf.example" {
			t.Errorf("%s is first after one loss", got)
		}
		requested("wss://deaf.example", silent)
		if got := first(); got != "wss://good.example" {
			t.Errorf("%s is first after two losses", got)
		}
		for range 3 {
			requested("wss://deaf.example", delivered(1))
		}
		if got := first(); got != "wss://deaf.example" {
			t.Errorf("%s is first, but the other works again", got)
		}
	})
}

func TestObservedSnapshot(t *testing.T) {
	ends := rapid.SliceOf(rapid.SampledFrom([]func(nostr.ID) fact.Fact{silent, delivered(5), judged(guild.Success, 1), refused(fact.AttemptRefused{})}))
	foldtest.GoesOn(t, NewObserved, func(t *rapid.T) (all []fact.Entry) {
		for n := range rapid.IntRange(0, 8).Draw(t, "attempts") {
			s := newProvider(1).service(fmt.Sprint(n % 2))
			all = append(all, requests(n, s, false, []string{"wss://r.example"}, ends.Draw(t, "ends")...)...)
		}
		return all
	}, nil)
	o := NewObserved()
	asks(o, 1, newProvider(1).service("a"), false, nil)
	foldtest.Refuses(t, o, append(foldtest.Partial(t, o), `{"services":{"x":{}},"open":{}}`)...)
}
