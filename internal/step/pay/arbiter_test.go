package pay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/cashu"
	"guild/internal/hand/dm"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
	"guild/nip90"
)

func TestOffersToRule(t *testing.T) {
	w := newWorld(t, contested(), 500)
	for _, off := range []bool{false, true} {
		var published nostr.Event
		w.arbiter.c.Publish = func(_ context.Context, e guild.Verified) error { published = e.Event(); return nil }
		offer, err := w.arbiter.Announce(t.Context(), off)
		w.ok(err)
		if a, err := nip90.ParseArbiter(published); (err != nil) != off || !off && (a != offer || a != *contestedBy(w)) {
			t.Errorf("off %v: %+v, %v", off, a, err)
		}
	}
}

func contestedBy(w *world) *nip90.Arbiter {
	for _, l := range w.provider.fold.locks() {
		return l.Arbiter
	}
	return nil
}

// contested is an escrow of 500 with an arbiter.
func contested() fact.Settlement {
	o := usual
	o.Arbiter = &nip90.Arbiter{}
	return o
}

// judgedLock is a world in which work was delivered for locked money, and judged.
func judgedLock(t *testing.T, o guild.Outcome, s guild.Strength) *world {
	t.Helper()
	w := newWorld(t, contested(), 500)
	w.pump()
	if !w.provider.Funded(attempt) {
		t.Fatalf("the provider does not begin: %+v %+v", facts[fact.AttemptRefused](w, w.customer), facts[fact.LockRefused](w, w.provider))
	}
	w.judged(o, s)
	w.pump()
	return w
}

// disputed is one about which the arbiter was asked.
func disputed(t *testing.T, o guild.Outcome, s guild.Strength) *world {
	t.Helper()
	w := judgedLock(t, o, s)
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	w.pump()
	return w
}

func TestArbiterRules(t *testing.T) {
	for name, c := range map[string]struct {
		outcome  guild.Outcome
		strength guild.Strength
		released int64
		ruled    uint64
		paid     int64
	}{
		"all, after nothing":       {guild.Failure, guild.Strong, 0, 500, 500},
		"a share, after nothing":   {guild.Failure, guild.Strong, 0, 200, 200},
		"all, after a share":       {guild.Success, guild.Mixed, 200, 500, 500},
		"nothing, after nothing":   {guild.Failure, guild.Strong, 0, 0, 0},
		"nothing, after a share":   {guild.Success, guild.Mixed, 200, 0, 200},
		"a share, after that":      {guild.Success, guild.Mixed, 200, 200, 200},
		"all, without a verdict":   {guild.Success, guild.Weak, 0, 500, 500},
		"a share, and no verdict":  {guild.Success, guild.Weak, 0, 200, 200},
		"nothing, without verdict": {guild.Success, guild.Weak, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := judgedLock(t, c.outcome, c.strength)
			w.want(9500, 500-c.released, c.released) // the rest is not given back while the arbiter may be asked
			if c.strength == guild.Weak {
				w.later(2*time.Hour + time.Minute) // a person must decide, and does not
			}
			w.ok(w.provider.Object(t.Context(), attempt, "every test passes here"))
			w.pump()
			if cases := w.arbiter.Cases(); len(cases) != 1 || cases[0].Total != 500 || cases[0].Customer != w.customer.pubkey || cases[0].Provider != w.provider.pubkey {
				t.Fatalf("%+v", cases)
			}
			if told := facts[fact.PaymentDisputed](w, w.customer); len(told) != 1 || told[0].Reason != "every test passes here" {
				t.Errorf("the customer was told %+v", told)
			}
			w.later(objecting + time.Hour)
			w.want(9500, 500-c.released, c.released)
			w.ok(w.arbiter.Rule(t.Context(), attempt, c.ruled, "I ran them"))
			w.pump()
			w.want(10_000-c.paid, 0, c.paid)
			w.over()
			released, refunded := facts[fact.AttemptReleased](w, w.customer), facts[fact.AttemptRefunded](w, w.customer)
			switch {
			case len(released)+len(refunded) != 1 || (len(released) == 1) != (c.paid > 0):
				t.Errorf("%d released, %d refunded", len(released), len(refunded))
			case c.paid > c.released && released[0].Rule != ruleArbiter:
				t.Errorf("by the rule %q", released[0].Rule)
			case c.paid > 0 && released[0].Amount != guild.Msat(c.paid*1000):
				t.Errorf("the receipt is over %s", released[0].Amount)
			}
			if c.paid > 0 {
				w.proves(released[0], uint64(c.paid))
			}
			if used := w.customer.Budgets(); len(used) != 0 {
				t.Errorf("%+v", used)
			}
			if err := w.arbiter.Rule(t.Context(), attempt, 500, ""); err == nil {
				t.Error("it rules twice")
			}
			w.later(10 * 24 * time.Hour)
			if cases := w.arbiter.Cases(); len(cases) != 0 {
				t.Errorf("not forgotten: %+v", cases)
			}
		})
	}
}

