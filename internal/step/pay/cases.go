package pay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu"
	"guild/internal/hand/dm"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
	"guild/nip90"
)

// dispute is a case on which we rule as an arbiter.
type dispute struct {
	fact.CaseOpened
	At    int64           `json:"at"`             // Unix ms
	Told  bool            `json:"told,omitempty"` // the customer knows of it
	Ruled *fact.CaseRuled `json:"ruled,omitempty"`
	Sent  bool            `json:"sent,omitempty"` // both know the ruling
}

// Bounds of cases.
const (
	maxCases   = 1000 // that wait for the owner
	maxCasesOf = 20   // of one provider

	// A case costs its sender nothing, since no mint needs to know the coins. So it counts for a day at least, which bounds what is
	// written, and nobody can occupy a place for longer than a lock can last: its deadline is at most a day away.
	leastCase = 24 * time.Hour
	mostCase  = 14 * 24 * time.Hour
)

func (s *state) editCase(request nostr.ID, by func(*dispute)) {
	if c, ok := s.Cases.Get(request.Hex()); ok {
		by(&c)
		s.Cases.Set(request.Hex(), c)
	}
}

// disputes lists the cases that are not forgotten.
func (f *Fold) disputes() (all []dispute) {
	f.View(func(s *state) {
		for _, c := range s.Cases.All() {
			all = append(all, c)
		}
	})
	return all
}

// Announce publishes our offer to rule on others' money, or takes it back. It returns the offer, whose key is zero then.
func (p *Pay) Announce(ctx context.Context, off bool) (nip90.Arbiter, error) {
	offer := nip90.Arbiter{PubKey: p.c.PubKey}
	if !off {
		key, err := p.arbiterKey()
		if err != nil {
			return offer, err
		}
		offer.Key = key.PubKey()
	}
	e := nip90.ArbiterEvent(offer.Key, nostr.Timestamp(p.c.Now().Unix()))
	if err := p.c.Keyer.SignEvent(ctx, &e); err != nil {
		return offer, fmt.Errorf("sign the offer to rule: %w", err)
	}
	v, err := guild.Verify(e)
	if err == nil {
		err = p.c.Publish(ctx, v)
	}
	return offer, err
}

// TakeCase takes a provider's objection on which we rule, or the arbiter's word that there is one to what we released. The error is a
// *guild.DropError if it is of no use.
func (p *Pay) TakeCase(ctx context.Context, m dm.Message) error {
	c, err := dm.DecodeCase(m.Content)
	if err != nil {
		return err
	}
	if len(c.Coins) == 0 {
		return p.noteDispute(ctx, m, c)
	}
	opened, err := p.opened(m.From, c)
	if err != nil {
		return guild.Drop(guild.Malformed, "an objection of %.8s: %v", m.From.Hex(), err)
	}
	return p.c.Journal.Do(ctx, fact.Ledger, m.ID.Hex(), func(tx *journal.Tx) error {
		of, all := 0, 0
		for _, other := range p.fold.disputes() {
			if other.Ruled == nil {
				all++
				if other.Provider == m.From {
					of++
				}
			}
			if other.Request == c.Request || other.shares(opened.Coins) {
				return guild.Drop(guild.Repeated, "an objection about request %.8s", c.Request.Hex())
			}
		}
		switch {
		case of >= maxCasesOf || all >= maxCases:
			return guild.Drop(guild.Flood, "%d objections of %.8s, and %d of all, are open", of, m.From.Hex(), all)
		case opened.Locktime <= tx.Now().Unix():
			return guild.Drop(guild.Late, "an objection of %.8s about money whose locktime is over", m.From.Hex())
		case opened.Locktime > tx.Now().Add(mostCase).Unix():
			return guild.Drop(guild.Malformed, "an objection of %.8s about money that is locked for too long", m.From.Hex())
		}
		tx.Append(opened)
		return nil
	})
}

// shares reports whether a case is about one of the coins.
func (c dispute) shares(coins []fact.LockedCoin) bool {
	return slices.ContainsFunc(coins, func(one fact.LockedCoin) bool {
		return slices.ContainsFunc(c.Coins, func(other fact.LockedCoin) bool { return other.Secret == one.Secret })
	})
}

