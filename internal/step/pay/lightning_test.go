package pay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
	"guild/internal/hand/nwc/nwctest"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// network stands for the Lightning network with the wallets of both parties, at the edge of the machine.
type network struct {
	t     *testing.T
	now   func() time.Time
	bills []bill
	wants int // orders that the customer's wallet got, each once

	refuses string // the code with which the customer's wallet refuses to pay
	silent  bool   // it pays, and does not answer
	stuck   bool   // it begins to pay, and comes to no end
	fails   bool   // it fails to pay
	other   bool   // another wallet is connected now
	unable  bool   // the provider's wallet holds no payments
	gone    bool   // it does not answer
	vague   bool   // once an invoice has expired, the wallets say no more of it than whether it is settled, and cancel only what they hold
	forgets bool   // the customer's wallet knows nothing any more
	mute    bool   // the customer's wallet gives no preimages
}

// bill is an invoice of the provider's wallet.
type bill struct {
	inv      bolt11.Invoice
	text     string
	preimage [32]byte
	sent     bool // the customer's wallet tries to pay it
	paid     bool
	failed   bool
	hold     bool // the customer chose the hash, and the payment is held
}

// lightningWallet is the wallet of one party.
type lightningWallet struct {
	lightning.Wallet // what the step does not use
	*network
	customer bool
	line     *world
}

func (n *network) find(hash guild.Hash) *bill {
	i := slices.IndexFunc(n.bills, func(b bill) bool { return b.inv.PaymentHash == hash })
	if i < 0 {
		return nil
	}
	return &n.bills[i]
}

func (l *lightningWallet) Network(context.Context) (bolt11.Network, error) {
	return bolt11.Regtest, nil
}

// sign makes an invoice of the provider's wallet, changed as a test says.
func (n *network) sign(inv bolt11.Invoice, change func(*bolt11.Invoice)) string {
	preimage := [32]byte{byte(len(n.bills)), 7}
	inv.Network, inv.Created, inv.PaymentHash = bolt11.Regtest, n.now().UTC(), sha256.Sum256(preimage[:])
	if change != nil {
		change(&inv)
	}
	text := nwctest.Sign(n.t, inv)
	inv, err := bolt11.Decode(text)
	if err != nil {
		n.t.Fatal(err)
	}
	n.bills = append(n.bills, bill{inv: inv, text: text, preimage: preimage})
	return text
}

func (l *lightningWallet) MakeInvoice(_ context.Context, amount guild.Msat, description string, expiry time.Duration) (text string, inv bolt11.Invoice, err error) {
	err = l.line.call("make_invoice", func() error {
		text = l.sign(bolt11.Invoice{Amount: amount, Description: description, Expiry: expiry}, nil)
		inv = l.bills[len(l.bills)-1].inv
		return nil
	})
	return text, inv, err
}

func (l *lightningWallet) Made(context.Context, lightning.Order) (bool, error) {
	return !l.other, nil
}

func (l *lightningWallet) Prepare(_ context.Context, invoice string, expires time.Time) (lightning.Order, error) {
	content, err := json.Marshal(invoice)
	return lightning.Order{Content: content, Expires: expires}, err
}

func (l *lightningWallet) Pay(_ context.Context, order lightning.Order) (p lightning.Payment, err error) {
	err = l.line.call("pay_invoice", func() error {
		p, err = l.pay(order)
		return err
	})
	return p, err
}

func (l *lightningWallet) pay(order lightning.Order) (lightning.Payment, error) {
	var text string
	if err := json.Unmarshal(order.Content, &text); err != nil {
		return lightning.Payment{}, err
	}
	inv, err := bolt11.Decode(text)
	if err != nil {
		return lightning.Payment{}, err
	}
	b := l.find(inv.PaymentHash)
	if b == nil || b.paid || b.sent {
		l.t.Errorf("an order for an invoice that is paid, or of nobody: %v", inv)
		return lightning.Payment{}, lightning.ErrNoAnswer
	}
	if l.refuses != "" {
		return lightning.Payment{}, &lightning.RefusedError{Method: "pay_invoice", Code: l.refuses}
	}
	if b.hold {
		b.sent = true
		l.wants++
		return lightning.Payment{}, lightning.ErrUnderWay
	}
	b.sent, b.failed, b.paid = true, l.fails, !l.fails && !l.stuck
	l.wants++
	if l.silent || l.stuck {
		return lightning.Payment{}, lightning.ErrNoAnswer
	}
	if l.fails {
		return lightning.Payment{}, &lightning.RefusedError{Method: "pay_invoice", Code: "PAYMENT_FAILED"}
	}
	return lightning.Payment{Preimage: b.preimage, Fees: 3}, nil
}

