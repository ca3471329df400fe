package pay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bitcoin"
	"guild/internal/hand/bitcoind"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// Address returns the URI by which a customer may pay for a request to us on the chain, before the work: to an address of the owner's
// wallet that is for this request alone. The error is a *guild.DropError if the customer should know its detail.
func (p *Pay) Address(ctx context.Context, request nostr.ID, deadline time.Time, amount uint64, unit string) (uri string, err error) {
	w := p.bitcoin()
	if w == nil || !inBitcoin(unit) {
		return "", errNoBitcoin
	}
	u := bitcoin.URI{Satoshis: int64(whole("sat", msats(unit, amount))), Confirmations: w.Confirmations()}
	left := deadline.Sub(p.c.Now())
	switch {
	case u.Satoshis < bitcoind.Dust || u.Satoshis > bitcoin.MaxSatoshis:
		return "", guild.Drop(guild.Malformed, "%d sat cannot be paid on the chain, which carries no less than %d", u.Satoshis, bitcoind.Dust)
	case left < confirming(u.Confirmations):
		return "", guild.Drop(guild.Late, "this provider wants %d confirmations, which can take %s, and the deadline is in %s",
			u.Confirmations, confirming(u.Confirmations), left.Round(time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if u.Address, err = w.Address(ctx, described(request)); err != nil {
		return "", err
	}
	return u.String(), nil
}

// output is money that was received at the address of a quote.
type output struct {
	TxID   string `json:"txid"`
	N      int    `json:"vout"`
	Amount uint64 `json:"amount"` // sat
	Exact  bool   `json:"exact"`  // it pays the price
}

// receive notes an output with the confirmations that we want.
func (l *lock) receive(one fact.CoinsReceived) {
	got := output{TxID: one.TxID, N: one.N, Amount: one.Amount, Exact: one.Exact}
	l.Received = append(slices.Clip(l.Received), got)
	if one.Exact {
		l.Settled, l.Claimed = true, &got
	}
}

// lose notes that the block of an output is not in the chain any more.
func (l *lock) lose(one fact.CoinsLost) {
	l.Received = slices.DeleteFunc(slices.Clone(l.Received), func(o output) bool { return o.TxID == one.TxID && o.N == one.N })
	if c := l.Claimed; c != nil && c.TxID == one.TxID && c.N == one.N {
		l.Settled = false
	}
}

// mempool is the time after which a node forgets a transaction that no block takes.
const mempool = 14 * 24 * time.Hour

// watched is the time between two looks at an address once we do nothing more for its request.
const watched = 10 * time.Minute

func (p chain) receive(one lock) []due.Work { return []due.Work{p.watch(one)} }

// watch looks at the address of a quote: for the payment, until the work is over for its loss, and for a while for what comes late.
func (p *Pay) watch(one lock) due.Work {
	ready := p.pace.next(one.Request)
	if one.Over && !ready.IsZero() {
		ready = ready.Add(watched)
	}
	return due.Work{
		Key: "look at the address for " + one.Request.Hex(), Guard: fact.Ledger, Free: true, Ready: ready,
		Act: func(ctx context.Context) (due.Decision, error) {
			p.pace.asked(one.Request, p.c.Now())
			w := p.bitcoin()
			if w == nil {
				return nil, fmt.Errorf("look at the address for %.8s: %w", one.Request.Hex(), errNoBitcoin)
			}
			u, err := bitcoin.ParseURI(one.Bitcoin)
			if err != nil {
				return nil, err
			}
			seen, err := w.Received(ctx, u.Address)
			if err != nil {
				return nil, fmt.Errorf("look at the address for %.8s: %w", one.Request.Hex(), err)
			}
			p.arriving.Store(one.Request, seen)
			return func(tx *journal.Tx) error {
				now, ok := p.fold.lock(one.Request)
				if !ok {
					return nil
				}
				tx.Append(now.lost(seen, u)...)
				tx.Append(now.received(seen, u)...)
				pending := slices.ContainsFunc(seen, func(o bitcoind.Payment) bool { return o.Confirmations < u.Confirmations })
				ended := tx.Now().Sub(time.UnixMilli(one.Deadline))
				if !now.Over || ended < late || pending && ended < mempool {
					return nil
				}
				p.arriving.Delete(one.Request)
				if len(seen) > 0 {
					tx.Append(fact.AddressClosed{Request: one.Request})
				} else {
					tx.Append(fact.LockExpired{Request: one.Request})
				}
				return nil
			}, nil
		},
	}
}

// lost returns the facts about money that has not the confirmations any more with which it was received.
func (l lock) lost(seen []bitcoind.Payment, u bitcoin.URI) (all []fact.Fact) {
	for _, o := range l.Received {
		there := slices.ContainsFunc(seen, func(s bitcoind.Payment) bool {
			return s.ID == o.TxID && s.N == o.N && s.Confirmations >= u.Confirmations
		})
		if !there {
			all = append(all, fact.CoinsLost{Request: l.Request, TxID: o.TxID, N: o.N, Amount: o.Amount})
		}
	}
	return all
}

// received returns the facts about money that has the confirmations now. The first output of exactly the amount, whose transaction pays
// nothing else to the address, pays the price, if we still wait for it; so does the same one after a reorganisation.
func (l lock) received(seen []bitcoind.Payment, u bitcoin.URI) (all []fact.Fact) {
	taken := l.Claimed != nil && slices.ContainsFunc(seen, func(s bitcoind.Payment) bool { return l.claims(s) })
	for _, s := range seen {
		known := slices.ContainsFunc(l.Received, func(o output) bool { return s.ID == o.TxID && s.N == o.N })
		if s.Confirmations < u.Confirmations || known {
			continue
		}
		others := slices.ContainsFunc(seen, func(o bitcoind.Payment) bool { return o.ID == s.ID && o.N != s.N })
		one := fact.CoinsReceived{Request: l.Request, TxID: s.ID, N: s.N, Amount: uint64(s.Satoshis)}
		one.Exact = l.claims(s) || !taken && !l.Over && !others && s.Satoshis == u.Satoshis
		taken = taken || one.Exact
		all = append(all, one)
	}
	return all
}

// claims reports whether an output is the one for which we work.
func (l lock) claims(s bitcoind.Payment) bool {
	return l.Claimed != nil && l.Claimed.TxID == s.ID && l.Claimed.N == s.N
}

// arrives describes what a customer pays on the chain for a request to us, as far as the wallet sees it and we do not count on it.
func (p *Pay) arrives(one lock) (o Open, ok bool) {
	u, err := bitcoin.ParseURI(one.Bitcoin)
	if err != nil {
		return o, false
	}
	o = Open{ID: one.Request, Party: one.Customer, Unit: "sat"}
	seen, _ := p.arriving.Load(one.Request)
	all, _ := seen.([]bitcoind.Payment)
	for _, s := range all {
		if s.Confirmations < u.Confirmations {
			o.Amount += uint64(s.Satoshis)
			o.State = fmt.Sprintf("%d of %d confirmations", s.Confirmations, u.Confirmations)
		}
	}
	if c := one.Claimed; c != nil && !one.Settled {
		o.Amount, o.State = max(o.Amount, c.Amount), "not in the chain any more"
	}
	return o, o.State != ""
}