// opened returns the case of a provider, if its coins are locked for it, by the customer that it names, and so that we can rule.
func (p *Pay) opened(provider nostr.PubKey, c dm.Case) (opened fact.CaseOpened, err error) {
	key, err := p.arbiterKey()
	switch {
	case err != nil:
		return opened, err
	case c.Customer == provider || c.Customer == p.c.PubKey || len(c.Coins) > maxCoins:
		return opened, errors.New("its customer is one of the others, or it has too many coins")
	}
	amounts := dispute{CaseOpened: fact.CaseOpened{Coins: c.Coins}}.amounts()
	who := parties(c.Salt, c.Request, c.Customer, provider, amounts)
	var first cashu.Condition
	opened = fact.CaseOpened{
		Request: c.Request, Provider: provider, Customer: c.Customer, Mint: c.Mint, Unit: c.Unit, Coins: c.Coins, Released: c.Released, Reason: c.Reason,
	}
	for i, coin := range c.Coins {
		lock, ok, err := cashu.ParseCondition(coin.Secret)
		switch {
		case err != nil:
			return opened, fmt.Errorf("coin %d: %w", i+1, err)
		case !ok || lock.Kind != cashu.P2PK || lock.All || len(lock.Keys) != 3 || lock.Sigs != 2 || !distinct(lock.Keys):
			return opened, fmt.Errorf("coin %d is not locked to three keys, of which two open it", i+1)
		case lock.Keys[2] != key.PubKey():
			return opened, fmt.Errorf("coin %d does not have our key", i+1)
		case lock.Nonce != wallet.Nonce(who, i):
			return opened, fmt.Errorf("coin %d is not for this request, of this customer to this provider, in such coins", i+1)
		case i > 0 && !slices.Equal(lock.Keys, first.Keys):
			return opened, fmt.Errorf("coin %d has other keys", i+1)
		}
		if i == 0 || lock.Locktime < opened.Locktime {
			opened.Locktime = lock.Locktime
		}
		if i == 0 {
			first = lock
		}
	}
	_, err = cashu.Sum(amounts...)
	return opened, err
}

// noteDispute notes that the provider has asked the arbiter to rule on money of ours.
func (p *Pay) noteDispute(ctx context.Context, m dm.Message, c dm.Case) error {
	return p.c.Journal.Do(ctx, fact.Ledger, m.ID.Hex(), func(tx *journal.Tx) error {
		one, ok := p.fold.payment(c.Request)
		if !ok || one.Order.Arbiter == nil || one.Order.Arbiter.PubKey != m.From || one.Reserved == nil || one.Disputed != "" {
			return guild.Drop(guild.Unrequested, "an objection to no payment of ours")
		}
		tx.Append(fact.PaymentDisputed{Attempt: c.Request, Reason: cmp.Or(c.Reason, "no reason was given")})
		return nil
	})
}

// Rule is the owner's decision on a case: how much of the money the provider gets, in the unit.
func (p *Pay) Rule(ctx context.Context, request nostr.ID, amount uint64, reason string) error {
	return p.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		var c dispute
		var ok bool
		p.fold.View(func(s *state) { c, ok = s.Cases.Get(request.Hex()) })
		switch {
		case !ok:
			return fmt.Errorf("rule on %.8s: %w", request.Hex(), ErrNoCase)
		case c.Ruled != nil:
			return fmt.Errorf("rule on %.8s: it is decided: %d %s", request.Hex(), c.Ruled.Amount, c.Unit)
		case tx.Now().Unix() >= c.Locktime:
			return fmt.Errorf("rule on %.8s: its locktime is over, so the customer has the money", request.Hex())
		}
		if _, err := choice(first).exactly(c.amounts(), amount, c.Unit); err != nil {
			return fmt.Errorf("rule on %.8s: %w", request.Hex(), err)
		}
		tx.Append(fact.CaseRuled{Request: request, Amount: amount, Reason: guild.Cut(guild.Clean(reason), dm.MaxReason)})
		return nil
	})
}

func (c dispute) amounts() (all []uint64) {
	for _, coin := range c.Coins {
		all = append(all, coin.Amount)
	}
	return all
}