func (l *lightningWallet) Lookup(_ context.Context, hash guild.Hash) (t lightning.Transaction, err error) {
	err = l.line.call("lookup_invoice", func() error {
		t, err = l.lookup(hash)
		return err
	})
	return t, err
}

func (l *lightningWallet) lookup(hash guild.Hash) (lightning.Transaction, error) {
	b := l.find(hash)
	if b == nil || l.customer && (!b.sent || l.forgets) {
		return lightning.Transaction{}, &lightning.RefusedError{Method: "lookup_invoice", Code: lightning.NotFound}
	}
	t := lightning.Transaction{Outgoing: l.customer, Settled: b.paid, Failed: b.failed && (l.customer || b.hold), Amount: b.inv.Amount, Fees: 3}
	if b.paid && !(l.customer && l.mute) {
		t.Preimage = b.preimage
	}
	t.Accepted = b.hold && b.sent && !b.paid && !b.failed && !l.customer
	if l.vague && b.inv.Expired(l.now()) {
		t.Failed, t.Accepted = false, false
	}
	return t, nil
}

var ahead = fact.Settlement{How: prepaid, Unit: "sat", Most: 600}

// account returns what a party has on an account of the Lightning ledger, in msat.
func (p *party) account(name string) int64 {
	for _, b := range p.wallet.Fold().Balances() {
		if b.Asset == wallet.Lightning {
			return b.Accounts[name]
		}
	}
	return 0
}

