package verify_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/cashu"
	"guild/nip90"
	"guild/verify"
)

// lockOf returns the key for locks of somebody.
func lockOf(name string) cashu.Point { return scalar("lock of the " + name).PubKey() }

// flipped returns the point with the same x coordinate. The mint does not tell the signatures for the two apart.
func flipped(p cashu.Point) cashu.Point {
	p[0] ^= 1
	return p
}

// names makes a request name an arbiter.
func names(name string) func(*nip90.Request) {
	return func(r *nip90.Request) { r.SetArbiter(nip90.Arbiter{PubKey: stranger().public, Key: lockOf(name)}) }
}

// quotesArbiter makes the quote of a deal ask for the keys of arbiters.
func quotesArbiter(d *deal, keys ...cashu.Point) {
	tag := []string{"pubkeys"}
	for _, k := range keys {
		tag = append(tag, k.String())
	}
	d.tags = append(d.tags, tag)
}

// locksArbiter adds a key to the lock of each coin.
func locksArbiter(d *deal, key cashu.Point) {
	for i := range d.coins {
		d.coins[i].lock.Keys = append(slices.Clone(d.coins[i].lock.Keys[:2]), key)
	}
}

// judged makes a deal one that an arbiter can rule on.
func judged(d *deal) {
	quotesArbiter(d, lockOf("arbiter"))
	locksArbiter(d, lockOf("arbiter"))
}

// locks changes the lock of every coin of a deal.
func locks(change func(*cashu.Condition)) func(*deal) {
	return func(d *deal) {
		for i := range d.coins {
			change(&d.coins[i].lock)
		}
	}
}

// arbitrated returns a payment from an escrow with an arbiter of which something else is changed.
func arbitrated(change func(*deal)) story {
	return story{rail: "escrow", request: names("arbiter"), deal: func(d *deal) { judged(d); change(d) }}
}

// arbiterVectors are the lies of arbiterLies of which there are vectors.
var arbiterVectors = []string{
	"an arbiter that was not quoted", "an arbiter that was quoted and has no key", "an arbiter with the customer's key", "an arbiter with the provider's key",
	"an arbiter where one key opens", "an arbiter where all keys are needed", "another arbiter than the request's", "an arbiter that the request does not name",
	"an arbiter who gets the money back", "another arbiter than the quote's", "an arbiter beside another in the quote",
}

// arbiterLies returns exports in which a payment from an escrow with an arbiter fails.
func arbiterLies() map[string]story {
	second := func(change func(*lockedCoin)) func(*deal) { return func(d *deal) { change(&d.coins[1]) } }
	asks := func(tags ...[]string) func(*deal) {
		return func(d *deal) { d.tags = append(tags, d.tags[1:]...) } // without n_sigs
	}
	third := func(key cashu.Point) story {
		return story{rail: "escrow", deal: func(d *deal) { quotesArbiter(d, key); locksArbiter(d, key) }, request: func(r *nip90.Request) {
			r.SetArbiter(nip90.Arbiter{PubKey: stranger().public, Key: key})
		}}
	}
	unnamed, another, misnamed := arbitrated(func(*deal) {}), arbitrated(func(*deal) {}), arbitrated(func(*deal) {})
	unnamed.request, another.request = nil, names("other arbiter")
	misnamed.request = func(r *nip90.Request) {
		r.Extra = append(r.Extra, nostr.Tag{"judge", "zz" + stranger().public.Hex()[2:], lockOf("arbiter").String()})
	}
	keyless := misnamed
	keyless.request = func(r *nip90.Request) { r.Extra = append(r.Extra, nostr.Tag{"judge", stranger().public.Hex()}) }
	first := another
	first.request = func(r *nip90.Request) { names("other arbiter")(r); names("arbiter")(r) }
	return map[string]story{
		"an arbiter that was not quoted":              arbitrated(func(d *deal) { d.tags = d.tags[:2] }),
		"an arbiter that was quoted and has no key":   arbitrated(locks(func(c *cashu.Condition) { c.Keys = c.Keys[:2] })),
		"an arbiter that some coins do not have":      arbitrated(second(func(c *lockedCoin) { c.lock.Keys = c.lock.Keys[:2] })),
		"an arbiter that only some coins have":        arbitrated(func(d *deal) { d.coins[0].lock.Keys, d.tags = d.coins[0].lock.Keys[:2], d.tags[:2] }),
		"two arbiters for some coins each":            arbitrated(second(func(c *lockedCoin) { c.lock.Keys[2] = lockOf("other arbiter") })),
		"an arbiter with the customer's key":          third(flipped(lockOf("customer"))),
		"an arbiter with the customer's very key":     third(lockOf("customer")),
		"an arbiter with the provider's key":          arbitrated(func(d *deal) { locksArbiter(d, lockOf("provider")) }),
		"an arbiter with the provider's other key":    arbitrated(func(d *deal) { locksArbiter(d, flipped(lockOf("provider"))) }),
		"an arbiter who is the provider in the quote": third(flipped(lockOf("provider"))),
		"an arbiter where one key opens":              arbitrated(locks(func(c *cashu.Condition) { c.Sigs = 1 })),
		"an arbiter where all keys are needed":        arbitrated(locks(func(c *cashu.Condition) { c.Sigs = 3 })),
		"an arbiter beside a fourth key":              arbitrated(locks(func(c *cashu.Condition) { c.Keys = append(c.Keys, lockOf("other arbiter")) })),
		"an arbiter in the place of the customer":     arbitrated(locks(func(c *cashu.Condition) { c.Keys[1], c.Keys[2] = c.Keys[2], c.Keys[1] })),
		"an arbiter who gets the money back":          arbitrated(locks(func(c *cashu.Condition) { c.Refund = c.Keys[2:] })),
		"an arbiter who gets the money back as well":  arbitrated(locks(func(c *cashu.Condition) { c.Refund = c.Keys[1:] })),
		"an arbiter who released alone":               arbitrated(second(func(c *lockedCoin) { c.signed = new(scalar("lock of the arbiter")) })),
		"an arbiter of whom nothing is released":      arbitrated(second(func(c *lockedCoin) { c.signed = nil })),
		"an arbiter and an end that is too early":     arbitrated(locks(func(c *cashu.Condition) { c.Locktime-- })),
		"another arbiter than the request's":          another,
		"another arbiter than the request's first":    first,
		"an arbiter that the request does not name":   unnamed,
		"an arbiter that the request misspells":       misnamed,
		"an arbiter whose key the request omits":      keyless,
		"another arbiter than the quote's": {rail: "escrow", request: names("other arbiter"), deal: func(d *deal) {
			judged(d)
			locksArbiter(d, lockOf("other arbiter"))
		}},
		"an arbiter beside another in the quote": arbitrated(func(d *deal) {
			d.tags = d.tags[:2]
			quotesArbiter(d, lockOf("arbiter"), lockOf("other arbiter"))
		}),
		"an arbiter in two tags of the quote":      arbitrated(func(d *deal) { quotesArbiter(d, lockOf("arbiter")) }),
		"an arbiter without a key in the quote":    arbitrated(func(d *deal) { d.tags = append(d.tags[:2], []string{"pubkeys"}) }),
		"an arbiter with an invalid key":           arbitrated(func(d *deal) { d.tags[2][1] = d.tags[2][1][2:] }),
		"an arbiter where all keys are asked for":  arbitrated(asks([]string{"n_sigs", "3"})),
		"an arbiter where one key is asked for":    arbitrated(asks()),
		"an arbiter where two numbers are asked":   arbitrated(asks([]string{"n_sigs", "2"}, []string{"n_sigs", "3"})),
		"ecash ahead where an arbiter was asked":   arbitrated(func(d *deal) { inAdvance(d); d.alone = false }),
		"a refund with the provider as an arbiter": {rail: "escrow", deal: func(d *deal) { refunded(d); quotesArbiter(d, lockOf("provider")) }},
	}
}

