package pay

import (
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// rails are the orders that are paid before the work, over 500 of their unit.
var rails = map[string]fact.Settlement{"escrow": usual, "invoice": ahead, "ecash": inEcash}

// asked returns a world whose owner is asked about each payment over a limit.
func asked(t *testing.T, order fact.Settlement, over uint64) *world {
	t.Helper()
	w := newWorld(t, order, 500)
	w.ok(w.customer.SetBudget(t.Context(), fact.BudgetSet{Unit: order.Unit, AskOver: over}))
	return w
}

// goes does what is due at the customer. A provider asks its wallet without end whether an invoice is paid.
func (w *world) goes() {
	w.Helper()
	for range 3 {
		for range 40 {
			w.step(w.customer)
			w.step(w.provider)
		}
		w.now = w.now.Add(3 * time.Second)
	}
}

// reserved reports whether money was set aside for the attempt, and whether the attempt ended unpaid, for which reason.
func (w *world) reserved() (paid bool, reason string) {
	w.Helper()
	for _, f := range facts[fact.AttemptRefused](w, w.customer) {
		reason = f.Reason
	}
	return len(facts[fact.PaymentReserved](w, w.customer)) == 1, reason
}

// TestReceiptNamesThePerson checks that the rule of what was paid names the owner who allowed the price, too.
func TestReceiptNamesThePerson(t *testing.T) {
	for rail, rule := range map[string]string{"escrow": ruleStrong, "invoice": fact.RulePrepaid, "ecash": fact.RulePrepaid} {
		for _, over := range []uint64{499, 500} {
			w := asked(t, rails[rail], over)
			want := rule
			w.goes()
			if over == 499 {
				w.ok(w.customer.Approve(t.Context(), attempt, 500))
				want += ":person"
				w.goes()
			}
			w.judged(guild.Success, guild.Strong)
			w.goes()
			released := facts[fact.AttemptReleased](w, w.customer)
			if len(released) != 1 || released[0].Rule != want || released[0].Prepaid() != (rule == fact.RulePrepaid) {
				t.Errorf("%s over %d: %+v", rail, over, released)
			}
		}
	}
}

func TestOwnerIsAsked(t *testing.T) {
	owner := func(amount uint64) func(*world) {
		return func(w *world) { w.ok(w.customer.Approve(w.Context(), attempt, amount)) }
	}
	budget := func(b fact.BudgetSet) func(*world) {
		return func(w *world) {
			b.Unit = map[bool]string{true: "sat", false: "test"}[w.lightning != nil]
			w.ok(w.customer.SetBudget(w.Context(), b))
		}
	}
	for name, c := range map[string]struct {
		over    uint64
		then    func(*world) // while it waits; nil if it does not
		paid    bool
		because string
	}{
		"under":                     {500, nil, true, ""},
		"no limit":                  {0, nil, true, ""},
		"over and allowed":          {499, owner(500), true, ""},
		"over and refused":          {499, owner(0), false, "it is not paid: the owner does not allow it"},
		"over and unanswered":       {499, func(w *world) { w.now = w.now.Add(asking) }, false, "it is not paid: nobody allowed 500"},
		"over and not yet answered": {499, func(w *world) { w.now = w.now.Add(asking - time.Minute) }, false, ""},
		"the limit is removed":      {499, budget(fact.BudgetSet{}), true, ""},
		"the limit is raised":       {499, budget(fact.BudgetSet{AskOver: 500}), true, ""},
		"allowed and then lowered":  {499, func(w *world) { owner(500)(w); budget(fact.BudgetSet{AskOver: 1})(w) }, true, ""},
		"allowed and then frozen":   {499, func(w *world) { owner(500)(w); w.ok(w.customer.Freeze(w.Context(), true)) }, false, "the wallet is frozen"},
		"frozen while it waits":     {499, func(w *world) { w.ok(w.customer.Freeze(w.Context(), true)) }, false, "the wallet is frozen"},
		"allowed over the budget":   {499, func(w *world) { owner(500)(w); budget(fact.BudgetSet{AskOver: 499, Daily: 499})(w) }, false, "the day's budget: 499"},
	} {
		for rail, order := range rails {
			t.Run(rail+", "+name, func(t *testing.T) {
				w := asked(t, order, c.over)
				w.goes()
				all := w.customer.Paying()
				waits := len(all) == 1 && all[0].Waits && all[0].Amount == 500 && all[0].Unit == order.Unit && all[0].Party == w.provider.pubkey
				if paid, reason := w.reserved(); waits != (c.then != nil) || waits == paid || reason != "" {
					t.Fatalf("waits %v, paid %v, ended %q: %+v", waits, paid, reason, all)
				}
				if deferred := facts[fact.AttemptDeferred](w, w.customer); waits != (len(deferred) == 1) {
					t.Errorf("the attempt knows: %+v", deferred)
				}
				if c.then != nil {
					c.then(w)
					w.goes()
				}
				if paid, reason := w.reserved(); paid != c.paid || c.because == "" && reason != "" || !strings.Contains(reason, c.because) {
					t.Errorf("paid %v, ended %q", paid, reason)
				}
				if w.provider.Funded(attempt) != c.paid {
					t.Error("the provider sees something else")
				}
			})
		}
	}
}

func TestAllowedIsNotApproved(t *testing.T) {
	w := asked(t, usual, 499)
	w.pump()
	if err := w.customer.Approve(t.Context(), attempt, 200); err == nil || !strings.Contains(err.Error(), "the price is 500 test") {
		t.Errorf("a part of the price: %v", err)
	}
	w.ok(w.customer.Approve(t.Context(), attempt, 500))
	w.pump()
	w.want(9500, 500, 0)
	w.judged(guild.Success, guild.Mixed)
	w.pump()
	w.want(9800, 0, 200) // by the verdict
	w.over()
}

func TestEndedWhileTheOwnerIsAsked(t *testing.T) {
	for rail, order := range rails {
		t.Run(rail, func(t *testing.T) {
			w := asked(t, order, 499)
			w.goes()
			w.ends(fact.AttemptExpired{Attempt: attempt})
			w.goes()
			if err := w.customer.Approve(t.Context(), attempt, 500); err == nil {
				t.Error("it can be allowed")
			}
			if o := w.customer.fold.open(); len(o) > 0 {
				t.Errorf("not forgotten: %+v", o)
			}
		})
	}
}

func TestRefusedWithoutAsking(t *testing.T) {
	w := newWorld(t, usual, 601)
	w.ok(w.customer.SetBudget(t.Context(), fact.BudgetSet{Unit: "test", AskOver: 1}))
	w.pump()
	if _, reason := w.reserved(); !strings.Contains(reason, "the order bids 600") || len(facts[fact.AttemptDeferred](w, w.customer)) > 0 {
		t.Errorf("ended %q", reason)
	}
}

func TestAskWithinAScope(t *testing.T) {
	for name, c := range map[string]struct {
		set   fact.BudgetSet
		waits bool
	}{
		"the task":         {fact.BudgetSet{Unit: "test", Task: "python", AskOver: 499}, true},
		"another task":     {fact.BudgetSet{Unit: "test", Task: "go", AskOver: 499}, false},
		"the provider":     {fact.BudgetSet{Unit: "test", Provider: key.NewSecret(nostr.SecretKey{31: 2}).PubKey(), AskOver: 499}, true},
		"another provider": {fact.BudgetSet{Unit: "test", Provider: key.NewSecret(nostr.SecretKey{31: 9}).PubKey(), AskOver: 499}, false},
		"another unit":     {fact.BudgetSet{Unit: "sat", AskOver: 499}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, usual, 500)
			w.ok(w.customer.SetBudget(t.Context(), c.set))
			w.pump()
			if all := w.customer.Paying(); len(all) != 1 || all[0].Waits != c.waits {
				t.Errorf("%+v", all)
			}
		})
	}
}

