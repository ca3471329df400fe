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
	"guild/bitcoin"
	"guild/internal/hand/bitcoind"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// bitcoinWallet is the wallet of a party, during whose calls the party may die.
type bitcoinWallet struct {
	*bitcoind.Wallet
	line *world
}

func (b *bitcoinWallet) Received(ctx context.Context, address string) (all []bitcoind.Payment, err error) {
	err = b.line.call("listreceivedbyaddress", func() error { all, err = b.Wallet.Received(ctx, address); return err })
	return all, err
}

func (b *bitcoinWallet) Prepare(ctx context.Context, address string, amount, mostFee int64) (o bitcoind.Order, err error) {
	err = b.line.call("signrawtransaction", func() error { o, err = b.Wallet.Prepare(ctx, address, amount, mostFee); return err })
	return o, err
}

func (b *bitcoinWallet) Send(ctx context.Context, o bitcoind.Order) error {
	return b.line.call("sendrawtransaction", func() error { return b.Wallet.Send(ctx, o) })
}

func (b *bitcoinWallet) Sent(ctx context.Context, o bitcoind.Order) (p bitcoind.Payment, known bool, err error) {
	err = b.line.call("gettransaction", func() error { p, known, err = b.Wallet.Sent(ctx, o); return err })
	return p, known, err
}

func (b *bitcoinWallet) Included(ctx context.Context, t bitcoin.Transaction, block string) (in bitcoin.Inclusion, err error) {
	err = b.line.call("getblock", func() error { in, err = b.Wallet.Included(ctx, t, block); return err })
	return in, err
}

// quoteOnchain has the provider quote a payment on the chain, and the customer hear of it.
func (w *world) quoteOnchain(deadline time.Time, price uint64) {
	w.Helper()
	uri, err := w.provider.Address(w.Context(), attempt, deadline, price, "sat")
	w.ok(err)
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestQuoted{
		Request: attempt, Customer: w.customer.pubkey, Deadline: deadline.UnixMilli(), Bitcoin: uri, Until: deadline.UnixMilli(),
	})
	quoted := fact.AttemptQuoted{Attempt: attempt, Bitcoin: uri, Amount: msats("sat", price), Event: nostr.ID{9}}
	if w.quote != nil {
		w.quote(w, &quoted)
	}
	w.writes(w.customer, fact.JobSubject(theJob), quoted)
}

// onTheChain is an order that is paid on the chain.
var onTheChain = fact.Settlement{How: onchain, Unit: "sat", Most: 6000}

const coinPrice = 5000

// chained returns what a party has on an account of the chain's ledger, in sat.
func (p *party) chained(name string) int64 {
	for _, b := range p.wallet.Fold().Balances() {
		if b.Asset == wallet.Chain {
			return b.Accounts[name]
		}
	}
	return 0
}

// mines makes blocks, and lets both look at them.
func (w *world) mines(blocks int) {
	w.Helper()
	w.chain.Mine(blocks)
	w.looks()
}

// looks lets time pass until both have looked at the chain.
func (w *world) looks() {
	w.Helper()
	for range 2 {
		w.later(2 * time.Minute)
	}
}

// address returns the one that the provider has named.
func (w *world) address() string {
	w.Helper()
	u, err := bitcoin.ParseURI(facts[fact.RequestQuoted](w, w.provider)[0].Bitcoin)
	w.ok(err)
	return u.Address
}

