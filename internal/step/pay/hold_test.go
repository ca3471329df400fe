package pay

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/dm"
	"guild/internal/hand/lightning"
	"guild/internal/hand/nwc/nwctest"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// withHold is an order whose payment is held over Lightning.
var withHold = fact.Settlement{How: escrow, Unit: "sat", Most: 600, Mixed: 50, Partial: 25}

func (l *lightningWallet) MakeHold(_ context.Context, h lightning.Hold) (text string, inv bolt11.Invoice, err error) {
	err = l.line.call("make_hold_invoice", func() error {
		if l.unable {
			return &lightning.RefusedError{Method: "make_hold_invoice", Code: lightning.NotImplemented}
		}
		b := l.find(h.Hash)
		if b == nil {
			l.signHold(h, nil)
			b = l.find(h.Hash)
		}
		text, inv = b.text, b.inv
		return nil
	})
	return text, inv, err
}

// signHold makes an invoice of the provider's wallet for a hash, changed as a test says.
func (n *network) signHold(h lightning.Hold, change func(*bolt11.Invoice)) string {
	inv := bolt11.Invoice{
		Network: bolt11.Regtest, Created: n.now().UTC(), PaymentHash: h.Hash, Amount: h.Amount, Description: h.Description, Expiry: h.Expiry, MinFinalCLTV: h.Blocks,
	}
	if change != nil {
		change(&inv)
	}
	text := nwctest.Sign(n.t, inv)
	inv, err := bolt11.Decode(text)
	if err != nil {
		n.t.Fatal(err)
	}
	n.bills = append(n.bills, bill{inv: inv, text: text, hold: true})
	return text
}

func (l *lightningWallet) Settle(_ context.Context, preimage [32]byte) error {
	return l.line.call("settle_hold_invoice", func() error {
		b := l.find(hashOf(preimage))
		switch {
		case b == nil || !b.sent || b.failed:
			return &lightning.RefusedError{Method: "settle_hold_invoice", Code: lightning.NotFound}
		case !b.paid:
			b.paid, b.preimage = true, preimage
		}
		return nil
	})
}

func (l *lightningWallet) Cancel(_ context.Context, hash guild.Hash) error {
	return l.line.call("cancel_hold_invoice", func() error {
		b := l.find(hash)
		switch {
		case l.gone:
			return lightning.ErrNoAnswer
		case b != nil && b.paid:
			return &lightning.RefusedError{Method: "cancel_hold_invoice", Code: "OTHER"}
		case b != nil && l.vague && !b.sent && !b.inv.Expired(l.now().Add(-time.Minute)):
			return lightning.ErrOpen
		case b != nil && l.vague && !b.sent: // it expires
		case b != nil:
			b.failed = true
		}
		return nil
	})
}

// passes lets some seconds pass, in which both ask their wallets.
func (w *world) passes() {
	w.Helper()
	for range 3 {
		w.later(3 * time.Second)
	}
}

// begins is a world whose provider's wallet holds the payment, so that the provider begins.
func begins(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, withHold, 500)
	w.passes()
	w.begun()
	return w
}

func (w *world) begun() {
	w.Helper()
	if !w.provider.Funded(attempt) {
		w.Fatal("the provider does not begin")
	}
	w.account(500_000, 0, 0)
	w.state("held")
}

// account checks the books of both, in msat.
func (w *world) account(held, paid, earned int64) {
	w.Helper()
	if h, p, e := w.customer.account(wallet.Held), w.customer.account(wallet.Paid), -w.provider.account(wallet.Earned); h != held || p != paid || e != earned {
		w.Errorf("held %d, paid %d, earned %d; want %d, %d and %d", h, p, e, held, paid, earned)
	}
}

// state checks how the money is listed at the customer, or that it is not.
func (w *world) state(want string) {
	w.Helper()
	var got string
	for _, o := range w.customer.Paying() {
		got = o.State
	}
	if got != want {
		w.Errorf("it is %q, want %q", got, want)
	}
}