// dispute lists what is due for a case: the customer learns of it, and both learn the ruling.
func (p *Pay) dispute(c dispute) []due.Work {
	id, over := c.Request.Hex(), time.Unix(c.Locktime, 0)
	if least := time.UnixMilli(c.At).Add(leastCase); least.After(over) {
		over = least
	}
	work := []due.Work{due.Decide("close the case "+id, fact.Ledger, over, func(tx *journal.Tx) error {
		if p.fold.hasCase(c.Request) {
			tx.Append(fact.CaseClosed{Request: c.Request})
		}
		return nil
	})}
	switch {
	case !c.Told && c.Ruled == nil: // a ruling says it as well
		told := func(tx *journal.Tx) { tx.Append(fact.CaseTold{Request: c.Request}) }
		work = append(work, due.Work{
			Key: "tell the customer of case " + id, Guard: fact.Ledger, Tries: mostTries,
			Act: func(ctx context.Context) (due.Decision, error) {
				content, err := dm.Case{Request: c.Request, Reason: c.Reason}.Encode()
				if err == nil {
					err = p.send(ctx, c.Customer, "Objection", content)
				}
				if err != nil {
					return nil, fmt.Errorf("tell the customer of case %.8s: %w", id, err)
				}
				return func(tx *journal.Tx) error { told(tx); return nil }, nil
			},
			Park: func(tx *journal.Tx, _ string) { told(tx) },
		})
	case c.Ruled != nil && !c.Sent:
		sent := func(tx *journal.Tx) { tx.Append(fact.CaseSent{Request: c.Request}) }
		work = append(work, due.Work{
			Key: "send the ruling on " + id, Guard: fact.Ledger, Tries: mostTries,
			Act: func(ctx context.Context) (due.Decision, error) {
				err := p.sendRuling(ctx, c)
				return func(tx *journal.Tx) error { sent(tx); return nil }, err
			},
			Park: func(tx *journal.Tx, _ string) { sent(tx) },
		})
	}
	return work
}

func (f *Fold) hasCase(request nostr.ID) (has bool) {
	f.View(func(s *state) { has = s.Cases.Has(request.Hex()) })
	return has
}

// sendRuling sends each party our signatures on what is its own. Who has got its own before drops it.
func (p *Pay) sendRuling(ctx context.Context, c dispute) error {
	key, err := p.arbiterKey()
	if err != nil {
		return err
	}
	chosen, _ := first(c.amounts(), c.Ruled.Amount) // it was checked by Rule
	given, kept := divide(c.Coins, chosen)
	for _, to := range []struct {
		pubkey nostr.PubKey
		coins  []fact.LockedCoin
	}{{c.Provider, given}, {c.Customer, kept}} {
		s := dm.Signatures{Type: dm.TypeRuling, Request: c.Request, Amount: c.Ruled.Amount, Signatures: map[string]string{}, Reason: c.Ruled.Reason}
		for _, coin := range to.coins {
			var w cashu.Witness
			if err := w.Sign(key, coin.Secret); err != nil {
				return err
			}
			s.Signatures[cashu.HashToCurve(coin.Secret).String()] = w.Signatures[0]
		}
		content, err := s.Encode()
		if err == nil {
			err = p.send(ctx, to.pubkey, "Ruling", content)
		}
		if err != nil {
			return fmt.Errorf("send %.8s the ruling on %.8s: %w", to.pubkey.Hex(), c.Request.Hex(), err)
		}
	}
	return nil
}

// Case is a case on which we rule.
type Case struct {
	fact.CaseOpened
	At    time.Time
	Total uint64          // of its coins, in the unit
	Ruled *fact.CaseRuled // nil while it waits for the owner
	Sent  bool            // both know the ruling
}

// Cases lists the cases whose locktime is not over, the oldest first.
func (p *Pay) Cases() (all []Case) {
	for _, c := range p.fold.disputes() {
		if p.c.Now().Unix() >= c.Locktime {
			continue
		}
		total, _ := cashu.Sum(c.amounts()...) // it was checked when it came
		all = append(all, Case{CaseOpened: c.CaseOpened, At: time.UnixMilli(c.At), Total: total, Ruled: c.Ruled, Sent: c.Sent})
	}
	slices.SortFunc(all, func(a, b Case) int { return cmp.Or(a.At.Compare(b.At), slices.Compare(a.Request[:], b.Request[:])) })
	return all
}
