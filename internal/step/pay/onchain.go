package pay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"guild"
	"guild/bitcoin"
	"guild/internal/hand/bitcoind"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// onchain is the settlement before the work by a Bitcoin transaction.
const onchain = "onchain"

// Bitcoin is the owner's Bitcoin wallet, of the package bitcoind.
type Bitcoin interface {
	Network(ctx context.Context) (string, error)
	Confirmations() int
	Address(ctx context.Context, label string) (string, error)
	Received(ctx context.Context, address string) ([]bitcoind.Payment, error)
	Prepare(ctx context.Context, address string, amount, mostFee int64) (bitcoind.Order, error)
	Release(ctx context.Context, o bitcoind.Order) error
	Send(ctx context.Context, o bitcoind.Order) error
	Sent(ctx context.Context, o bitcoind.Order) (p bitcoind.Payment, known bool, err error)
	Included(ctx context.Context, t bitcoin.Transaction, block string) (bitcoin.Inclusion, error)
}

var errNoBitcoin = errors.New("no Bitcoin wallet is connected (guild wallet add bitcoind)")

// bitcoin returns the owner's Bitcoin wallet, or nil.
func (p *Pay) bitcoin() Bitcoin {
	if p.c.Bitcoin == nil {
		return nil
	}
	return p.c.Bitcoin()
}

// perBlock is the time in which a confirmation comes, with something to spare: blocks come every 10 minutes on average.
const perBlock = 20 * time.Minute

// confirming returns the time that a number of confirmations can take.
func confirming(confirmations int) time.Duration { return time.Duration(confirmations) * perBlock }

// mostFee returns the largest fee that is paid for a transaction over an amount, both in sat: a tenth, or what one of the usual size costs
// at 11 sat for a vbyte.
func mostFee(amount int64) int64 { return max(2500, amount/10) }

// pay pays before the work. The signed transaction is in the journal before anybody sees it, and whatever happens no other one is made for the attempt. It is first
// sent while the attempt waits for its provider; once the wallet knows it, it is sent again until a block has it.
func (p chain) pay(one payment, _ time.Time) []due.Work {
	if one.Bitcoin == "" {
		return nil
	}
	if work, open := p.unreserved(one, p.reserveCoins); open {
		return work
	}
	switch {
	case !one.Held && one.Over:
		return []due.Work{p.releaseCoins(one)}
	case !one.Held:
		held := fact.AttemptHeld{
			Attempt: one.Attempt, Rail: "onchain", Asset: "BTC_CHAIN", Amount: one.Price, Quote: one.Quote, Ahead: true, Until: one.Deadline,
		}
		return []due.Work{decide("hold money for "+one.Attempt.Hex(), fact.JobSubject(one.Job), func() bool {
			now, _ := p.fold.payment(one.Attempt)
			return now.Reserved != nil && !now.Held && !now.Over
		}, func() fact.Fact { return held })}
	case one.Mined == "":
		return []due.Work{p.payCoins(one)}
	case one.Over && !one.Noted:
		return []due.Work{p.note(one, fact.AttemptReleased{Attempt: one.Attempt, Amount: one.Price, Rule: one.by(fact.RulePrepaid), Proof: one.Mined})}
	}
	return nil
}

// inspectCoins returns what the quote of an attempt asks for, or why it is not paid on the chain.
func (s *state) inspectCoins(one payment, network string, now time.Time) (bitcoin.URI, error) {
	u, err := bitcoin.ParseURI(one.Bitcoin)
	if err != nil {
		return u, fmt.Errorf("its payment on the chain: %w", err)
	}
	_, of, err := bitcoin.Script(u.Address)
	used, ours := s.Addresses.Of(u.Address), s.ourAddress(u.Address)
	left := time.UnixMilli(one.Deadline).Sub(now)
	switch {
	case err != nil:
	case s.Frozen:
		err = errFrozen
	case !one.Order.InBitcoin():
		err = fmt.Errorf("wants bitcoin, and the order is in %q", one.Order.Unit)
	case network != "" && of != network:
		err = fmt.Errorf("its address is on the network %q, and the wallet is on %q", of, network)
	case guild.Msat(u.Satoshis)*1000 != one.Price:
		err = fmt.Errorf("asks for %d sat on the chain, and it wants %s", u.Satoshis, one.Price)
	case one.Price > msats(one.Order.Unit, one.Order.Most):
		err = fmt.Errorf("wants %s, and the order bids %d %s", one.Price, one.Order.Most, one.Order.Unit)
	case u.Satoshis < bitcoind.Dust:
		err = fmt.Errorf("wants %d sat, and the network carries no less than %d", u.Satoshis, bitcoind.Dust)
	case left < confirming(u.Confirmations)-perBlock/4: // the provider looked a little earlier
		err = fmt.Errorf("wants %d confirmations, which can take %s, and the deadline is in %s (guild hire --timeout)",
			u.Confirmations, confirming(u.Confirmations), left.Round(time.Second))
	case used != "" && used != one.Attempt.Hex():
		err = fmt.Errorf("its address was already used, for the attempt %.8s", used)
	case ours != "":
		err = fmt.Errorf("its address is the one of the request %.8s to us", ours)
	}
	return u, err
}