func TestArbiterLies(t *testing.T) {
	for name, lie := range arbiterLies() {
		f := lie.export(t)
		if got := failures(verify.Export(dir(f))); !slices.Equal(got, []string{"payment"}) {
			t.Errorf("%s: failed %q: %s", name, got, paymentLine(t, f).Detail)
		}
	}
	for _, name := range arbiterVectors {
		if _, there := arbiterLies()[name]; !there {
			t.Errorf("no lie is called %q", name)
		}
	}
}

// What the locks and the request say is compared without a quote too.
func TestUnquotedArbiter(t *testing.T) {
	unquoted := func(s story) verify.Check {
		f := s.export(t)
		delete(f, verify.FileQuote)
		return paymentLine(t, f)
	}
	for _, name := range []string{
		"an arbiter with the customer's key", "an arbiter with the provider's key", "an arbiter with the provider's other key", "an arbiter where one key opens",
		"an arbiter where all keys are needed", "an arbiter who gets the money back", "another arbiter than the request's",
		"an arbiter that the request does not name", "two arbiters for some coins each", "an arbiter that only some coins have",
	} {
		if got := unquoted(arbiterLies()[name]); got.State != verify.Failed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := unquoted(arbitrated(func(*deal) {})); got.State != verify.Absent || !strings.Contains(got.Detail, "one of three keys released") {
		t.Errorf("%+v", got)
	}
}

// arbiterVariants returns exports in which the payment passes.
func arbiterVariants() map[string]story {
	another := arbitrated(func(*deal) {})
	another.request, another.sealed = names("other arbiter"), true
	unnamed := another
	unnamed.request = nil
	twice := arbitrated(func(*deal) {})
	twice.request = func(r *nip90.Request) { names("arbiter")(r); names("other arbiter")(r) }
	return map[string]story{
		"a sealed request with another arbiter":          another,
		"a sealed request without an arbiter":            unnamed,
		"a request with two arbiters":                    twice,
		"a request with an arbiter, and a quote without": {rail: "escrow", request: names("arbiter")},
		"an arbiter's key of the other parity":           arbitrated(func(d *deal) { locksArbiter(d, flipped(lockOf("arbiter"))) }),
		"an escrow that never ends":                      arbitrated(locks(func(c *cashu.Condition) { c.Locktime, c.Refund = 0, nil })),
	}
}

func TestArbiterPayments(t *testing.T) {
	const either = "two of the provider's, the customer's and an arbiter's key open it"
	for name, s := range arbiterVariants() {
		got := paymentLine(t, s.export(t))
		if got.State != verify.Passed || strings.Contains(got.Detail, either) == (name == "a request with an arbiter, and a quote without") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	good := arbitrated(func(*deal) {}).export(t)
	got := paymentLine(t, good)
	for _, words := range []string{"13 test (play money, worth nothing) in ecash: " + either, "the arbiter could have opened it too, with either of the two", "signed by the mint's keys"} {
		if got.State != verify.Passed || !strings.Contains(got.Detail, words) || len(got.Detail) > 600 {
			t.Errorf("%+v, want …%s…", got, words)
		}
	}
	nothing := maps.Clone(good)
	delete(nothing, verify.FileRequest)
	if got := paymentLine(t, nothing); got.State != verify.Passed {
		t.Errorf("without the request: %+v", got)
	}
}