func TestPrepaid(t *testing.T) {
	w := newWorld(t, ahead, 500)
	w.pump()
	if !w.provider.Funded(attempt) {
		t.Fatal("the provider does not begin")
	}
	if n := len(facts[fact.AttemptHeld](w, w.customer)); n != 1 {
		t.Errorf("held %d times", n)
	}
	w.judged(guild.Failure, guild.Strong)
	w.pump()
	w.over()
	released := facts[fact.AttemptReleased](w, w.customer)
	if len(released) != 1 || released[0].Amount != 500_000 || released[0].Rule != fact.RulePrepaid {
		t.Fatalf("released: %+v", released)
	}
	preimage, err := hex.DecodeString(released[0].Proof)
	if err != nil || sha256.Sum256(preimage) != w.lightning.bills[0].inv.PaymentHash {
		t.Errorf("the proof %s is not the preimage: %v", released[0].Proof, err)
	}
	if paid, held, fees, earned := w.customer.account(wallet.Paid), w.customer.account(wallet.Held), w.customer.account(wallet.Fees), w.provider.account(wallet.Earned); paid != 500_000 || held != 0 || fees != 3 || earned != -500_000 {
		t.Errorf("paid %d, held %d, fees %d, earned %d", paid, held, fees, earned)
	}
	w.want(10_000, 0, 0) // of ecash
	for who, want := range map[*party][]string{w.customer: {"issue done 10000 test", "pay done 500000 msat, fee 3"}, w.provider: {"earn done 500000 msat"}} {
		if got := who.history(t); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// history returns a line for each movement of a party's money.
func (p *party) history(t *testing.T) (lines []string) {
	t.Helper()
	for m, err := range p.wallet.History(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s %s %d %s", m.Kind, m.State, m.Amount, m.Unit)
		if m.Fee > 0 {
			line += fmt.Sprintf(", fee %d", m.Fee)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestPostpaid checks what a bill gets that comes with the delivery.
func TestPostpaid(t *testing.T) {
	for name, c := range map[string]struct {
		outcome  guild.Outcome
		strength guild.Strength
		approve  int64 // by a person; -1 for nobody
		paid     bool
		waits    bool
	}{
		"strong":                  {guild.Success, guild.Strong, -1, true, false},
		"mixed without a share":   {guild.Success, guild.Mixed, -1, false, false},
		"weak":                    {guild.Success, guild.Weak, -1, false, true},
		"weak, approved":          {guild.Success, guild.Weak, 500, true, false},
		"weak, not approved":      {guild.Success, guild.Weak, 0, false, false},
		"a part":                  {guild.Partial, guild.Strong, -1, false, true},
		"failure":                 {guild.Failure, guild.Strong, -1, false, false},
		"nothing that was tested": {guild.Success, guild.Unverified, -1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			after := ahead
			after.How = postpaid
			w := newWorld(t, after, 500)
			text := w.lightning.sign(bolt11.Invoice{Amount: 500_000, Expiry: time.Hour, Description: "x"}, nil)
			w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptDelivered{Attempt: attempt, Bill: &fact.Bill{Amount: 500_000, Invoice: text}})
			w.tries()
			if w.lightning.wants != 0 {
				t.Fatal("it was paid before the verdict")
			}
			w.judged(c.outcome, c.strength)
			w.tries()
			if c.approve >= 0 {
				if err := w.customer.Approve(t.Context(), attempt, 200); err == nil {
					t.Error("a part of an invoice was approved")
				}
				w.ok(w.customer.Approve(t.Context(), attempt, uint64(c.approve)))
				w.tries()
			}
			all := w.customer.Paying()
			if waiting := len(all) == 1 && all[0].Waits; waiting != c.waits || w.customer.Busy(attempt) {
				t.Errorf("open: %+v, busy %v", all, w.customer.Busy(attempt))
			}
			if paid := w.customer.account(wallet.Paid) == 500_000; paid != c.paid || paid != (w.lightning.wants == 1) {
				t.Errorf("paid: %v", paid)
			}
			held := facts[fact.AttemptHeld](w, w.customer)
			if freed := len(held) == 1 && held[0].Amount == 0; freed != (!c.paid && !c.waits) {
				t.Errorf("held: %+v", held)
			}
			if !c.waits && len(w.customer.fold.open()) > 0 {
				t.Errorf("not over: %+v", w.customer.fold.open())
			}
		})
	}
}

func TestUnpaidInvoices(t *testing.T) {
	for name, c := range map[string]struct {
		quote  func(*world, *fact.AttemptQuoted)
		reason string
	}{
		"a msat more than quoted": {func(_ *world, q *fact.AttemptQuoted) { q.Amount-- }, "and it wants"},
		"a msat less than quoted": {func(_ *world, q *fact.AttemptQuoted) { q.Amount++ }, "and it wants"},
		"no price":                {func(_ *world, q *fact.AttemptQuoted) { q.Amount = 0 }, "and it wants"},
		"over the bid":            {invoiced(601_000, nil), "the order bids 600 sat"},
		"a msat over the bid":     {invoiced(600_001, nil), "the order bids 600 sat"},
		"no amount":               {invoiced(0, nil), "names no amount"},
		"all there is":            {invoiced(21_000_000_00_000_000_000, nil), "the order bids"},
		"expired":                 {invoiced(500_000, func(i *bolt11.Invoice) { i.Created, i.Expiry = i.Created.Add(-time.Hour), time.Minute }), "expired"},
		"another network":         {invoiced(500_000, func(i *bolt11.Invoice) { i.Network = bolt11.Mainnet }), "network"},
		"no invoice":              {func(_ *world, q *fact.AttemptQuoted) { q.Invoice = "lnbc1qqq" }, "its invoice"},
		"a changed invoice":       {func(_ *world, q *fact.AttemptQuoted) { q.Invoice = strings.Replace(q.Invoice, "5", "6", 1) }, "its invoice"},
		"a frozen wallet":         {func(w *world, _ *fact.AttemptQuoted) { w.ok(w.customer.Freeze(w.Context(), true)) }, "frozen"},
		"over the budget": {func(w *world, _ *fact.AttemptQuoted) {
			w.ok(w.customer.SetBudget(w.Context(), fact.BudgetSet{Unit: "sat", Daily: 499}))
		}, "the day's budget"},
		"no wallet": {func(w *world, _ *fact.AttemptQuoted) { w.lightning = nil }, "no Lightning wallet"},
		"a hash that was there": {func(w *world, q *fact.AttemptQuoted) {
			other := nostr.ID{8}
			w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptPlanned{Attempt: other, Job: theJob, Provider: guild.Service{PubKey: w.provider.pubkey, D: "e"}})
			w.writes(w.customer, fact.Ledger, fact.PaymentReserved{Attempt: other, Job: theJob, Provider: w.provider.pubkey, Unit: "sat", Amount: 1, Invoice: q.Invoice, Msat: 500_000},
				fact.InvoiceUnpaid{Attempt: other, Reason: "a test", Msat: 500_000})
		}, "was already used"},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedWorld(t, ahead, 500, c.quote)
			for range 20 { // the provider asks its wallet without end
				w.step(w.customer)
			}
			refused := slices.DeleteFunc(facts[fact.AttemptRefused](w, w.customer), func(f fact.AttemptRefused) bool { return f.Attempt != attempt })
			if len(refused) != 1 || !strings.Contains(refused[0].Reason, c.reason) {
				t.Errorf("refused: %+v, want %q", refused, c.reason)
			}
			if w.lightning != nil && w.lightning.wants > 0 || w.customer.account(wallet.Paid) != 0 || w.customer.account(wallet.Held) != 0 {
				t.Error("it was paid")
			}
		})
	}
}