// proves checks that the payment proof of a receipt has coins of an amount, which the customer has signed over.
func (w *world) proves(released fact.AttemptReleased, amount uint64) {
	w.Helper()
	var e shownEcash
	w.ok(json.Unmarshal([]byte(released.Proof), &e))
	for _, proof := range e.Proofs {
		witness, err := cashu.ParseWitness(proof.Witness)
		w.ok(err)
		if !signs(proof.Secret, witness.Signatures[0], 1) {
			w.Error("the customer did not sign over what the receipt says")
		}
	}
	worth, err := cashu.Worth(e.Proofs)
	if err != nil || worth != amount || len(e.Keysets) != 1 {
		w.Errorf("the receipt proves %d (%v) with %d keysets", worth, err, len(e.Keysets))
	}
}

// TestContestedMoneyCounts checks that what an arbiter may still give to the provider counts in the budgets until it is back.
func TestContestedMoneyCounts(t *testing.T) {
	for name, c := range map[string]struct {
		decided func(*world)
		used    uint64
	}{
		"the arbiter gives it all":   {func(w *world) { w.ok(w.arbiter.Rule(w.Context(), attempt, 500, "")) }, 500},
		"the arbiter gives no more":  {func(w *world) { w.ok(w.arbiter.Rule(w.Context(), attempt, 200, "")) }, 200},
		"the arbiter does not speak": {func(w *world) { w.now = w.now.Add(5 * 24 * time.Hour) }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, contested(), 500)
			w.ok(w.customer.SetBudget(t.Context(), fact.BudgetSet{Unit: "test", Job: 500}))
			w.pump()
			w.judged(guild.Success, guild.Mixed)
			w.pump()
			w.ok(w.provider.Object(t.Context(), attempt, "more"))
			w.pump()
			for i, used := range []uint64{500, c.used} {
				var spent uint64
				w.customer.fold.View(func(s *state) { spent = s.Orders.Of(theJob).Spent })
				if spent != used {
					t.Errorf("%d count, want %d", spent, used)
				}
				if i == 0 {
					c.decided(w)
					w.pump()
				}
			}
		})
	}
}

// TestNobodyObjects checks that the rest comes back when the time for objections is over, and all is paid at once.
func TestNobodyObjects(t *testing.T) {
	w := judgedLock(t, guild.Success, guild.Mixed)
	w.want(9500, 300, 200)
	w.later(objecting - time.Minute)
	w.want(9500, 300, 200)
	w.later(2 * time.Minute)
	w.want(9800, 0, 200)
	w.over()
	w = judgedLock(t, guild.Success, guild.Strong)
	w.want(9500, 0, 500)
	w.over()
	w = judgedLock(t, guild.Failure, guild.Strong)
	if w.customer.Busy(attempt) {
		t.Error("a command would wait a day for an objection")
	}
}

// TestNoRuling checks that the customer has the rest at the locktime if the arbiter never rules.
func TestNoRuling(t *testing.T) {
	w := judgedLock(t, guild.Success, guild.Mixed)
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	w.later(judging + objecting + ruling)
	w.want(9500, 300, 200)
	w.later(2 * time.Hour)
	w.want(9800, 0, 200)
	w.over()
	if err := w.arbiter.Rule(t.Context(), attempt, 500, ""); err == nil {
		t.Error("it rules on money that is gone")
	}
}

// TestCustomerIgnoresARuling checks that the provider needs nothing of a customer that does not answer any more.
func TestCustomerIgnoresARuling(t *testing.T) {
	w := newWorld(t, contested(), 500)
	w.pump()
	w.waiting, w.customer.deaf = false, true
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: "delivered"})
	if err := w.provider.Object(t.Context(), attempt, "no verdict"); !errors.Is(err, ErrNoCase) || !strings.Contains(err.Error(), "has until") {
		t.Errorf("it objects before the time for the verdict is over: %v", err)
	}
	w.now = w.now.Add(2*time.Hour + time.Minute)
	w.ok(w.provider.Object(t.Context(), attempt, "no verdict"))
	for w.step(w.provider) || w.step(w.arbiter) {
	}
	w.ok(w.arbiter.Rule(t.Context(), attempt, 500, ""))
	for w.step(w.provider) || w.step(w.arbiter) {
	}
	if earned := w.has(w.provider, wallet.Free); earned != 500 {
		t.Errorf("the provider has %d", earned)
	}
	w.ends(fact.AttemptExpired{Attempt: attempt, Silent: true})
	w.later(200 * time.Hour)
	if lost := w.has(w.customer, wallet.Lost); lost != 500 {
		t.Errorf("the customer's books say that %d are lost", lost)
	}
}