// nothing checks that the customer has its money back, and a receipt's refund by some rule.
func (w *world) nothing(rule string) {
	w.Helper()
	w.account(0, 0, 0)
	w.over()
	refunds := facts[fact.AttemptRefunded](w, w.customer)
	if len(refunds) != 1 || refunds[0].Rule != rule || refunds[0].Proof != w.lightning.bills[0].text {
		w.Errorf("refunded: %+v, want one by %s", refunds, rule)
	}
	if b := w.lightning.bills[0]; b.paid || !b.failed {
		w.Errorf("the payment: %+v", b)
	}
}

func TestHeldAndTaken(t *testing.T) {
	w := begins(t)
	if all := w.provider.Owed(); len(all) != 1 || all[0].Amount != 500 || all[0].Unit != "sat" || all[0].State != "held" {
		t.Errorf("owed: %+v", all)
	}
	if w.lightning.bills[0].inv.MinFinalCLTV != 208 { // 26 hours are 156 blocks
		t.Errorf("held for %d blocks", w.lightning.bills[0].inv.MinFinalCLTV)
	}
	w.later(time.Hour)
	w.account(500_000, 0, 0)
	w.judged(guild.Success, guild.Strong)
	w.passes()
	w.later(time.Minute) // after an hour the wallet is asked each minute
	w.account(0, 500_000, 500_000)
	w.over()
	released := facts[fact.AttemptReleased](w, w.customer)
	if len(released) != 1 || released[0].Amount != 500_000 || released[0].Rule != ruleStrong {
		t.Fatalf("released: %+v", released)
	}
	preimage, err := hex.DecodeString(released[0].Proof)
	if err != nil || guild.Sum(preimage) != w.lightning.bills[0].inv.PaymentHash {
		t.Errorf("the proof %s is not the preimage: %v", released[0].Proof, err)
	}
	for who, want := range map[*party]string{w.customer: "pay done 500000 msat, fee 3", w.provider: "earn done 500000 msat"} {
		if got := who.history(t); got[len(got)-1] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if w.lightning.wants != 1 {
		t.Errorf("ordered %d times", w.lightning.wants)
	}
}

// TestNothingOfWhatIsHeld checks that a provider which gets nothing cannot take it: it would need the preimage.
func TestNothingOfWhatIsHeld(t *testing.T) {
	w := begins(t)
	w.judged(guild.Failure, guild.Strong)
	w.change = func(_ *party, m *dm.Message) {
		s, err := dm.DecodeSignatures(m.Content, dm.TypeRelease)
		if err != nil || s.Amount != 0 || s.Preimage != "" {
			t.Errorf("the provider is told: %+v, %v", s, err)
		}
	}
	w.passes()
	w.nothing(ruleNothing)
	l := w.provider.lightning()
	for _, guess := range [][32]byte{{}, {1}, w.provider.seed.Preimage(""), w.lightning.bills[0].preimage} {
		if err := l.Settle(t.Context(), guess); err == nil {
			t.Error("it was taken without the preimage")
		}
	}
}

// TestSharesOfWhatIsHeld checks that a part of what is held is for a person, who can only pay all or nothing.
func TestSharesOfWhatIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		outcome  guild.Outcome
		strength guild.Strength
		approve  int64 // -1 for nobody
		rule     string
	}{
		"mixed, approved":     {guild.Success, guild.Mixed, 500, rulePerson},
		"mixed, not approved": {guild.Success, guild.Mixed, 0, rulePerson},
		"weak, approved":      {guild.Success, guild.Weak, 500, rulePerson},
		"a part":              {guild.Partial, guild.Strong, -1, ruleForgotten},
	} {
		t.Run(name, func(t *testing.T) {
			w := begins(t)
			w.judged(c.outcome, c.strength)
			w.passes()
			w.state(waits)
			if w.customer.Busy(attempt) {
				t.Error("what waits for a person is no reason to wait")
			}
			w.account(500_000, 0, 0)
			if c.approve < 0 {
				w.later(26 * time.Hour)
				w.passes()
				w.nothing(c.rule)
				return
			}
			if err := w.customer.Approve(t.Context(), attempt, 250); err == nil || !strings.Contains(err.Error(), "whole") {
				t.Error("a part was approved:", err)
			}
			w.ok(w.customer.Approve(t.Context(), attempt, uint64(c.approve)))
			w.passes()
			if c.approve == 0 {
				w.nothing(c.rule)
				return
			}
			w.account(0, 500_000, 500_000)
			if released := facts[fact.AttemptReleased](w, w.customer); len(released) != 1 || released[0].Rule != c.rule {
				t.Errorf("released: %+v", released)
			}
		})
	}
}