func TestOnchain(t *testing.T) {
	w := newWorld(t, onTheChain, coinPrice)
	w.pump()
	if w.provider.Funded(attempt) || len(w.chain.Waiting()) != 1 {
		t.Fatalf("before a block has it: funded %v, %d sent", w.provider.Funded(attempt), len(w.chain.Waiting()))
	}
	reserved := facts[fact.PaymentReserved](w, w.customer)
	if len(reserved) != 1 || reserved[0].Amount != coinPrice+reserved[0].Fee || w.customer.chained(wallet.Held) != int64(reserved[0].Amount) {
		t.Fatalf("reserved %+v, held %d", reserved, w.customer.chained(wallet.Held))
	}
	w.looks()
	if owed := w.provider.Owed(); len(owed) != 1 || owed[0].Amount != coinPrice || owed[0].State != "0 of 3 confirmations" {
		t.Errorf("owed: %+v", owed)
	}
	w.mines(2)
	if w.provider.Funded(attempt) || len(facts[fact.PaymentMined](w, w.customer)) > 0 {
		t.Fatal("two confirmations do")
	}
	w.mines(1)
	if !w.provider.Funded(attempt) {
		t.Fatal("the provider does not begin")
	}
	w.judged(guild.Failure, guild.Strong)
	w.pump()
	released := facts[fact.AttemptReleased](w, w.customer)
	mined := facts[fact.PaymentMined](w, w.customer)
	if len(released) != 1 || len(mined) != 1 || released[0].Amount != coinPrice*1000 || released[0].Rule != fact.RulePrepaid || released[0].Proof != mined[0].TxID {
		t.Fatalf("released: %+v, mined: %+v", released, mined)
	}
	raw, err := hex.DecodeString(mined[0].Raw)
	w.ok(err)
	paid, err := bitcoin.ParseTransaction(raw)
	w.ok(err)
	script, _, err := bitcoin.Script(w.address())
	w.ok(err)
	if n, ok := paid.Pays(script, coinPrice); !ok || n != mined[0].N || paid.ID != mined[0].TxID {
		t.Errorf("the output %d of %s does not pay", mined[0].N, paid.ID)
	}
	if block, err := mined[0].Inclusion.Check(paid); err != nil || block != mined[0].Block {
		t.Errorf("in the block %s: %v", block, err)
	}
	held := facts[fact.AttemptHeld](w, w.customer)
	if len(held) != 1 || held[0].Rail != "onchain" || held[0].Asset != "BTC_CHAIN" || held[0].Until < w.now.UnixMilli() {
		t.Errorf("held: %+v", held)
	}
	w.settles(1, coinPrice)
	if open := w.customer.fold.open(); len(open) > 0 {
		t.Errorf("open: %+v", open)
	}
	w.later(2 * late)
	w.over()
	if lines := w.provider.history(t); !slices.Equal(lines, []string{"earn done 5000 sat"}) {
		t.Errorf("history: %q", lines)
	}
	w.want(10_000, 0, 0) // of ecash
}

// settles checks what was paid and earned in the end.
func (w *world) settles(transactions int, earned int64) {
	w.Helper()
	if held, paid, got := w.customer.chained(wallet.Held), w.customer.chained(wallet.Paid), w.provider.chained(wallet.Earned); held != 0 || paid != coinPrice || got != -earned {
		w.Errorf("held %d, paid %d, earned %d", held, paid, got)
	}
	if n := len(facts[fact.PaymentReserved](w, w.customer)); n != transactions {
		w.Errorf("%d transactions were made", n)
	}
}

