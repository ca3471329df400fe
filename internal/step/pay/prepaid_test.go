package pay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/bolt11"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/hand/dm"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// inEcash is an order that pays before the work, in ecash.
var inEcash = fact.Settlement{How: prepaid, Unit: "test", Most: 600}

// finishes ends the request at the provider.
func (w *world) finishes(ending string) {
	w.Helper()
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: ending})
}

// got checks what the record of the attempt says about its money: nothing, or all of the price.
func (w *world) got(paid bool) {
	w.Helper()
	released := facts[fact.AttemptReleased](w, w.customer)
	if len(facts[fact.AttemptRefunded](w, w.customer)) > 0 || len(facts[fact.PaymentDecided](w, w.customer)) > 0 {
		w.Error("money was decided about that nobody can take back")
	}
	switch {
	case !paid && len(released) == 0:
	case !paid || len(released) != 1 || released[0].Amount != 500_000 || released[0].Rule != fact.RulePrepaid:
		w.Errorf("released: %+v", released)
	case !strings.Contains(released[0].Proof, `"keysets"`) || strings.Contains(released[0].Proof, "witness") || !strings.Contains(released[0].Proof, `"dleq"`):
		w.Errorf("the proof is %s", released[0].Proof)
	}
	held := facts[fact.AttemptHeld](w, w.customer)
	if n := len(held); n > 0 && (held[n-1].Amount > 0) != paid || n == 0 && paid {
		w.Errorf("held: %+v", held)
	}
}

func TestPrepaidInEcash(t *testing.T) {
	for name, outcome := range map[string]guild.Outcome{"done": guild.Success, "badly": guild.Failure} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, inEcash, 500)
			w.pump()
			if !w.provider.Funded(attempt) {
				t.Fatal("the provider does not begin")
			}
			w.want(9500, 0, 500) // before anything is delivered
			if len(w.provider.Owed()) > 0 {
				t.Errorf("owed: %+v", w.provider.Owed())
			}
			if all := w.customer.Paying(); len(all) != 1 || all[0].State != "paid" || all[0].Waits || !all[0].Until.IsZero() {
				t.Errorf("paying: %+v", all)
			}
			if err := w.customer.Approve(t.Context(), attempt, 0); err == nil {
				t.Error("it can be decided")
			}
			w.judged(outcome, guild.Strong)
			w.pump()
			w.got(true)
			w.want(9500, 0, 500)
			w.over()
			if !w.customer.Idle() {
				t.Error("money is about to move")
			}
			for who, want := range map[*party][]string{
				w.customer: {"issue done 10000 test", "lock done 500 test"}, w.provider: {"claim done 500 test"},
			} {
				if got := who.history(t); !slices.Equal(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			}
		})
	}
}

func TestWithheldWorkIsPaidAllTheSame(t *testing.T) {
	w := newWorld(t, inEcash, 500)
	w.pump()
	w.finishes("failed")
	w.ends(fact.AttemptExpired{Attempt: attempt})
	w.pump()
	w.got(true)
	w.want(9500, 0, 500)
	w.over()
}

func TestKillWithEcashBeforeTheWork(t *testing.T) {
	killAtEveryPoint(t, 34, func(t *testing.T, at string) []string {
		w := newWorld(t, inEcash, 500)
		w.at, w.points = at, nil
		w.pump()
		w.judged(guild.Failure, guild.Strong)
		w.pump()
		if w.at != "" {
			t.Errorf("nobody died at %q", at)
		}
		if n := len(facts[fact.PaymentReserved](w, w.customer)); n != 1 {
			t.Errorf("%d reserves", n)
		}
		w.got(true)
		w.want(9500, 0, 500)
		w.over()
		return w.points
	})
}

// TestEndedBeforeTheEcashWasSent ends the attempt after each step of the customer, also if its process dies there: until the plan
// nothing is made, and from then on all of it is sent.
func TestEndedBeforeTheEcashWasSent(t *testing.T) {
	planned := func(w *world) bool {
		return slices.ContainsFunc(facts[fact.EcashPlanned](w, w.customer), func(p fact.EcashPlanned) bool { return p.Kind == wallet.Lock })
	}
	for _, dies := range []bool{false, true} {
		for steps, sent := 0, false; !sent; steps++ {
			t.Run(fmt.Sprintf("after %d steps, dies %v", steps, dies), func(t *testing.T) {
				w := newWorld(t, inEcash, 500)
				for range steps {
					w.step(w.customer)
				}
				paid := planned(w)
				sent = len(facts[fact.PaymentSent](w, w.customer)) > 0
				if dies {
					w.open(w.customer)
				}
				w.finishes("failed")
				w.ends(fact.AttemptExpired{Attempt: attempt})
				w.pump()
				w.got(paid)
				if paid {
					w.want(9500, 0, 500)
				} else {
					w.want(10_000, 0, 0)
					w.later(26 * time.Hour)
				}
				w.over()
				var used uint64
				w.customer.fold.View(func(s *state) { used = s.Used.Of("test").Today })
				if (used == 500) != paid {
					t.Errorf("%d of the budget are used, paid %v", used, paid)
				}
			})
			if steps > 20 {
				t.Fatal("it is never sent")
			}
		}
	}
}