// TestHeldUntilItEnds checks what becomes of a payment when one side does not play its part.
func TestHeldUntilItEnds(t *testing.T) {
	t.Run("the provider never delivers", func(t *testing.T) {
		w := begins(t)
		w.ends(fact.AttemptExpired{Attempt: attempt, Reason: "silence"})
		w.passes()
		w.nothing(ruleUndone)
	})
	t.Run("the provider gives up", func(t *testing.T) {
		w := begins(t)
		w.customer.deaf = true
		w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: failed})
		w.passes()
		w.account(0, 0, 0)
		held := facts[fact.AttemptHeld](w, w.customer)
		if last := held[len(held)-1]; last.Amount != 0 || len(w.provider.fold.locks()) != 0 {
			t.Errorf("held: %+v", held)
		}
	})
	t.Run("the provider is gone, and the blocks are over", func(t *testing.T) {
		w := begins(t)
		w.ends(fact.AttemptExpired{Attempt: attempt, Reason: "silence"})
		w.provider.deaf = true
		for range 20 {
			w.now = w.now.Add(2 * time.Hour)
			w.step(w.customer)
		}
		w.account(500_000, 0, 0)
		w.lightning.bills[0].failed = true
		w.tries()
		w.account(0, 0, 0)
		if refunds := facts[fact.AttemptRefunded](w, w.customer); len(refunds) != 1 || refunds[0].Rule != ruleUndone {
			t.Errorf("refunded: %+v", refunds)
		}
	})
	t.Run("the customer releases nothing until the locktime", func(t *testing.T) {
		w := begins(t)
		w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: delivered})
		w.provider.deaf = true // as if the customer said nothing
		w.later(26 * time.Hour)
		w.passes()
		if b := w.lightning.bills[0]; b.failed {
			t.Fatal("it was given back at the locktime, when a release may still be on its way")
		}
		w.later(hearing)
		if n := len(facts[fact.LockExpired](w, w.provider)); n != 1 || len(w.provider.fold.locks()) > 0 || !w.lightning.bills[0].failed {
			t.Errorf("it expired %d times: %+v", n, w.provider.fold.locks())
		}
	})
	t.Run("the provider does not take what was released", func(t *testing.T) {
		w := begins(t)
		w.provider.deaf = true
		w.judged(guild.Success, guild.Strong)
		w.passes()
		w.state("released")
		w.account(500_000, 0, 0)
		w.later(28 * time.Hour)
		w.passes()
		w.nothing(ruleUntaken)
	})
	t.Run("the attempt ends before the wallet has begun", func(t *testing.T) {
		w := newWorld(t, withHold, 500)
		w.step(w.customer) // reserved
		w.ends(fact.AttemptCancelled{Attempt: attempt})
		w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestCancelled{Request: attempt})
		w.passes()
		w.account(0, 0, 0)
		if w.over(); w.lightning.wants != 0 {
			t.Error("it was paid")
		}
	})
}

// Endings of requests that the tests write.
const (
	delivered = "delivered"
	failed    = "failed"
)

// holdOf changes the quote into one with another invoice for the customer's hash.
func holdOf(change func(h *lightning.Hold, inv *bolt11.Invoice)) func(*world, *fact.AttemptQuoted) {
	return func(w *world, q *fact.AttemptQuoted) {
		was := w.lightning.bills[0].inv
		h := lightning.Hold{Hash: was.PaymentHash, Amount: was.Amount, Description: was.Description, Expiry: was.Expiry, Blocks: was.MinFinalCLTV}
		w.lightning.bills = nil
		q.Invoice = w.lightning.signHold(h, func(inv *bolt11.Invoice) { change(&h, inv) })
	}
}