// ourAddress returns the open request that is paid to an address, or "".
func (s *state) ourAddress(address string) string {
	for request, l := range s.Locks.All() {
		if u, err := bitcoin.ParseURI(l.Bitcoin); err == nil && u.Address == address {
			return request
		}
	}
	return ""
}

// reserveCoins decides whether a quote is paid on the chain, and keeps the signed transaction before it is sent.
func (p *Pay) reserveCoins(one payment) due.Work {
	return due.Work{
		Key: "reserve money for " + one.Attempt.Hex(), Guard: fact.Ledger, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			w := p.bitcoin()
			if w == nil {
				return p.refused(one, errNoBitcoin), nil
			}
			network, err := w.Network(ctx)
			if err != nil {
				return nil, err
			}
			u, err := p.checkCoins(one, network, one.wants("sat", whole("sat", one.Price)), p.c.Now())
			if err != nil {
				return p.refused(one, err), nil
			}
			order, err := w.Prepare(ctx, u.Address, u.Satoshis, mostFee(u.Satoshis))
			if errors.Is(err, bitcoind.ErrFunds) || errors.Is(err, bitcoind.ErrFee) || errors.Is(err, bitcoind.ErrUnsigned) {
				return p.refused(one, err), nil
			}
			if err != nil {
				return nil, err
			}
			reserved := one.wants("sat", uint64(u.Satoshis+order.Fee))
			reserved.Fee, reserved.Bitcoin = uint64(order.Fee), one.Bitcoin
			if reserved.Order, err = json.Marshal(order); err != nil {
				return nil, err
			}
			if _, err := p.checkCoins(one, network, reserved, p.c.Now()); err != nil {
				return p.refused(one, errors.Join(err, w.Release(ctx, order))), nil
			}
			return func(tx *journal.Tx) error {
				now, ok := p.fold.payment(one.Attempt)
				if !ok || now.Reserved != nil || now.Refused != "" || now.Over || p.asks(now) > 0 {
					return nil
				}
				if _, err := p.checkCoins(one, network, reserved, tx.Now()); err != nil {
					return p.refused(one, err)(tx)
				}
				tx.Append(reserved)
				p.fresh.Store(one.Attempt, true)
				return nil
			}, nil
		},
	}
}

// checkCoins returns what a quote asks for, or why that is not paid with what is reserved for it.
func (p *Pay) checkCoins(one payment, network string, reserved fact.PaymentReserved, now time.Time) (u bitcoin.URI, err error) {
	p.fold.View(func(s *state) {
		if u, err = s.inspectCoins(one, network, now); err == nil {
			err = s.within(reserved, now.UnixMilli())
		}
	})
	return u, err
}

// orderOfCoins returns the transaction that is in the journal, and what it pays.
func orderOfCoins(r fact.PaymentReserved) (o bitcoind.Order, u bitcoin.URI, err error) {
	if err = json.Unmarshal(r.Order, &o); err == nil {
		u, err = bitcoin.ParseURI(r.Bitcoin)
	}
	return o, u, err
}

// releaseCoins frees what was reserved for a transaction that was not sent.
func (p *Pay) releaseCoins(one payment) due.Work {
	return due.Work{
		Key: "do not pay " + one.Attempt.Hex(), Guard: fact.Ledger, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			p.unlock(ctx, one)
			return func(tx *journal.Tx) error {
				if now, ok := p.fold.payment(one.Attempt); ok && !now.Held && now.Reserved != nil {
					tx.Append(fact.CoinsUnpaid{Attempt: one.Attempt, Reason: errOver.Error(), Amount: one.Reserved.Amount})
				}
				return nil
			}, nil
		},
	}
}

// unlock tells the wallet that it may spend what a transaction was to spend. If it does not hear that, its next restart unlocks it.
func (p *Pay) unlock(ctx context.Context, one payment) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	w := p.bitcoin()
	if o, _, err := orderOfCoins(*one.Reserved); err == nil && w != nil {
		_ = w.Release(ctx, o)
	}
}