// TestShortWhenTheLockIsPlanned spends the money that was reserved.
func TestShortWhenTheLockIsPlanned(t *testing.T) {
	w := newWorld(t, inEcash, 500)
	for len(facts[fact.AttemptHeld](w, w.customer)) == 0 {
		w.step(w.customer)
	}
	_, err := w.customer.wallet.Send(t.Context(), w.asset, 9800)
	w.ok(err)
	w.pump()
	w.got(false)
	w.want(200, 0, 0)
	if _, reason := w.reserved(); !strings.Contains(reason, "500 test are wanted and 200 are free") {
		t.Errorf("ended %q", reason)
	}
	w.finishes("failed")
	w.ends(fact.AttemptExpired{Attempt: attempt})
	w.later(26 * time.Hour)
	w.over()
}

func TestEcashThatComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		taken bool
	}{"in time": {24 * time.Hour, true}, "too late": {26 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, inEcash, 500)
			for len(facts[fact.PaymentSent](w, w.customer)) == 0 {
				w.step(w.customer)
			}
			inbox := w.provider.inbox
			w.provider.inbox = nil
			w.finishes("failed")
			w.later(c.after)
			w.provider.inbox = inbox
			w.ends(fact.AttemptExpired{Attempt: attempt})
			w.pump()
			w.got(true)
			w.want(9500, 0, map[bool]int64{true: 500}[c.taken])
			w.over()
		})
	}
}

func TestWhoseEcashBeforeTheWork(t *testing.T) {
	for name, c := range map[string]struct {
		order fact.Settlement
		asked func(*token.Request)
		want  string
	}{
		"an escrow that is answered so": {usual, func(r *token.Request) { r.Lock.Tags = nil }, "the order pays by the verdict (--settle prepaid)"},
		"an order that gets an escrow": {inEcash, func(r *token.Request) { r.Lock.Tags = [][]string{{"n_sigs", "2"}, {"locktime", "1700090000"}} },
			"takes ecash in escrow, and the order pays before the work"},
		"a second key":                {inEcash, func(r *token.Request) { r.Lock.Tags = [][]string{{"pubkeys", cashu.HashToCurve("x").String()}} }, "takes ecash in escrow"},
		"signatures on all of a swap": {inEcash, func(r *token.Request) { r.Lock.Tags = [][]string{{"sigflag", "SIG_ALL"}} }, "takes ecash in escrow"},
		"one too much":                {inEcash, func(r *token.Request) { r.Amount = 601 }, "the order bids 600"},
		"another unit":                {inEcash, func(r *token.Request) { r.Unit = "sat" }, `the order is in "test"`},
		"another mint":                {inEcash, func(r *token.Request) { r.Mints = []string{"https://cheap.example"} }, "none of the mints"},
		"another job":                 {inEcash, func(r *token.Request) { r.ID = strings.Repeat("0", 64) }, "another job"},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedWorld(t, c.order, 500, func(w *world, q *fact.AttemptQuoted) {
				r, err := token.ParseRequest(q.Terms)
				w.ok(err)
				c.asked(&r)
				q.Terms = r.String()
			})
			w.pump()
			if paid, reason := w.reserved(); paid || !strings.Contains(reason, c.want) {
				t.Errorf("paid %v, ended %q", paid, reason)
			}
			w.want(10_000, 0, 0)
		})
	}
}