func TestOrdersWithoutTheirArbiter(t *testing.T) {
	other := nip90.Arbiter{PubKey: nostr.PubKey{5}, Key: cashu.RandomScalar().PubKey()}
	for name, c := range map[string]struct {
		change func(*world, *fact.AttemptQuoted)
		reason string
	}{
		"the provider does not accept it": {func(w *world, q *fact.AttemptQuoted) {
			terms, err := w.provider.terms(fact.RequestReceived{Request: attempt, Deadline: w.now.Add(time.Hour).UnixMilli()}, 500, "test", false)
			w.ok(err)
			q.Terms = terms
		}, "does not accept the judge"},
		"it names another": {func(w *world, q *fact.AttemptQuoted) {
			terms, err := w.provider.terms(fact.RequestReceived{Request: attempt, Deadline: w.now.Add(time.Hour).UnixMilli(), Arbiter: &other}, 500, "test", false)
			w.ok(err)
			q.Terms = terms
		}, "does not accept the judge"},
		"it has a price by usage": {func(_ *world, q *fact.AttemptQuoted) { q.Rates = &nip90.Rates{Price: 1000} }, "price by usage"},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedWorld(t, contested(), 500, c.change)
			w.pump()
			if refused := facts[fact.AttemptRefused](w, w.customer); len(refused) != 1 || !strings.Contains(refused[0].Reason, c.reason) {
				t.Errorf("%+v", refused)
			}
			w.want(10_000, 0, 0)
		})
	}
	w := changedWorld(t, usual, 500, func(w *world, q *fact.AttemptQuoted) {
		terms, err := w.provider.terms(fact.RequestReceived{Request: attempt, Deadline: w.now.Add(time.Hour).UnixMilli(), Arbiter: &other}, 500, "test", false)
		w.ok(err)
		q.Terms = terms
	})
	w.pump()
	if refused := facts[fact.AttemptRefused](w, w.customer); len(refused) != 1 || !strings.Contains(refused[0].Reason, "names no judge") {
		t.Errorf("%+v", refused)
	}
}