func TestUnheldInvoices(t *testing.T) {
	for name, c := range map[string]struct {
		quote  func(*world, *fact.AttemptQuoted)
		reason string
	}{
		"a hash of the provider's": {holdOf(func(_ *lightning.Hold, inv *bolt11.Invoice) { inv.PaymentHash = guild.Hash{3} }), "not for the payment hash"},
		"held for too long":        {holdOf(func(_ *lightning.Hold, inv *bolt11.Invoice) { inv.MinFinalCLTV = 217 }), "held for 217 blocks"},
		"held for ever":            {holdOf(func(_ *lightning.Hold, inv *bolt11.Invoice) { inv.MinFinalCLTV = 1 << 62 }), "blocks, and at most"},
		"a msat more":              {holdOf(func(_ *lightning.Hold, inv *bolt11.Invoice) { inv.Amount++ }), "and it wants"},
		"a msat less":              {holdOf(func(_ *lightning.Hold, inv *bolt11.Invoice) { inv.Amount-- }), "and it wants"},
		"another network":          {holdOf(func(_ *lightning.Hold, inv *bolt11.Invoice) { inv.Network = bolt11.Mainnet }), "network"},
		"expired": {holdOf(func(_ *lightning.Hold, inv *bolt11.Invoice) {
			inv.Created, inv.Expiry = inv.Created.Add(-time.Hour), time.Minute
		}), "expired"},
		"a wallet that holds nothing": {func(w *world, q *fact.AttemptQuoted) {
			q.Invoice = w.lightning.sign(bolt11.Invoice{Amount: 500_000, Expiry: time.Hour, Description: "x"}, nil)
		}, "its wallet cannot hold a payment until the verdict"},
		"over the budget": {func(w *world, _ *fact.AttemptQuoted) {
			w.ok(w.customer.SetBudget(w.Context(), fact.BudgetSet{Unit: "sat", Daily: 499}))
		}, "the day's budget"},
		"a frozen wallet": {func(w *world, _ *fact.AttemptQuoted) { w.ok(w.customer.Freeze(w.Context(), true)) }, "frozen"},
		"other words": {func(w *world, _ *fact.AttemptQuoted) {
			w.customer.seed = wallet.Seed{99, 31: 1}
			w.open(w.customer)
		}, "the wallet's words"},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedWorld(t, withHold, 500, c.quote)
			w.passes()
			refused := facts[fact.AttemptRefused](w, w.customer)
			if len(refused) != 1 || !strings.Contains(refused[0].Reason, c.reason) {
				t.Errorf("refused: %+v, want %q", refused, c.reason)
			}
			if w.account(0, 0, 0); w.lightning.wants > 0 {
				t.Error("it was paid")
			}
		})
	}
}

// TestQuotesToHold checks what a provider quotes to a customer that chose a payment hash.
func TestQuotesToHold(t *testing.T) {
	w := newWorld(t, withHold, 500)
	chosen := w.lightning.bills[0].inv.PaymentHash
	quote := func(request nostr.ID, hold guild.Hash, work time.Duration, ahead bool) (bolt11.Invoice, error) {
		_, invoice, err := w.provider.Quote(t.Context(), fact.RequestReceived{Request: request, Deadline: w.now.Add(work).UnixMilli(), Hold: hold}, w.now.Add(10*time.Minute), 500, "sat", ahead)
		if err != nil {
			return bolt11.Invoice{}, err
		}
		inv, err := bolt11.Decode(invoice)
		w.ok(err)
		return inv, nil
	}
	if inv, err := quote(attempt, chosen, time.Hour, false); err != nil || inv.PaymentHash != chosen || len(w.lightning.bills) != 1 {
		t.Error("the same quote again, as after a crash:", inv, err)
	}
	if inv, err := quote(nostr.ID{8}, chosen, time.Hour, false); err == nil {
		t.Error("one payment for two requests:", inv)
	}
	if inv, err := quote(nostr.ID{8}, guild.Hash{5}, 230*time.Hour, false); err == nil || !strings.Contains(err.Error(), "2040 blocks") {
		t.Error("held for too long:", inv, err)
	}
	if inv, err := quote(nostr.ID{8}, guild.Hash{5}, 220*time.Hour, false); err != nil || inv.MinFinalCLTV != 1960 {
		t.Error("a long job:", inv.MinFinalCLTV, err)
	}
	if inv, err := quote(nostr.ID{8}, guild.Hash{5}, time.Hour, true); err != nil || inv.PaymentHash == (guild.Hash{5}) {
		t.Error("of who has to pay ahead, nothing is held:", inv, err)
	}
	w.lightning.unable = true
	if inv, err := quote(nostr.ID{8}, guild.Hash{5}, time.Hour, false); err != nil || inv.PaymentHash == (guild.Hash{5}) {
		t.Error("a wallet that holds nothing:", inv, err)
	}
	ours := w.provider.NewHold("sat")
	w.writes(w.provider, fact.JobSubject(theJob), fact.JobOpened{Job: theJob, Task: "python", Settle: &withHold, Tries: 1},
		fact.AttemptPlanned{Attempt: nostr.ID{6}, Job: theJob, Hold: ours})
	w.lightning.unable = false
	if inv, err := quote(nostr.ID{8}, ours.Hash, time.Hour, false); err == nil {
		t.Error("a payment hash of the provider's own request:", inv)
	}
	if first, second := w.customer.NewHold("sat"), w.customer.NewHold("sat"); first.Hash == second.Hash || w.customer.NewHold("test") != nil {
		t.Error("a payment hash that was there, or of play money")
	}
}