func TestHostileEcashBeforeTheWork(t *testing.T) {
	relocked := func(w *world, p *token.Payment, by func(*cashu.Condition)) {
		c, _, err := cashu.ParseCondition(p.Proofs[0].Secret)
		w.ok(err)
		by(&c)
		p.Proofs[0].Secret, err = c.Secret()
		w.ok(err)
	}
	for name, c := range map[string]struct {
		spoil func(*world, *token.Payment)
		want  string
	}{
		"locked to somebody else": {func(w *world, p *token.Payment) {
			relocked(w, p, func(c *cashu.Condition) { c.Keys[0] = cashu.HashToCurve("somebody") })
		}, "not locked to us alone"},
		"locked to the customer, too": {func(w *world, p *token.Payment) {
			relocked(w, p, func(c *cashu.Condition) { c.Keys = append(c.Keys, cashu.HashToCurve("customer")) })
		}, "not locked to us alone"},
		"the customer's again": {func(w *world, p *token.Payment) {
			relocked(w, p, func(c *cashu.Condition) {
				c.Locktime, c.Refund = w.now.Add(time.Hour).Unix(), []cashu.Point{cashu.HashToCurve("customer")}
			})
		}, "not locked to us alone"},
		"everybody's after a time": {func(w *world, p *token.Payment) {
			relocked(w, p, func(c *cashu.Condition) { c.Locktime = 1 })
		}, "not locked to us alone"},
		"signed with all": {func(w *world, p *token.Payment) { relocked(w, p, func(c *cashu.Condition) { c.All = true }) }, "SIG_ALL"},
		"not locked":      {func(_ *world, p *token.Payment) { p.Proofs[0].Secret = "plain" }, "not locked"},
		"another secret": {func(w *world, p *token.Payment) {
			relocked(w, p, func(c *cashu.Condition) { c.Nonce = "another" })
		}, "ecash 1"},
		"a coin twice": {func(_ *world, p *token.Payment) { p.Proofs = append(p.Proofs, p.Proofs[0]) }, "twice"},
		"a coin less":  {func(_ *world, p *token.Payment) { p.Proofs = p.Proofs[1:] }, "and the price is 500"},
		"one less":     {func(_ *world, p *token.Payment) { p.Proofs[0].Amount-- }, "worth 499"},
		"one more":     {func(_ *world, p *token.Payment) { p.Proofs[0].Amount++ }, "worth 501"},
		"amounts exchanged": {func(_ *world, p *token.Payment) {
			p.Proofs[0].Amount, p.Proofs[1].Amount = p.Proofs[1].Amount, p.Proofs[0].Amount
		}, "ecash 1"},
		"another unit": {func(_ *world, p *token.Payment) { p.Unit = "sat" }, "was not asked for"},
		"another mint": {func(_ *world, p *token.Payment) { p.Mint = "https://cheap.example" }, "was not asked for"},
		"no DLEQ":      {func(_ *world, p *token.Payment) { p.Proofs[0].DLEQ = nil }, "no proof that the mint"},
		"spent":        {func(w *world, p *token.Payment) { w.spends(p.Proofs[:1]) }, "ecash 1 is spent"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, inEcash, 500)
			rewrittenLock(w, func(p *token.Payment) { c.spoil(w, p) })
			w.pump()
			refused := facts[fact.LockRefused](w, w.provider)
			if len(refused) != 1 || !strings.Contains(refused[0].Reason, c.want) || w.provider.Funded(attempt) {
				t.Errorf("%+v", refused)
			}
			w.finishes("failed")
			w.ends(fact.AttemptExpired{Attempt: attempt})
			w.later(26 * time.Hour)
			w.got(true)
			w.want(9500, 0, 0)
			w.over()
		})
	}
}

// spends spends ecash with the provider's key.
func (w *world) spends(proofs []cashu.Proof) {
	w.Helper()
	key, err := w.provider.seed.Key(wallet.PayeeKey, attempt.Hex())
	w.ok(err)
	proofs = slices.Clone(proofs)
	for i, p := range proofs {
		var witness cashu.Witness
		w.ok(witness.Sign(key, p.Secret))
		proofs[i].Witness = witness.Text()
	}
	w.swap(proofs)
}

func TestReplayedEcash(t *testing.T) {
	w := newWorld(t, inEcash, 500)
	var sent dm.Message
	w.change = func(_ *party, m *dm.Message) { sent = *m }
	w.pump()
	again := func(m dm.Message) {
		t.Helper()
		w.refusals = nil
		w.provider.inbox = append(w.provider.inbox, m)
		w.pump()
		if len(w.refusals) != 1 || w.refusals[0] == nil {
			t.Errorf("%v", w.refusals)
		}
		w.want(9500, 0, 500)
	}
	again(sent)
	stranger := sent
	stranger.From = w.provider.pubkey
	again(stranger)
	w.judged(guild.Success, guild.Strong)
	w.pump()
	again(sent) // the request is forgotten
	w.over()
}