// payCoins sends the transaction for an attempt, and again until it has the confirmations that are wanted.
func (p *Pay) payCoins(one payment) due.Work {
	return due.Work{
		Key: "pay on the chain for " + one.Attempt.Hex(), Guard: fact.Ledger, Free: true, Ready: p.pace.next(one.Attempt),
		Act: func(ctx context.Context) (due.Decision, error) {
			p.pace.asked(one.Attempt, p.c.Now())
			w := p.bitcoin()
			if w == nil {
				return nil, fmt.Errorf("pay on the chain for %.8s: %w", one.Attempt.Hex(), errNoBitcoin)
			}
			order, u, err := orderOfCoins(*one.Reserved)
			if err != nil {
				return nil, err
			}
			with, err := p.transfer(ctx, w, one, order, u)
			if err != nil {
				return nil, fmt.Errorf("pay on the chain for %.8s: %w", one.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				now, ok := p.fold.payment(one.Attempt)
				if !ok || now.Reserved == nil || now.Mined != "" {
					return nil
				}
				if doubt, ok := with.(fact.CoinsDoubted); ok && doubt.Reason == now.Doubt {
					return nil
				}
				tx.Append(with)
				return nil
			}, nil
		},
	}
}

// transfer has the transaction of an attempt sent, if it is not in a block, and returns what is known of it then. It is sent for the first
// time only while the attempt waits for the provider and its confirmations can come in time.
func (p *Pay) transfer(ctx context.Context, w Bitcoin, one payment, order bitcoind.Order, u bitcoin.URI) (fact.Fact, error) {
	doubt := fact.CoinsDoubted{Attempt: one.Attempt}
	seen, known, err := w.Sent(ctx, order)
	_, fresh := p.fresh.Load(one.Attempt)
	soon := time.UnixMilli(one.Deadline).Sub(p.c.Now()) < confirming(u.Confirmations)-perBlock/2
	switch {
	case errors.Is(err, bitcoind.ErrConflict):
		doubt.Reason = err.Error()
		return doubt, nil
	case err != nil:
		return nil, err
	case seen.Confirmations >= u.Confirmations:
		return p.mined(ctx, w, one, order, seen.Block)
	case seen.Confirmations > 0:
		return doubt, nil
	case !known && one.Over && fresh:
		p.unlock(ctx, one)
		return fact.CoinsUnpaid{Attempt: one.Attempt, Reason: errOver.Error(), Amount: one.Reserved.Amount}, nil
	case !known && one.Over:
		doubt.Reason = "the attempt has ended, and the wallet does not know whether it sent the transaction"
		return doubt, nil
	case !known && (p.fold.Frozen() || soon):
		return doubt, nil
	}
	p.fresh.Delete(one.Attempt)
	err = w.Send(ctx, order)
	if bitcoind.IsRejected(err) {
		doubt.Reason, err = guild.Cut(err.Error(), 500), nil
	}
	return doubt, err
}

// mined returns the fact that a block has the transaction, with what shows it.
func (p *Pay) mined(ctx context.Context, w Bitcoin, one payment, order bitcoind.Order, block string) (fact.Fact, error) {
	raw, err := hex.DecodeString(order.Raw)
	if err != nil {
		return nil, err
	}
	t, err := bitcoin.ParseTransaction(raw)
	if err != nil {
		return nil, err
	}
	in, err := w.Included(ctx, t, block)
	return fact.PaymentMined{
		Attempt: one.Attempt, TxID: order.ID, Raw: order.Raw, N: order.N, Block: block, Inclusion: in,
		Amount: one.Reserved.Amount - one.Reserved.Fee, Fee: one.Reserved.Fee,
	}, err
}

// approve decides about a transaction that is in doubt: that it never pays.
func (chain) approve(tx *journal.Tx, one payment, amount uint64) error {
	switch {
	case one.Reserved == nil || one.Doubt == "" || one.Mined != "":
		return fmt.Errorf("approve the payment for %.8s: %w", one.Attempt.Hex(), ErrNoPayment)
	case amount != 0:
		return fmt.Errorf("approve the payment for %.8s: its transaction was made; 0 says that it never pays", one.Attempt.Hex())
	}
	tx.Append(fact.CoinsUnpaid{Attempt: one.Attempt, Reason: "the owner says that it was not paid", Amount: one.Reserved.Amount})
	return nil
}

// applyToCoins applies the facts about payments on the chain.
func (s *state) applyToCoins(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.AttemptQuoted:
		s.edit(one.Attempt, func(p *payment) {
			if p.Order.How == onchain && p.Bitcoin == "" {
				p.Bitcoin, p.Price, p.Quote, p.QuotedAt = one.Bitcoin, one.Amount, one.Event, at
			}
		})
	case fact.PaymentReserved:
		if u, err := bitcoin.ParseURI(one.Bitcoin); err == nil {
			s.Addresses.Set(u.Address, one.Attempt.Hex())
		}
	case fact.PaymentMined:
		s.edit(one.Attempt, func(p *payment) { p.Mined, p.Doubt = one.TxID, "" })
		s.tidy(one.Attempt)
	case fact.CoinsDoubted:
		s.edit(one.Attempt, func(p *payment) { p.Doubt = one.Reason })
	case fact.CoinsUnpaid:
		s.edit(one.Attempt, func(p *payment) { s.forget(p, one.Reason) })
		s.tidy(one.Attempt)
	case fact.CoinsReceived:
		s.editLock(one.Request, func(l *lock) { l.receive(one) })
	case fact.CoinsLost:
		s.editLock(one.Request, func(l *lock) { l.lose(one) })
	case fact.AddressClosed:
		s.Locks.Delete(one.Request.Hex())
	}
}

// OnChain reports whether the owner's Bitcoin wallet is about to pay, or is watched for what customers pay.
func (f *Fold) OnChain() (open bool) {
	for _, p := range f.open() {
		open = open || p.Reserved != nil && p.Reserved.Bitcoin != "" && p.Mined == ""
	}
	for _, l := range f.locks() {
		open = open || l.Bitcoin != "" && !l.Over
	}
	return open
}