// TestFalseReleases checks that a message takes nothing that does not fit what is held.
func TestFalseReleases(t *testing.T) {
	w := begins(t)
	preimage := w.customer.seed.Preimage(facts[fact.AttemptPlanned](w, w.customer)[0].Hold.Nonce)
	good := dm.Signatures{Type: dm.TypeRelease, Request: attempt, Amount: 500, Preimage: hex.EncodeToString(preimage[:])}
	for name, c := range map[string]struct {
		from   nostr.PubKey
		change func(*dm.Signatures)
	}{
		"another preimage": {w.customer.pubkey, func(s *dm.Signatures) { s.Preimage = strings.Repeat("00", 32) }},
		"none":             {w.customer.pubkey, func(s *dm.Signatures) { s.Preimage = "" }},
		"another request":  {w.customer.pubkey, func(s *dm.Signatures) { s.Request = nostr.ID{8} }},
		"a stranger":       {w.provider.pubkey, func(*dm.Signatures) {}},
	} {
		s := good
		c.change(&s)
		content, err := s.Encode()
		w.ok(err)
		err = w.provider.TakeRelease(t.Context(), dm.Message{From: c.from, Content: content})
		if _, dropped := errors.AsType[*guild.DropError](err); !dropped {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.passes()
	w.account(500_000, 0, 0)
	if n := len(facts[fact.LockReleased](w, w.provider)); n != 0 {
		t.Errorf("released %d times", n)
	}
}

// TestEcashBeforeHold checks that a mint which both use is preferred to a payment that is held.
func TestEcashBeforeHold(t *testing.T) {
	w := newWorld(t, usual, 500)
	if terms := facts[fact.AttemptQuoted](w, w.customer)[0].Terms; !w.customer.Locks(terms) {
		t.Error("the wallet has that mint")
	}
	if w.customer.Locks("") || w.customer.Locks("creqA") {
		t.Error("no terms name a mint of the wallet")
	}
	w = newWorld(t, withHold, 500)
	if !slices.ContainsFunc(w.customer.fold.open(), func(p payment) bool { return p.Holds && p.direct() }) {
		t.Error("without one it is paid over Lightning")
	}
}

// TestHashOfAnEarlierPayment checks that a payment hash buys work once: who has paid with it knows the preimage of it, and some wallets
// make a second invoice for it.
func TestHashOfAnEarlierPayment(t *testing.T) {
	w := begins(t)
	w.judged(guild.Success, guild.Strong)
	w.passes()
	w.over()
	hash := w.lightning.bills[0].inv.PaymentHash
	if _, invoice, err := w.provider.Quote(t.Context(), fact.RequestReceived{Request: nostr.ID{8}, Deadline: w.now.Add(time.Hour).UnixMilli(), Hold: hash}, w.now.Add(time.Minute), 500, "sat", false); err == nil {
		t.Error("a second invoice for it:", invoice)
	}
	// Two requests can be asked for a price at the same time.
	for _, request := range []nostr.ID{{8}, {9}} {
		w.writes(w.provider, fact.RequestSubject(request), fact.RequestQuoted{
			Request: request, Customer: w.customer.pubkey, Hold: guild.Hash{7}, Invoice: w.lightning.bills[0].text, Deadline: w.now.Add(time.Hour).UnixMilli(),
		})
	}
	first, _ := w.provider.fold.lock(nostr.ID{8})
	second, _ := w.provider.fold.lock(nostr.ID{9})
	if !first.holds() || second.holds() || second.Invoice != "" {
		t.Errorf("%+v\n%+v", first, second)
	}
}

// TestEcashAfterRelease checks that ecash which is checked late does not take the place of what was released.
func TestEcashAfterRelease(t *testing.T) {
	w := begins(t)
	w.writes(w.provider, fact.Ledger, fact.LockOffered{Request: attempt, Customer: w.customer.pubkey, Mint: "https://mint.example", Unit: "sat"})
	w.provider.deaf = true
	w.judged(guild.Success, guild.Strong)
	w.passes()
	preimage := w.customer.seed.Preimage(facts[fact.AttemptPlanned](w, w.customer)[0].Hold.Nonce)
	w.writes(w.provider, fact.Ledger, fact.LockReleased{Request: attempt, Amount: 500, Preimage: hex.EncodeToString(preimage[:])},
		fact.LockAccepted{Request: attempt, Amount: 500, Locktime: w.now.Add(time.Hour).Unix()})
	w.passes()
	if w.account(0, 500_000, 500_000); len(facts[fact.LockLost](w, w.provider)) != 0 {
		t.Error("it is lost")
	}
}

// TestWorkWithoutAHold checks that an invoice of which the work made no use is cancelled, and says nothing about the customer.
func TestWorkWithoutAHold(t *testing.T) {
	w := newWorld(t, withHold, 500)
	w.ends(fact.AttemptCancelled{Attempt: attempt})
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: delivered})
	w.passes()
	if n := len(facts[fact.LockExpired](w, w.provider)); n != 0 || len(w.provider.fold.locks()) != 0 || !w.lightning.bills[0].failed {
		t.Errorf("it expired %d times: %+v", n, w.provider.fold.locks())
	}
}