// invoiced replaces the quote by a consistent one over another amount.
func invoiced(amount guild.Msat, change func(*bolt11.Invoice)) func(*world, *fact.AttemptQuoted) {
	return func(w *world, q *fact.AttemptQuoted) {
		q.Invoice, q.Amount = w.lightning.sign(bolt11.Invoice{Amount: amount, Expiry: time.Hour, Description: "x"}, change), amount
	}
}

// TestWalletAnswers checks that money is free again only if it was surely not paid.
func TestWalletAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		wallet func(*network)
		later  func(*network) // what has become of it after an hour
		paid   bool
		freed  bool
	}{
		"it has too little":             {wallet: func(n *network) { n.refuses = "INSUFFICIENT_BALANCE" }, freed: true},
		"over its budget":               {wallet: func(n *network) { n.refuses = "QUOTA_EXCEEDED" }, freed: true},
		"it is busy until the end":      {wallet: func(n *network) { n.refuses = "RATE_LIMITED" }, freed: true},
		"it is busy at first":           {wallet: func(n *network) { n.refuses = "RATE_LIMITED" }, later: func(n *network) { n.refuses = "" }, freed: true},
		"it pays and does not answer":   {wallet: func(n *network) { n.silent = true }, paid: true},
		"it fails":                      {wallet: func(n *network) { n.fails = true }, freed: true},
		"it is stuck":                   {wallet: func(n *network) { n.stuck = true }},
		"it was stuck, and has paid":    {wallet: func(n *network) { n.stuck = true }, later: func(n *network) { n.bills[0].paid = true }, paid: true},
		"it was stuck, and has failed":  {wallet: func(n *network) { n.stuck = true }, later: func(n *network) { n.bills[0].failed = true }, freed: true},
		"it does not answer for a time": {wallet: func(n *network) { n.refuses = "INTERNAL" }, freed: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ahead, 500)
			c.wallet(w.lightning)
			w.tries()
			w.now = w.now.Add(time.Hour)
			if c.later != nil {
				c.later(w.lightning)
			}
			w.tries()
			held, paid := w.customer.account(wallet.Held), w.customer.account(wallet.Paid)
			if (paid == 500_000) != c.paid || (held == 0) != (c.paid || c.freed) {
				t.Errorf("paid %d, held %d", paid, held)
			}
			if w.lightning.wants > 1 {
				t.Errorf("ordered %d times", w.lightning.wants)
			}
			all := facts[fact.AttemptHeld](w, w.customer)
			if freed := all[len(all)-1].Amount == 0; freed != c.freed {
				t.Errorf("held: %+v", all)
			}
			if refused := facts[fact.AttemptRefused](w, w.customer); (len(refused) == 1) != c.freed {
				t.Errorf("refused: %+v", refused)
			}
			state := "open"
			if c.paid {
				state = "done"
			} else if c.freed {
				state = "failed"
			}
			if moved := w.customer.history(t); !strings.HasPrefix(moved[len(moved)-1], "pay "+state+" 500000 msat") {
				t.Errorf("%q, want one that is %s", moved, state)
			}
		})
	}
}