func TestUnpaidOnchain(t *testing.T) {
	asks := func(change func(*bitcoin.URI)) func(*world, *fact.AttemptQuoted) {
		return func(w *world, q *fact.AttemptQuoted) {
			u, err := bitcoin.ParseURI(q.Bitcoin)
			w.ok(err)
			change(&u)
			q.Bitcoin = u.String()
		}
	}
	for name, c := range map[string]struct {
		quote  func(*world, *fact.AttemptQuoted)
		reason string
	}{
		"a satoshi more than quoted": {asks(func(u *bitcoin.URI) { u.Satoshis++ }), "and it wants"},
		"a satoshi less than quoted": {asks(func(u *bitcoin.URI) { u.Satoshis-- }), "and it wants"},
		"a msat more than the URI":   {func(_ *world, q *fact.AttemptQuoted) { q.Amount++ }, "and it wants"},
		"over the bid": {func(w *world, q *fact.AttemptQuoted) {
			asks(func(u *bitcoin.URI) { u.Satoshis = 6001 })(w, q)
			q.Amount = 6_001_000
		}, "the order bids 6000 sat"},
		"dust": {func(w *world, q *fact.AttemptQuoted) {
			asks(func(u *bitcoin.URI) { u.Satoshis = 545 })(w, q)
			q.Amount = 545_000
		}, "no less than 546"},
		"another network": {asks(func(u *bitcoin.URI) { u.Address = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4" }), "on the network"},
		"no address":      {func(_ *world, q *fact.AttemptQuoted) { q.Bitcoin = "bitcoin:nobody?amount=0.00005" }, "its payment on the chain"},
		"too many blocks": {asks(func(u *bitcoin.URI) { u.Confirmations = 7 }), "wants 7 confirmations, which can take 2h20m0s"},
		"a frozen wallet": {func(w *world, _ *fact.AttemptQuoted) { w.ok(w.customer.Freeze(w.Context(), true)) }, "frozen"},
		"no wallet":       {func(w *world, _ *fact.AttemptQuoted) { w.customer.bitcoin = nil }, "no Bitcoin wallet"},
		"a locked wallet": {func(w *world, _ *fact.AttemptQuoted) { w.customer.purse.Lock(true) }, "unlock it"},
		"over the budget": {func(w *world, _ *fact.AttemptQuoted) {
			w.ok(w.customer.SetBudget(w.Context(), fact.BudgetSet{Unit: "sat", Daily: coinPrice - 1}))
		}, "the day's budget"},
		"over the budget with the fee": {func(w *world, _ *fact.AttemptQuoted) {
			w.ok(w.customer.SetBudget(w.Context(), fact.BudgetSet{Unit: "sat", Daily: coinPrice}))
		}, "the day's budget"},
		"an address that was there": {func(w *world, q *fact.AttemptQuoted) {
			w.writes(w.customer, fact.Ledger, fact.PaymentReserved{Attempt: nostr.ID{8}, Job: theJob, Provider: w.provider.pubkey, Unit: "sat", Amount: 1, Bitcoin: q.Bitcoin},
				fact.CoinsUnpaid{Attempt: nostr.ID{8}, Reason: "a test", Amount: 1})
		}, "was already used"},
		"our own address": {func(w *world, q *fact.AttemptQuoted) {
			w.writes(w.customer, fact.RequestSubject(nostr.ID{8}), fact.RequestQuoted{Request: nostr.ID{8}, Customer: w.provider.pubkey, Bitcoin: q.Bitcoin})
		}, "the one of the request"},
		"fewer coins than that": {func(w *world, q *fact.AttemptQuoted) {
			for range 4 {
				_, err := w.customer.bitcoin.Prepare(w.Context(), w.address(), 900_000, 100_000)
				w.ok(err)
			}
		}, "too little"},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedWorld(t, onTheChain, coinPrice, c.quote)
			for range 20 {
				w.step(w.customer)
			}
			refused := facts[fact.AttemptRefused](w, w.customer)
			if len(refused) != 1 || !strings.Contains(refused[0].Reason, c.reason) {
				t.Errorf("refused: %+v, want %q", refused, c.reason)
			}
			if n := len(w.chain.Waiting()); n > 0 || w.customer.chained(wallet.Held) != 0 {
				t.Errorf("%d transactions were sent", n)
			}
		})
	}
}

// TestOnchainAsks checks that the owner is asked about a price that is over the limit with the largest fee.
func TestOnchainAsks(t *testing.T) {
	w := changedWorld(t, onTheChain, coinPrice, func(w *world, _ *fact.AttemptQuoted) {
		w.ok(w.customer.SetBudget(w.Context(), fact.BudgetSet{Unit: "sat", AskOver: coinPrice + 500}))
	})
	w.pump()
	if n := len(facts[fact.AttemptDeferred](w, w.customer)); n != 1 || len(w.chain.Waiting()) > 0 {
		t.Fatalf("asked %d times, sent %d", n, len(w.chain.Waiting()))
	}
	w.ok(w.customer.Approve(t.Context(), attempt, coinPrice))
	w.looks()
	w.mines(3)
	if !w.provider.Funded(attempt) {
		t.Error("the provider does not begin")
	}
}

func TestProviderRefusesOnchain(t *testing.T) {
	w := newWorld(t, onTheChain, coinPrice)
	for name, c := range map[string]struct {
		price uint64
		left  time.Duration
		words string
	}{
		"a near deadline": {coinPrice, time.Hour - time.Second, "3 confirmations, which can take 1h0m0s"},
		"dust":            {545, 2 * time.Hour, "no less than 546"},
	} {
		_, err := w.provider.Address(t.Context(), nostr.ID{6}, w.now.Add(c.left), c.price, "sat")
		if drop, ok := errors.AsType[*guild.DropError](err); !ok || !strings.Contains(drop.Detail, c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWrongCoins checks that the provider works for nothing but one payment of exactly the price, and books all that comes.
func TestWrongCoins(t *testing.T) {
	for name, c := range map[string]struct {
		pays   [][]int64 // by transaction
		earned int64
		funded bool
	}{
		"a satoshi too little": {[][]int64{{coinPrice - 1}}, coinPrice - 1, false},
		"a satoshi too much":   {[][]int64{{coinPrice + 1}}, coinPrice + 1, false},
		"two halves":           {[][]int64{{coinPrice / 2}, {coinPrice / 2}}, coinPrice, false},
		"twice at once":        {[][]int64{{coinPrice, coinPrice}}, 2 * coinPrice, false},
		"twice":                {[][]int64{{coinPrice}, {coinPrice}}, 2 * coinPrice, true},
		"something beside":     {[][]int64{{600}, {coinPrice}}, coinPrice + 600, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := changedWorld(t, onTheChain, coinPrice, func(w *world, _ *fact.AttemptQuoted) { w.customer.bitcoin = nil })
			for _, amounts := range c.pays {
				w.chain.Pay(w.address(), amounts...)
			}
			w.mines(3)
			if w.provider.Funded(attempt) != c.funded || w.provider.chained(wallet.Earned) != -c.earned {
				t.Errorf("funded %v, earned %d", w.provider.Funded(attempt), w.provider.chained(wallet.Earned))
			}
			exact := slices.DeleteFunc(facts[fact.CoinsReceived](w, w.provider), func(r fact.CoinsReceived) bool { return !r.Exact })
			if (len(exact) == 1) != c.funded {
				t.Errorf("%d claims", len(exact))
			}
		})
	}
}

// TestLateCoins checks that what comes after the provider gave up is booked, and nothing is done for it.
func TestLateCoins(t *testing.T) {
	w := changedWorld(t, onTheChain, coinPrice, func(w *world, _ *fact.AttemptQuoted) { w.customer.bitcoin = nil })
	w.later(2 * time.Hour)
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: "failed"})
	w.later(late - 2*time.Hour)
	w.chain.Pay(w.address(), coinPrice)
	w.later(2 * late) // a transaction that waits is waited for
	w.chain.Mine(3)
	w.later(time.Hour)
	w.later(time.Hour)
	if got := facts[fact.CoinsReceived](w, w.provider); len(got) != 1 || got[0].Exact || w.provider.chained(wallet.Earned) != -coinPrice {
		t.Errorf("received: %+v", got)
	}
	if locks := w.provider.fold.locks(); len(locks) > 0 || len(facts[fact.AddressClosed](w, w.provider)) != 1 {
		t.Errorf("not over: %+v", locks)
	}
}

func TestNothingOnchain(t *testing.T) {
	w := changedWorld(t, onTheChain, coinPrice, func(w *world, _ *fact.AttemptQuoted) { w.customer.bitcoin = nil })
	w.pump()
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: "failed"})
	w.later(2 * late)
	if len(facts[fact.LockExpired](w, w.provider)) != 1 || len(w.provider.fold.locks()) > 0 {
		t.Error("the address is not forgotten")
	}
}

