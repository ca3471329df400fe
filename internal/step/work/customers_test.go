package work

import (
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/policy"
)

func patron(n byte) nostr.PubKey { return nostr.PubKey{n} }

// entry is one decision about requests.
func entryOf(facts ...fact.Fact) fact.Entry {
	return fact.Entry{Seq: 1, At: 1_000, Subject: "request.x", Facts: facts}
}

// asked gives a fold n requests of a customer, with the facts that follow each.
func asked(c *Customers, p nostr.PubKey, from, n int, life ...func(nostr.ID) fact.Fact) {
	for i := range n {
		id := nostr.ID{byte(from + i), byte((from + i) >> 8), p[0]}
		facts := []fact.Fact{fact.RequestReceived{Request: id, Customer: p}}
		for _, f := range life {
			facts = append(facts, f(id))
		}
		c.Apply(entryOf(facts...))
	}
}

func isDelivered(id nostr.ID) fact.Fact {
	return fact.RequestFinished{Request: id, Ending: "delivered"}
}
func isWithdrawn(id nostr.ID) fact.Fact { return fact.RequestCancelled{Request: id} }
func isAccepted(id nostr.ID) fact.Fact {
	return fact.RequestJudged{Request: id, Outcome: guild.Success}
}
func isDeclined(id nostr.ID) fact.Fact {
	return fact.RequestJudged{Request: id, Outcome: guild.Failure}
}
func isObjected(id nostr.ID) fact.Fact { return fact.RequestObjected{Request: id} }
func isReleased(id nostr.ID) fact.Fact { return fact.LockReleased{Request: id, Amount: 500} }
func isRefunded(id nostr.ID) fact.Fact { return fact.LockReleased{Request: id} }
func isWithheld(id nostr.ID) fact.Fact { return fact.LockExpired{Request: id} }
func isPaid(id nostr.ID) fact.Fact     { return fact.InvoiceSettled{Request: id, Msat: 500_000} }
func isFailed(id nostr.ID) fact.Fact {
	return fact.RequestFinished{Request: id, Ending: "failed"}
}

// A stranger begins with two good and two bad requests, so the score is (2 + good) / (4 + good + bad).
func TestCustomerScore(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int
		life    []func(nostr.ID) fact.Fact
		refused int
		want    guild.Trust
	}{
		{"a stranger", 0, nil, 0, 500_000},
		{"only requests", 4, nil, 0, 500_000},
		{"four deliveries", 4, []func(nostr.ID) fact.Fact{isDelivered}, 0, 750_000},
		{"four accepted deliveries", 4, []func(nostr.ID) fact.Fact{isDelivered, isAccepted}, 0, 833_333},
		{"to decline is no fault by itself", 4, []func(nostr.ID) fact.Fact{isDelivered, isDeclined}, 0, 750_000},
		{"four verdicts that we object to", 4, []func(nostr.ID) fact.Fact{isDelivered, isDeclined, isObjected}, 0, 375_000},
		{"four requests taken back", 4, []func(nostr.ID) fact.Fact{isWithdrawn}, 0, 250_000},
		{"sixteen taken back", 16, []func(nostr.ID) fact.Fact{isWithdrawn}, 0, 100_000},
		{"four that were paid ahead", 4, []func(nostr.ID) fact.Fact{isPaid, isDelivered}, 0, 833_333},
		{"four whose price was released", 4, []func(nostr.ID) fact.Fact{isDelivered, isReleased}, 0, 833_333},
		{"four whose price went back", 4, []func(nostr.ID) fact.Fact{isDelivered, isDeclined, isRefunded}, 0, 750_000},
		{"four whose price was withheld", 4, []func(nostr.ID) fact.Fact{isDelivered, isWithheld}, 0, 375_000},
		{"four locks for what we did not deliver", 4, []func(nostr.ID) fact.Fact{isFailed, isWithheld}, 0, 500_000},
		{"forty refusals for asking too often", 0, nil, 40, 250_000},
	} {
		fold, p := NewCustomers(policy.Specification()), patron(1)
		asked(fold, p, 0, c.n, c.life...)
		if got := fold.Score(fold.Of(p), c.refused); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestOldCountsFade(t *testing.T) {
	fold, p := NewCustomers(policy.Specification()), patron(1)
	asked(fold, p, 0, 60, isWithdrawn)
	before := fold.Score(fold.Of(p), 0)
	asked(fold, p, 60, 100, isDelivered)
	if after := fold.Score(fold.Of(p), 0); before > 50_000 || after < 600_000 {
		t.Errorf("from %s to %s", before, after)
	}
}

func TestRefusalsFade(t *testing.T) {
	l, p, now := newLimits(), patron(1), time.Unix(1_000_000, 0)
	for range 64 {
		l.refused(p, now)
	}
	for hours, want := range []int{64, 32, 16, 8} {
		if got := l.refusalsOf(p, now.Add(time.Duration(hours)*time.Hour)); got != want {
			t.Errorf("after %d hours %d, want %d", hours, got, want)
		}
	}
	if other := l.refusalsOf(patron(2), now); other != 0 {
		t.Errorf("%d of somebody else's", other)
	}
}

func historyOfCustomers(t *rapid.T) (all []fact.Entry) {
	lives := []func(nostr.ID) fact.Fact{isDelivered, isWithdrawn, isAccepted, isDeclined, isObjected}
	keys := []nostr.PubKey{{1}, {2}, {3}}
	for n := range rapid.IntRange(0, 12).Draw(t, "requests") {
		id := nostr.ID{byte(n + 1)}
		facts := []fact.Fact{fact.RequestReceived{Request: id, Customer: keys[n%3]}}
		for _, life := range rapid.SliceOfN(rapid.SampledFrom(lives), 0, 3).Draw(t, "life") {
			facts = append(facts, life(id))
		}
		for _, f := range facts {
			all = append(all, fact.Entry{Seq: uint64(len(all) + 1), At: int64(len(all)), Subject: fact.RequestSubject(id), Facts: []fact.Fact{f}})
		}
	}
	return all
}

func TestCustomersRestore(t *testing.T) {
	foldtest.GoesOn(t, func() *Customers { return NewCustomers(policy.Specification()) }, historyOfCustomers, nil)
}

func TestCustomersRefuseGarbledSnapshot(t *testing.T) {
	fold := NewCustomers(policy.Specification())
	asked(fold, patron(1), 0, 2, isDelivered)
	foldtest.Refuses(t, fold, `{"seen":7}`)
}

func TestStrangersPayAhead(t *testing.T) {
	known, stranger, listed := patron(1), patron(2), patron(3)
	w := &Work{c: Config{Customers: NewCustomers(policy.Specification()), Now: time.Now}, limits: newLimits()}
	asked(w.c.Customers, known, 0, 2, isDelivered, isReleased)
	s := Service{Terms: Terms{Prepaid: 600_000, Allow: []nostr.PubKey{listed}}}
	for p, want := range map[nostr.PubKey]bool{known: false, stranger: true, listed: false} {
		if got := w.paysAhead(s, p); got != want {
			t.Errorf("%d pays ahead: %v, want %v", p[0], got, want)
		}
	}
	if s.Terms.Prepaid = 0; w.paysAhead(s, stranger) {
		t.Error("a stranger pays ahead where nobody has to")
	}
}