// TestEndedBeforePaid checks that an attempt that has ended is not paid any more, unless the wallet has begun.
func TestEndedBeforePaid(t *testing.T) {
	for name, c := range map[string]struct {
		steps int // of the customer before the end
		stuck bool
		paid  bool
	}{
		"before the reserve":     {0, false, false},
		"before it is held":      {1, false, false},
		"before the order":       {2, false, false},
		"while the wallet tries": {3, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ahead, 500)
			w.lightning.stuck = c.stuck
			for range c.steps {
				for _, work := range w.customer.Due(w.now) {
					if decide, err := work.Act(t.Context()); err == nil {
						w.ok(w.customer.journal.Do(t.Context(), work.Guard, work.Key, decide))
					}
				}
			}
			w.ends(fact.AttemptExpired{Attempt: attempt, Reason: "silence"})
			w.tries()
			if c.stuck {
				w.lightning.bills[0].paid = true
			}
			w.now = w.now.Add(time.Hour)
			w.tries()
			if paid := w.customer.account(wallet.Paid) > 0; paid != c.paid || w.customer.account(wallet.Held) != 0 || len(w.customer.fold.open()) != 0 {
				t.Errorf("paid %v, held %d, open %+v", paid, w.customer.account(wallet.Held), w.customer.fold.open())
			}
		})
	}
}

// delivers ends an attempt with a bill of 500 sat and a verdict.
func (w *world) delivers(id nostr.ID, outcome guild.Outcome) {
	w.Helper()
	text := w.lightning.sign(bolt11.Invoice{Amount: 500_000, Expiry: time.Hour, Description: "x"}, nil)
	w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptDelivered{Attempt: id, Bill: &fact.Bill{Amount: 500_000, Invoice: text}},
		fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: outcome, Strength: guild.Strong}})
}

// TestStalledBill checks that a bill that cannot be paid at the verdict waits for a person, until its invoice expires.
func TestStalledBill(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*world)
		paid bool
	}{
		"it is approved": {func(w *world) {
			w.ok(w.customer.Freeze(w.Context(), false))
			w.ok(w.customer.Approve(w.Context(), attempt, 500))
		}, true},
		"it is not approved":  {func(w *world) { w.ok(w.customer.Approve(w.Context(), attempt, 0)) }, false},
		"the invoice expires": {func(w *world) { w.now = w.now.Add(2 * time.Hour) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			after := ahead
			after.How = postpaid
			w := newWorld(t, after, 500)
			w.ok(w.customer.Freeze(t.Context(), true))
			w.delivers(attempt, guild.Success)
			w.tries()
			all := w.customer.Paying()
			if len(all) != 1 || !all[0].Waits || !strings.Contains(all[0].State, "frozen") || w.customer.Busy(attempt) {
				t.Fatalf("open: %+v", all)
			}
			c.then(w)
			w.tries()
			if paid := w.customer.account(wallet.Paid) > 0; paid != c.paid || len(w.customer.fold.open()) > 0 {
				t.Errorf("paid %v, open %+v", paid, w.customer.fold.open())
			}
		})
	}
}

// TestOtherWallet checks that nothing is decided for a payment whose wallet is not connected any more, but by a person.
func TestOtherWallet(t *testing.T) {
	w := newWorld(t, ahead, 500)
	w.lightning.stuck = true
	w.tries()
	if !w.customer.fold.Ordered() {
		t.Error("the wallet may be replaced")
	}
	w.lightning.other, w.now = true, w.now.Add(48*time.Hour)
	w.tries()
	all := w.customer.Paying()
	if held := w.customer.account(wallet.Held); held != 500_000 || len(all) != 1 || !all[0].Waits {
		t.Fatalf("held %d, open %+v", held, all)
	}
	if err := w.customer.Approve(t.Context(), attempt, 500); err == nil {
		t.Error("it was said to be paid without a proof")
	}
	w.ok(w.customer.Approve(t.Context(), attempt, 0))
	w.tries()
	if held := w.customer.account(wallet.Held); held != 0 {
		t.Errorf("%d are held", held)
	}
}

// TestOrdersOfEarlierVersions reads a fact as it was written when the only wallets were those of NIP-47.
func TestOrdersOfEarlierVersions(t *testing.T) {
	order := `{"kind":23194,"created_at":1700000000,"tags":[["p","x"],["expiration","1700000300"]],"content":"?"}`
	for name, c := range map[string]struct {
		fact string
		end  time.Time
	}{
		"earlier":            {`{"invoice":"lnbc1","order":` + order + `}`, time.Unix(1700000300, 0)},
		"earlier, endless":   {`{"invoice":"lnbc1","order":{"kind":23194,"tags":[]}}`, time.Time{}},
		"of any wallet":      {`{"invoice":"lnbc1","order":{"node":"02"},"order_ends_ms":1700000300500}`, time.UnixMilli(1700000300500)},
		"not over Lightning": {`{"op":"x"}`, time.Time{}},
	} {
		var r fact.PaymentReserved
		if err := json.Unmarshal([]byte(c.fact), &r); err != nil {
			t.Fatal(name, err)
		}
		o := orderOf(r)
		if !o.Expires.Equal(c.end) || !bytes.Equal(o.Content, r.Order) {
			t.Errorf("%s: %s until %v, want %v", name, o.Content, o.Expires, c.end)
		}
		if end := c.end.Add(2 * time.Minute); o.Expired(end) || o.Expired(end.Add(time.Second)) == c.end.IsZero() {
			t.Errorf("%s: it has expired too early, or never does", name)
		}
	}
}