// TestReorganised takes the payment out of the chain before and during the work.
func TestReorganised(t *testing.T) {
	for _, works := range []bool{false, true} {
		w := newWorld(t, onTheChain, coinPrice)
		w.pump()
		height := w.chain.Height()
		w.mines(3)
		if !w.provider.Funded(attempt) {
			t.Fatal("the provider does not begin")
		}
		w.chain.Reorganise(height, 4)
		w.looks()
		if w.provider.Funded(attempt) || w.provider.chained(wallet.Earned) != 0 {
			t.Error("money that is not in the chain is ours")
		}
		if owed := w.provider.Owed(); len(owed) != 1 || owed[0].State != "not in the chain any more" || owed[0].Amount != coinPrice {
			t.Errorf("owed: %+v", owed)
		}
		if works {
			w.judged(guild.Success, guild.Strong)
			w.pump()
		}
		w.mines(3)
		w.later(time.Hour) // after the work it looks more rarely
		if !w.provider.Funded(attempt) {
			t.Error("it is in the chain again, and not ours")
		}
		if !works {
			w.judged(guild.Success, guild.Strong)
			w.pump()
		}
		w.later(2 * late)
		w.settles(1, coinPrice)
		w.over()
	}
}

// TestConflict spends otherwise what the transaction spends: the money stays held until a person decides.
func TestConflict(t *testing.T) {
	for _, sent := range []bool{false, true} {
		w := newWorld(t, onTheChain, coinPrice)
		for len(facts[fact.AttemptHeld](w, w.customer)) == 0 {
			w.step(w.customer)
		}
		if sent {
			w.pump()
		}
		order, _, err := orderOfCoins(facts[fact.PaymentReserved](w, w.customer)[0])
		w.ok(err)
		w.chain.Conflict(order.Raw)
		w.looks()
		all := w.customer.Paying()
		if len(all) != 1 || !all[0].Waits || w.customer.chained(wallet.Held) == 0 || w.customer.Busy(attempt) {
			t.Fatalf("sent %v: %+v, held %d", sent, all, w.customer.chained(wallet.Held))
		}
		w.ends(fact.AttemptExpired{Attempt: attempt})
		w.looks()
		if err := w.customer.Approve(t.Context(), attempt, coinPrice); err == nil {
			t.Error("a person can pay it again")
		}
		w.ok(w.customer.Approve(t.Context(), attempt, 0))
		w.looks()
		if w.customer.chained(wallet.Held) != 0 || w.customer.chained(wallet.Paid) != 0 || len(w.customer.fold.open()) > 0 {
			t.Errorf("held %d, paid %d, open %+v", w.customer.chained(wallet.Held), w.customer.chained(wallet.Paid), w.customer.fold.open())
		}
	}
}