// TestAskAboutABill checks a bill that is due by the verdict, and larger than what is paid without the owner.
func TestAskAboutABill(t *testing.T) {
	for name, c := range map[string]struct {
		strength guild.Strength
		approve  []uint64
		paid     bool
		waits    bool
	}{
		"unanswered":          {guild.Strong, nil, false, true},
		"approved":            {guild.Strong, []uint64{500}, true, false},
		"refused":             {guild.Strong, []uint64{0}, false, false},
		"weak, approved once": {guild.Weak, []uint64{500}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			after := ahead
			after.How = postpaid
			w := asked(t, after, 499)
			text := w.lightning.sign(bolt11.Invoice{Amount: 500_000, Expiry: time.Hour, Description: "x"}, nil)
			w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptDelivered{Attempt: attempt, Bill: &fact.Bill{Amount: 500_000, Invoice: text}})
			w.judged(guild.Success, c.strength)
			w.tries()
			if all := w.customer.Paying(); len(all) != 1 || !all[0].Waits || all[0].Amount != 500 || w.lightning.wants != 0 {
				t.Fatalf("open: %+v, ordered %d times", all, w.lightning.wants)
			}
			for _, amount := range c.approve {
				w.ok(w.customer.Approve(t.Context(), attempt, amount))
				w.tries()
			}
			all := w.customer.Paying()
			if waits := len(all) == 1 && all[0].Waits; waits != c.waits || (w.lightning.wants == 1) != c.paid || w.lightning.wants > 1 {
				t.Errorf("open: %+v, ordered %d times", all, w.lightning.wants)
			}
		})
	}
}