func TestArbiterOfOneOfThem(t *testing.T) {
	w := newWorld(t, contested(), 500)
	named := *contestedBy(w)
	for name, c := range map[string]struct {
		at     *party
		pubkey nostr.PubKey
		reason string
	}{
		"the customer itself":  {w.customer, w.customer.pubkey, "same owner"},
		"the provider itself":  {w.provider, w.provider.pubkey, "same owner"},
		"nobody that is known": {w.customer, nostr.PubKey{1}, "nobody announces"},
	} {
		if _, err := c.at.Arbiter(t.Context(), c.pubkey); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, err := w.customer.Arbiter(t.Context(), w.arbiter.pubkey); err != nil || a != named {
		t.Errorf("%+v, %v", a, err)
	}
	c := w.arbiter.c
	c.Ours = func(nostr.PubKey) bool { return false } // of another npub, whose wallet is the same
	if _, err := New(c, w.arbiter.fold).Arbiter(t.Context(), w.arbiter.pubkey); err == nil || !strings.Contains(err.Error(), "a key of this wallet") {
		t.Errorf("a key of the same wallet: %v", err)
	}
	for name, r := range map[string]fact.RequestReceived{
		"the customer is the judge": {Customer: w.arbiter.pubkey, Arbiter: &named},
		"another key":               {Customer: w.customer.pubkey, Arbiter: &nip90.Arbiter{PubKey: named.PubKey, Key: cashu.RandomScalar().PubKey()}},
	} {
		if _, _, err := w.provider.Quote(t.Context(), r, w.now, 500, "test", false); err == nil || !strings.Contains(err.Error(), "judge") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileCases has objections about money that is not locked as they say.
func TestHostileCases(t *testing.T) {
	w := judgedLock(t, guild.Failure, guild.Strong)
	var good dm.Message
	w.change = func(_ *party, m *dm.Message) {
		if dm.TypeOf(m.Content) == dm.TypeCase && good.Content == "" {
			good = *m
		}
	}
	w.arbiter.deaf = true
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	w.arbiter.deaf = false
	one, err := dm.DecodeCase(good.Content)
	w.ok(err)
	secrets := func(change func(*cashu.Condition)) func(*dm.Case) {
		return func(c *dm.Case) {
			c.Coins = slices.Clone(c.Coins)
			for i, coin := range c.Coins {
				lock, _, err := cashu.ParseCondition(coin.Secret)
				w.ok(err)
				change(&lock)
				c.Coins[i].Secret, err = lock.Secret()
				w.ok(err)
			}
		}
	}
	for name, change := range map[string]func(*dm.Case){
		"another customer":      func(c *dm.Case) { c.Customer = nostr.PubKey{4} },
		"the provider's own":    func(c *dm.Case) { c.Customer = w.provider.pubkey },
		"the arbiter's own":     func(c *dm.Case) { c.Customer = w.arbiter.pubkey },
		"another request":       func(c *dm.Case) { c.Request = nostr.ID{9} },
		"another salt":          func(c *dm.Case) { c.Salt = [32]byte{1} },
		"a coin twice":          func(c *dm.Case) { c.Coins = append(slices.Clone(c.Coins), c.Coins[0]) },
		"another order":         func(c *dm.Case) { c.Coins = slices.Clone(c.Coins); slices.Reverse(c.Coins) },
		"a plain coin":          func(c *dm.Case) { c.Coins = []fact.LockedCoin{{Amount: 1, Secret: "plain"}} },
		"too much money":        func(c *dm.Case) { c.Coins = slices.Clone(c.Coins); c.Coins[0].Amount = 1<<64 - 1 },
		"too many coins":        func(c *dm.Case) { c.Coins = slices.Repeat(c.Coins, 5) },
		"two keys":              secrets(func(c *cashu.Condition) { c.Keys = c.Keys[:2] }),
		"one signature":         secrets(func(c *cashu.Condition) { c.Sigs = 1 }),
		"three signatures":      secrets(func(c *cashu.Condition) { c.Sigs = 3 }),
		"another arbiter":       secrets(func(c *cashu.Condition) { c.Keys[2] = cashu.RandomScalar().PubKey() }),
		"all signed as a whole": secrets(func(c *cashu.Condition) { c.All = true }),
		"twice the same key":    secrets(func(c *cashu.Condition) { c.Keys[1] = c.Keys[0]; c.Keys[1][0] ^= 1 }),
	} {
		c := one
		change(&c)
		content, err := c.Encode()
		w.ok(err)
		err = w.arbiter.TakeCase(t.Context(), dm.Message{From: w.provider.pubkey, Content: content, ID: nostr.ID{byte(len(name))}})
		if _, dropped := errors.AsType[*guild.DropError](err); !dropped {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.arbiter.TakeCase(t.Context(), dm.Message{From: w.customer.pubkey, Content: good.Content}); err == nil {
		t.Error("somebody else opens the case of a provider")
	}
	w.ok(w.arbiter.TakeCase(t.Context(), good))
	if err := w.arbiter.TakeCase(t.Context(), good); err == nil {
		t.Error("a case is opened twice")
	}
	if err := w.arbiter.Rule(t.Context(), attempt, 3, ""); err == nil || !strings.Contains(err.Error(), "no sum") {
		t.Errorf("a part of a coin is ruled on: %v", err)
	}
}

// TestRulingsOfOthers has rulings that are not the arbiter's, or not as it can give them.
func TestRulingsOfOthers(t *testing.T) {
	w := disputed(t, guild.Failure, guild.Strong)
	var rulings []dm.Message
	w.change = func(from *party, m *dm.Message) {
		if from == w.arbiter {
			rulings = append(rulings, *m)
		}
	}
	w.customer.deaf, w.provider.deaf = true, true
	w.ok(w.arbiter.Rule(t.Context(), attempt, 200, ""))
	w.pump()
	if len(rulings) != 2 {
		t.Fatalf("%d messages of the arbiter", len(rulings))
	}
	for i, p := range []*party{w.provider, w.customer} {
		forged := rulings[i]
		forged.From = nostr.PubKey{3}
		more := rulings[i]
		more.Content = strings.Replace(more.Content, `"amount":200`, `"amount":300`, 1)
		exchanged := rulings[1-i]
		messages := []dm.Message{forged, exchanged}
		if p == w.customer {
			messages = append(messages, more)
		}
		for n, m := range messages {
			m.ID = nostr.ID{byte(10*i + n + 1)}
			if p == w.provider && n == 1 { // the arbiter's signatures for the customer are as good for us: it gives what it likes
				continue
			}
			if err := p.TakeRuling(t.Context(), m); err == nil {
				t.Errorf("party %d takes message %d", i, n)
			}
		}
		w.ok(p.TakeRuling(t.Context(), rulings[i]))
		again := rulings[i]
		again.ID = nostr.ID{99, byte(i)}
		if err := p.TakeRuling(t.Context(), again); err == nil {
			t.Errorf("party %d takes a ruling twice", i)
		}
	}
	w.customer.deaf, w.provider.deaf = false, false
	w.pump()
	w.want(9800, 0, 200)
	w.over()
}

func TestNothingToObjectTo(t *testing.T) {
	w := judgedLock(t, guild.Success, guild.Strong)
	if err := w.provider.Object(t.Context(), attempt, "more"); !errors.Is(err, ErrNoCase) {
		t.Errorf("all is paid: %v", err)
	}
	w = newWorld(t, usual, 500)
	w.pump()
	w.judged(guild.Failure, guild.Strong)
	for w.provider.fold.locks()[0].Released == nil && w.step(w.customer) || w.step(w.provider) {
		if l := w.provider.fold.locks(); len(l) == 0 || l[0].Released != nil {
			break
		}
	}
	if err := w.provider.Object(t.Context(), attempt, "more"); !errors.Is(err, ErrNoCase) {
		t.Errorf("no arbiter is named: %v", err)
	}
	w = judgedLock(t, guild.Failure, guild.Strong)
	down := w.provider.c.Send
	w.provider.c.Send = func(context.Context, guild.Verified, nostr.PubKey) error { return errors.New("no relay took it") }
	if err := w.provider.Object(t.Context(), attempt, "more"); err == nil || !strings.Contains(err.Error(), "no relay took it") {
		t.Errorf("%v", err)
	}
	w.provider.c.Send = down
	w.ok(w.provider.Object(t.Context(), attempt, "more"))
	w.ok(w.provider.Object(t.Context(), attempt, "I said it"))
	w.pump()
	if all := facts[fact.LockDisputed](w, w.provider); len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

func TestKillInARuling(t *testing.T) {
	for _, c := range []struct {
		least    int
		outcome  guild.Outcome
		strength guild.Strength
		ruled    uint64
	}{{26, guild.Success, guild.Mixed, 500}, {34, guild.Failure, guild.Strong, 200}} {
		killAtEveryPoint(t, c.least, func(t *testing.T, at string) []string {
			w := judgedLock(t, c.outcome, c.strength)
			w.at, w.points = at, nil
			w.ok(w.provider.Object(t.Context(), attempt, "more"))
			w.pump()
			w.ok(w.arbiter.Rule(t.Context(), attempt, c.ruled, ""))
			w.pump()
			w.later(2 * time.Minute) // a mint is asked again after a minute
			w.want(10_000-int64(c.ruled), 0, int64(c.ruled))
			w.over()
			if w.at != "" {
				t.Errorf("nobody died at %q", at)
			}
			if n := len(facts[fact.AttemptReleased](w, w.customer)); n != 1 {
				t.Errorf("%d releases in the attempt", n)
			}
			return w.points
		})
	}
}

func TestCasesAreBounded(t *testing.T) {
	w := newWorld(t, contested(), 500)
	key, err := w.arbiter.arbiterKey()
	w.ok(err)
	send := func(n int) error {
		request := nostr.ID{1, byte(n), byte(n >> 8)}
		salt := [32]byte{byte(n)}
		lock := cashu.Condition{
			Kind: cashu.P2PK, Keys: []cashu.Point{cashu.RandomScalar().PubKey(), cashu.RandomScalar().PubKey(), key.PubKey()}, Sigs: 2,
			Locktime: w.now.Add(time.Hour).Unix(), Nonce: wallet.Nonce(parties(salt, request, w.customer.pubkey, w.provider.pubkey, []uint64{8}), 0),
		}
		secret, err := lock.Secret()
		w.ok(err)
		content, err := dm.Case{
			Request: request, Customer: w.customer.pubkey, Mint: w.asset.Mint, Unit: "test", Salt: salt, Reason: fmt.Sprint(n),
			Coins: []fact.LockedCoin{{Amount: 8, Secret: secret}},
		}.Encode()
		w.ok(err)
		return w.arbiter.TakeCase(t.Context(), dm.Message{From: w.provider.pubkey, Content: content, ID: nostr.ID{2, byte(n)}})
	}
	for n := range maxCasesOf {
		w.ok(send(n))
	}
	if err := send(maxCasesOf); err == nil || !strings.Contains(err.Error(), "are open") {
		t.Errorf("%v", err)
	}
}