// TestLightningOrEcash offers both to a customer who may have no Lightning wallet.
func TestLightningOrEcash(t *testing.T) {
	sats := wallet.Asset{Mint: "https://sat.example", Unit: "sat"}
	for name, c := range map[string]struct {
		connected bool
		change    func(*token.Request)
		invoice   bool
		reason    string
	}{
		"with a wallet":               {true, func(*token.Request) {}, true, ""},
		"with a wallet, another sum":  {true, func(r *token.Request) { r.Amount++ }, true, ""},
		"without one":                 {false, func(*token.Request) {}, false, ""},
		"without one, another sum":    {false, func(r *token.Request) { r.Amount++ }, false, "wants 501 sat in ecash, and 500000 msat over Lightning"},
		"without one, another escrow": {false, func(r *token.Request) { r.Lock.Tags = [][]string{{"n_sigs", "2"}} }, false, "takes ecash in escrow"},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedWorld(t, ahead, 500, func(w *world, q *fact.AttemptQuoted) {
				w.writes(w.customer, fact.Ledger, fact.MintAdded(sats))
				r := token.Request{ID: attempt.Hex(), Amount: 500, Unit: "sat", Mints: []string{sats.Mint}, Lock: &token.RequestedLock{
					Kind: cashu.P2PK, Data: cashu.HashToCurve("provider").String(),
				}}
				c.change(&r)
				q.Terms = r.String()
			})
			if !c.connected {
				w.lightning = nil
			}
			one, _ := w.customer.fold.payment(attempt)
			if w.customer.byInvoice(one) != c.invoice {
				t.Errorf("over Lightning: %v", !c.invoice)
			}
			if c.invoice || c.reason == "" {
				return
			}
			for range 3 {
				w.step(w.customer)
			}
			if _, reason := w.reserved(); !strings.Contains(reason, c.reason) {
				t.Errorf("ended %q", reason)
			}
		})
	}
}

// TestPlayMoneyIsNoBitcoin checks that an order in play money pays no invoice: a thousand of the one are not a thousand of the other.
func TestPlayMoneyIsNoBitcoin(t *testing.T) {
	w := changedWorld(t, inEcash, 500, func(w *world, q *fact.AttemptQuoted) {
		w.lightning = &network{t: t, now: func() time.Time { return w.now }}
		q.Invoice, q.Amount = w.lightning.sign(bolt11.Invoice{Amount: 500_000, Expiry: time.Hour, Description: "x"}, nil), 500_000
	})
	w.pump()
	reserved := facts[fact.PaymentReserved](w, w.customer)
	if len(reserved) != 1 || reserved[0].Invoice != "" || w.lightning.wants != 0 {
		t.Errorf("%+v, ordered %d times", reserved, w.lightning.wants)
	}
	order := payment{Order: inEcash, Price: 500_000, Invoice: w.lightning.bills[0].text}
	if _, err := new(state).inspectInvoice(order, bolt11.Regtest, w.now); err == nil || !strings.Contains(err.Error(), "wants bitcoin") {
		t.Error("the invoice:", err)
	}
}

// TestEcashForWhoGaveUp checks that nothing is locked to a provider that may not wait for it any more: it could not come back.
func TestEcashForWhoGaveUp(t *testing.T) {
	for name, after := range map[string]time.Duration{"in time": 7 * time.Minute, "late": 9 * time.Minute} {
		w := newWorld(t, inEcash, 500)
		w.now = w.now.Add(after)
		w.pump()
		if sent := len(facts[fact.PaymentSent](w, w.customer)) == 1; sent != (name == "in time") {
			t.Errorf("%s: sent %v: %+v", name, sent, facts[fact.PaymentRefused](w, w.customer))
		}
	}
}

// TestUnpaidInvoiceOrEcash checks that a request which could be paid either way does not keep its invoice open.
func TestUnpaidInvoiceOrEcash(t *testing.T) {
	w := newWorld(t, ahead, 500)
	w.provider.inbox = nil
	terms, err := w.provider.terms(fact.RequestReceived{Request: attempt, Deadline: w.now.Add(time.Hour).UnixMilli()}, 500, "sat", true)
	w.ok(err)
	invoice := w.lightning.sign(bolt11.Invoice{Amount: 500_000, Expiry: time.Minute, Description: "x"}, nil)
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestQuoted{
		Request: attempt, Customer: w.customer.pubkey, Deadline: w.now.Add(time.Hour).UnixMilli(), Terms: terms, Invoice: invoice,
	})
	w.ends(fact.AttemptExpired{Attempt: attempt})
	w.finishes("failed")
	for range 10 {
		w.step(w.provider)
		w.now = w.now.Add(time.Minute)
	}
	if w.provider.fold.Ordered() || len(w.provider.fold.locks()) != 1 {
		t.Errorf("open: %+v", w.provider.fold.locks())
	}
	w.later(26 * time.Hour)
	w.over()
}