// wholeAsked lives one payment that the owner is asked about, in which a process dies at a point, and returns all points.
func wholeAsked(order fact.Settlement, allowed bool) func(t *testing.T, at string) []string {
	return func(t *testing.T, at string) []string {
		w := asked(t, order, 499)
		w.at, w.points = at, nil
		w.goes()
		if paid, reason := w.reserved(); paid || reason != "" {
			t.Fatalf("paid %v, ended %q", paid, reason)
		}
		if allowed {
			w.ok(w.customer.Approve(t.Context(), attempt, 500))
			w.goes()
			w.judged(guild.Success, guild.Strong)
			w.goes()
			w.over()
		} else {
			w.now = w.now.Add(asking)
			w.goes()
		}
		paid, reason := w.reserved()
		if paid != allowed || (reason == "") != allowed {
			t.Errorf("paid %v, ended %q", paid, reason)
		}
		if n := len(facts[fact.AttemptDeferred](w, w.customer)); n != 1 {
			t.Errorf("deferred %d times", n)
		}
		if w.lightning != nil && (w.lightning.wants == 1) != allowed || w.lightning == nil && (w.customer.spent() == 500) != allowed {
			t.Errorf("paid %d", w.customer.spent())
		}
		if w.at != "" {
			t.Errorf("nobody died at %q", at)
		}
		return w.points
	}
}

// spent returns what a party has paid in ecash.
func (p *party) spent() (paid int64) {
	for _, b := range p.wallet.Fold().Balances() {
		if b.Unit == "test" {
			paid += b.Accounts[wallet.Paid]
		}
	}
	return paid
}

func TestKillWhileTheOwnerIsAsked(t *testing.T) {
	t.Run("escrow, allowed", func(t *testing.T) { killAtEveryPoint(t, 40, wholeAsked(usual, true)) })
	t.Run("escrow, unanswered", func(t *testing.T) { killAtEveryPoint(t, 6, wholeAsked(usual, false)) })
	t.Run("ecash, allowed", func(t *testing.T) { killAtEveryPoint(t, 30, wholeAsked(inEcash, true)) })
	t.Run("ecash, unanswered", func(t *testing.T) { killAtEveryPoint(t, 6, wholeAsked(inEcash, false)) })
	t.Run("invoice, allowed", func(t *testing.T) { killAtEveryPoint(t, 16, wholeAsked(ahead, true)) })
	t.Run("invoice, unanswered", func(t *testing.T) { killAtEveryPoint(t, 6, wholeAsked(ahead, false)) })
}