// TestBackBeforeTheRelease checks that a provider which could not be told is not said to have left its money.
func TestBackBeforeTheRelease(t *testing.T) {
	w := begins(t)
	w.lightning.bills[0].failed = true
	w.judged(guild.Success, guild.Strong)
	w.writes(w.customer, fact.Ledger, fact.PaymentDecided{Attempt: attempt, Amount: 500, Rule: ruleStrong},
		fact.InvoiceUnpaid{Attempt: attempt, Reason: "the payment failed", Msat: 500_000})
	w.step(w.customer)
	refunds := facts[fact.AttemptRefunded](w, w.customer)
	if w.account(0, 0, 0); len(refunds) != 1 || refunds[0].Rule != ruleBack {
		t.Errorf("refunded: %+v", refunds)
	}
}

// TestWalletThatIsGone checks that what no wallet can hold any more is forgotten, although nobody could cancel it.
func TestWalletThatIsGone(t *testing.T) {
	w := begins(t)
	w.lightning.gone = true
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: failed})
	w.now = w.now.Add(13 * 24 * time.Hour)
	w.triesOf(w.provider)
	if len(w.provider.fold.locks()) == 0 {
		t.Fatal("it is forgotten while it can be held")
	}
	w.now = w.now.Add(3 * 24 * time.Hour)
	w.triesOf(w.provider)
	if all := w.provider.fold.locks(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// wholeHold lives one payment that is held, and gets a verdict.
func wholeHold(outcome guild.Outcome) func(t *testing.T, at string) []string {
	return func(t *testing.T, at string) []string {
		t.Helper()
		w := newWorld(t, withHold, 500)
		w.at, w.points = at, nil
		w.passes()
		w.begun()
		w.judged(outcome, guild.Strong)
		w.passes()
		w.over()
		if w.at != "" {
			t.Errorf("nobody died at %q", at)
		}
		if w.lightning.wants != 1 || len(facts[fact.PaymentReserved](w, w.customer)) != 1 {
			t.Errorf("ordered %d times", w.lightning.wants)
		}
		if outcome == guild.Success {
			w.account(0, 500_000, 500_000)
		} else {
			w.nothing(ruleNothing)
		}
		return w.points
	}
}

func TestKillWithAHold(t *testing.T) {
	killAtEveryPoint(t, 30, wholeHold(guild.Success))
}

func TestKillWithAHoldForNothing(t *testing.T) {
	killAtEveryPoint(t, 30, wholeHold(guild.Failure))
}