// TestEndedBeforeTheCoinsWereSent ends the attempt after each step of the customer: what was surely not sent costs nothing.
func TestEndedBeforeTheCoinsWereSent(t *testing.T) {
	for steps, sent := 0, false; !sent; steps++ {
		w := newWorld(t, onTheChain, coinPrice)
		for range steps {
			w.step(w.customer)
		}
		sent = len(w.chain.Waiting()) > 0
		before, err := w.customer.bitcoin.Balance(t.Context())
		w.ok(err)
		w.ends(fact.AttemptExpired{Attempt: attempt})
		w.looks()
		if !sent {
			after, err := w.customer.bitcoin.Balance(t.Context())
			w.ok(err)
			if w.customer.chained(wallet.Held) != 0 || after != 4_000_000 || len(w.customer.fold.open()) > 0 {
				t.Errorf("after %d steps: held %d, of %d sat %d are free", steps, w.customer.chained(wallet.Held), before, after)
			}
			continue
		}
		w.mines(3)
		if w.customer.chained(wallet.Paid) != coinPrice || len(facts[fact.AttemptReleased](w, w.customer)) != 1 {
			t.Errorf("after %d steps: paid %d", steps, w.customer.chained(wallet.Paid))
		}
		if steps > 20 {
			t.Fatal("it is never sent")
		}
	}
}

func TestKillOnchain(t *testing.T) {
	killAtEveryPoint(t, 20, func(t *testing.T, at string) []string {
		w := newWorld(t, onTheChain, coinPrice)
		w.at, w.points = at, nil
		w.pump()
		w.mines(1)
		w.mines(2)
		w.judged(guild.Success, guild.Strong)
		w.looks()
		if w.at != "" {
			t.Errorf("nobody died at %q", at)
		}
		w.settles(1, coinPrice)
		if len(w.chain.Waiting()) > 0 || len(facts[fact.PaymentMined](w, w.customer)) != 1 || len(facts[fact.AttemptReleased](w, w.customer)) != 1 {
			t.Errorf("%d wait, mined %d, released %d", len(w.chain.Waiting()), len(facts[fact.PaymentMined](w, w.customer)), len(facts[fact.AttemptReleased](w, w.customer)))
		}
		return w.points
	})
}