// TestJobBudgetOutlivesJob checks that what a job has used is known for bills that are due when it is closed.
func TestJobBudgetOutlivesJob(t *testing.T) {
	after := ahead
	after.How = postpaid
	w := newWorld(t, after, 500)
	w.ok(w.customer.SetBudget(t.Context(), fact.BudgetSet{Unit: "sat", Job: 700}))
	other := nostr.ID{8}
	w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptPlanned{Attempt: other, Job: theJob, Provider: guild.Service{PubKey: w.provider.pubkey, D: "e"}})
	w.delivers(attempt, guild.Success)
	w.delivers(other, guild.Success)
	w.writes(w.customer, fact.JobSubject(theJob), fact.JobClosed{Job: theJob, Ending: guild.JobAccepted})
	w.tries()
	if paid := w.customer.account(wallet.Paid); paid != 500_000 {
		t.Errorf("paid %d", paid)
	}
	if all := w.customer.Paying(); len(all) != 1 || !strings.Contains(all[0].State, "the budget of a job: 700 sat, of which 500 sat are used") {
		t.Errorf("open: %+v", all)
	}
	w.now = w.now.Add(2 * time.Hour)
	w.tries()
	w.customer.fold.View(func(s *state) {
		if _, ok := s.Orders.Get(theJob); ok {
			t.Error("the order is kept for ever")
		}
	})
}

// tries does what is due at the customer, again and again, as its errors and the wallet's silence make it.
func (w *world) tries() { w.Helper(); w.triesOf(w.customer) }

// triesOf is tries for one party.
func (w *world) triesOf(p *party) {
	w.Helper()
	for range 20 {
		w.now = w.now.Add(3 * time.Second)
		for _, work := range p.Due(w.now) {
			if work.Ready.After(w.now) {
				continue
			}
			if decide, err := work.Act(w.Context()); err == nil {
				w.ok(p.journal.Do(w.Context(), work.Guard, work.Key, decide))
			}
			w.ok(p.wallet.Fold().Check())
		}
	}
}

func TestQuoteAheadOfTheWork(t *testing.T) {
	w := newWorld(t, ahead, 500)
	for _, c := range []struct {
		unit           string
		ahead          bool
		terms, invoice bool
	}{
		{unit: "sat", ahead: true, invoice: true},
		{unit: "sat", invoice: true},
		{unit: "test", terms: true},
		{unit: "test", ahead: true, terms: true},
	} {
		terms, invoice, err := w.provider.Quote(t.Context(), fact.RequestReceived{Request: nostr.ID{8}, Deadline: w.now.Add(time.Hour).UnixMilli()}, w.now.Add(10*time.Minute), 500, c.unit, c.ahead)
		if (terms != "") != c.terms || (invoice != "") != c.invoice || (err == nil) != (c.terms || c.invoice) {
			t.Errorf("%+v: %q, %q, %v", c, terms, invoice, err)
		}
	}
}

func TestKillWithAnInvoice(t *testing.T) {
	killAtEveryPoint(t, 16, func(t *testing.T, at string) []string {
		w := newWorld(t, ahead, 500)
		w.at, w.points = at, nil
		w.pump()
		w.judged(guild.Success, guild.Strong)
		w.pump()
		w.over()
		if w.at != "" {
			t.Errorf("nobody died at %q", at)
		}
		if paid, earned := w.customer.account(wallet.Paid), w.provider.account(wallet.Earned); paid != 500_000 || earned != -500_000 || w.lightning.wants != 1 {
			t.Errorf("paid %d, earned %d, ordered %d times", paid, earned, w.lightning.wants)
		}
		return w.points
	})
}
