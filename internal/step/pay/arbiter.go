package pay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
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

// An order can name an arbiter, a node of neither party (ADR 0035). Its key is in the lock beside theirs, and any two of the three open
// it. A provider that objects to what it gets, or that gets no verdict, sends the arbiter the coins; the arbiter's owner rules, and its
// node signs the provider's part for the provider and the rest for the customer. So neither needs the other to take what is its own.

// Arbiter returns an arbiter as an order names it: with the key that it announces. The error says why it can be none of ours.
func (p *Pay) Arbiter(ctx context.Context, pubkey nostr.PubKey) (nip90.Arbiter, error) {
	if p.c.Ours(pubkey) {
		return nip90.Arbiter{}, fmt.Errorf("the judge %.8s is of the same owner as this node: name a third one", pubkey.Hex())
	}
	a, err := p.c.FindArbiter(ctx, pubkey)
	if err != nil {
		return nip90.Arbiter{}, err
	}
	ours, err := p.arbiterKey()
	if err == nil && sameKey(a.Key, ours.PubKey()) {
		err = fmt.Errorf("the judge %.8s has a key of this wallet: name a third one", pubkey.Hex())
	}
	return a, err
}

// arbiterKey returns the key with which we rule.
func (p *Pay) arbiterKey() (cashu.Scalar, error) { return p.c.Wallet.Seed().Key(wallet.ArbiterKey, "") }

// checkArbiter returns why we do not work with the arbiter that a request names, or nil.
func (p *Pay) checkArbiter(ctx context.Context, r fact.RequestReceived) error {
	if r.Arbiter == nil {
		return nil
	}
	if r.Arbiter.PubKey == r.Customer {
		return errors.New("the judge that the order names is the customer")
	}
	known, err := p.Arbiter(ctx, r.Arbiter.PubKey)
	if err == nil && known.Key != r.Arbiter.Key {
		err = fmt.Errorf("the judge %.8s announces another key than the order has", r.Arbiter.PubKey.Hex())
	}
	return err
}

// checkArbiter returns why the lock that a quote asks for is not what the order says of an arbiter, or nil.
func (q quote) checkArbiter(p payment) error {
	named := p.Order.Arbiter
	switch {
	case named == nil && q.arbiter != cashu.Point{}:
		return errors.New("wants a third key in the lock, and the order names no judge (--judge)")
	case named == nil:
	case q.arbiter != named.Key:
		return errors.New("does not accept the judge of the order (--judge)")
	case p.Provider.PubKey == named.PubKey || sameKey(q.key, q.arbiter):
		return errors.New("is the judge of the order itself")
	case p.Rates != nil:
		return errors.New("has a price by usage, on which no judge rules (--judge)")
	}
	return nil
}

// sameKey reports whether two keys have the same x coordinate, so that one signature is valid for both.
func sameKey(a, b cashu.Point) bool { return [32]byte(a[1:]) == [32]byte(b[1:]) }

// distinct reports whether no two keys are the same.
func distinct(keys []cashu.Point) bool {
	for i, a := range keys {
		for _, b := range keys[:i] {
			if sameKey(a, b) {
				return false
			}
		}
	}
	return true
}

// keys returns the number of keys in the lock.
func (d demand) keys() int {
	if d.arbiter == (cashu.Point{}) {
		return 2
	}
	return 3
}

// parties returns the commitment to who has locked money for whom, for which request, and in which coins. A secret does not say what
// its coin is worth, and the arbiter signs for coins.
func parties(salt [32]byte, request nostr.ID, customer, provider nostr.PubKey, amounts []uint64) guild.Hash {
	h := sha256.New()
	for _, part := range [][]byte{salt[:], request[:], customer[:], provider[:]} {
		h.Write(part)
	}
	for _, amount := range amounts {
		h.Write(binary.BigEndian.AppendUint64(nil, amount))
	}
	return guild.Hash(h.Sum(nil))
}

// locked returns the lock for a quote.
func (p *Pay) locked(one payment, q quote, ours cashu.Point, op string) fact.EcashLock {
	lock := fact.EcashLock{Provider: q.key, Customer: ours, Locktime: q.locktime}
	if a := one.Order.Arbiter; a != nil {
		lock.Arbiter = a.Key
		lock.Parties = parties(p.c.Wallet.Seed().Salt(op), one.Attempt, p.c.PubKey, one.Provider.PubKey, one.amounts(one.Order.Unit, q.amount))
	}
	return lock
}

// saltIn returns the salt of the nonces that comes with a payment, or nil.
func saltIn(memo string) []byte {
	b, err := hex.DecodeString(memo)
	if err != nil || len(b) != 32 {
		return nil
	}
	return b
}

// partiesOf returns what the nonces of an offered lock have to commit to.
func (p *Pay) partiesOf(one lock) (guild.Hash, error) {
	if len(one.Offered.Salt) != 32 {
		return guild.Hash{}, errors.New("the payment has no salt, without which the arbiter could not tell whose it is")
	}
	var amounts []uint64
	for _, proof := range one.Offered.Proofs {
		amounts = append(amounts, proof.Amount)
	}
	return parties([32]byte(one.Offered.Salt), one.Request, one.Customer, p.c.PubKey, amounts), nil
}

// release notes what the customer or the arbiter has signed over to us. It includes what is ours already.
func (l *lock) release(one fact.LockReleased, at int64) {
	if l.Released != nil && one.Amount > l.Released.Amount { // there is more to claim
		l.Claim, l.Paid = "", false
	}
	after := l.Released != nil && l.Released.Ruled // the arbiter rules once, so this is the customer's
	l.Told = l.Told || !one.Ruled || after
	l.Released, l.At = &one, at
}

// returns says when the rest of a lock is signed back to the customer: at once, but while the arbiter may give us more of it, or the
// customer's own release may still come, which can be of more than the arbiter gives us.
func (l lock) returns() time.Time {
	switch {
	case l.Arbiter == nil || !l.Done || l.Released.Ruled && l.Told:
		return time.Time{}
	case l.Disputed:
		return time.Unix(l.Accepted.Locktime, 0)
	}
	return time.UnixMilli(l.At).Add(objecting)
}

// ErrNoCase means that there is nothing to object to, or to rule on.
var ErrNoCase = errors.New("there is nothing to decide")

// Object asks the arbiter of a request to us to rule on what its customer released, or did not.
func (p *Pay) Object(ctx context.Context, request nostr.ID, reason string) error {
	one, ok := p.fold.lock(request)
	if err := one.objectionable(ok, p.c.Now()); err != nil {
		return fmt.Errorf("object to the payment for %.8s: %w", request.Hex(), err)
	}
	c := dm.Case{
		Request: request, Customer: one.Customer, Mint: one.Offered.Mint, Unit: one.Offered.Unit, Salt: [32]byte(one.Offered.Salt), Reason: reason,
	}
	if one.Released != nil {
		c.Released = one.Released.Amount
	}
	for _, proof := range one.Offered.Proofs {
		c.Coins = append(c.Coins, fact.LockedCoin{Amount: proof.Amount, Secret: proof.Secret})
	}
	content, err := c.Encode()
	if err == nil { // at first, so that nothing is given back while the arbiter decides
		err = p.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
			if now, ok := p.fold.lock(request); ok && !now.Disputed {
				tx.Append(fact.LockDisputed{Request: request, Reason: guild.Cut(guild.Clean(reason), dm.MaxReason)})
			}
			return nil
		})
	}
	if err == nil {
		err = p.send(ctx, one.Arbiter.PubKey, "Objection", content)
	}
	if err != nil {
		return fmt.Errorf("ask the judge %.8s: %w", one.Arbiter.PubKey.Hex(), err)
	}
	return nil
}

// objectionable returns why an arbiter is not asked, or nil.
func (l lock) objectionable(known bool, now time.Time) error {
	verdict := time.UnixMilli(l.Deadline).Add(judging)
	switch {
	case !known || l.Accepted == nil || l.Offered == nil:
		return fmt.Errorf("no money is locked for it: %w", ErrNoCase)
	case l.Arbiter == nil:
		return fmt.Errorf("its order names no judge: %w", ErrNoCase)
	case !l.Done:
		return fmt.Errorf("nothing was delivered: %w", ErrNoCase)
	case l.Released != nil && l.Released.Amount == l.Accepted.Amount:
		return fmt.Errorf("all of it is yours: %w", ErrNoCase)
	case l.Released != nil && l.Released.Ruled:
		return fmt.Errorf("the judge has ruled: %w", ErrNoCase)
	case l.Returned:
		return fmt.Errorf("the rest went back to the customer: %w", ErrNoCase)
	case !now.Before(time.Unix(l.Accepted.Locktime, 0)):
		return fmt.Errorf("its locktime is over: %w", ErrNoCase)
	case l.Released == nil && now.Before(verdict):
		return fmt.Errorf("the customer has until %s for its verdict: %w", verdict.UTC().Format(time.RFC3339), ErrNoCase)
	}
	return nil
}

// TakeRuling takes the decision of the arbiter of an order of ours, or of a request to us. The error is a *guild.DropError if it is of
// no use.
func (p *Pay) TakeRuling(ctx context.Context, m dm.Message) error {
	s, err := dm.DecodeSignatures(m.Content, dm.TypeRuling)
	if err != nil {
		return err
	}
	return p.c.Journal.Do(ctx, fact.Ledger, m.ID.Hex(), func(tx *journal.Tx) error {
		if one, ok := p.fold.payment(s.Request); ok {
			return p.ruledPayment(tx, one, m.From, s)
		}
		one, ok := p.fold.lock(s.Request)
		if !ok || one.Arbiter == nil || one.Arbiter.PubKey != m.From || one.Accepted == nil || !one.Disputed || one.Returned || one.Released != nil && one.Released.Ruled {
			return guild.Drop(guild.Unrequested, "a ruling on no money that waits for one")
		}
		released, good := one.signedOver(s, 2)
		if good < len(s.Signatures) {
			return guild.Drop(guild.Malformed, "%d of the arbiter's %d signatures do", good, len(s.Signatures))
		}
		released.Ruled = true
		tx.Append(released)
		return nil
	})
}

// signedOver returns what is ours of a lock with the signatures of its n-th key in a message, and how many of them do.
func (l lock) signedOver(s dm.Signatures, n int) (all fact.LockReleased, good int) {
	all = fact.LockReleased{Request: s.Request, Signatures: map[string]string{}, Reason: s.Reason}
	if l.Released != nil {
		maps.Copy(all.Signatures, l.Released.Signatures)
	}
	for _, proof := range l.Offered.Proofs {
		y := cashu.HashToCurve(proof.Secret).String()
		if signs(proof.Secret, s.Signatures[y], n) {
			good++
			all.Signatures[y] = s.Signatures[y]
		}
		if all.Signatures[y] != "" {
			all.Amount += proof.Amount
		}
	}
	return all, good
}

// ruledPayment takes the arbiter's decision on what we have locked. What it gives to the provider we sign over as well, for the receipt.
func (p *Pay) ruledPayment(tx *journal.Tx, one payment, from nostr.PubKey, s dm.Signatures) error {
	if one.Order.Arbiter == nil || one.Order.Arbiter.PubKey != from || one.Reserved == nil || one.Ruled != nil || one.Returned {
		return guild.Drop(guild.Unrequested, "a ruling on no money of ours")
	}
	switch {
	case one.Decided == nil && tx.Now().Before(time.UnixMilli(one.Deadline)):
		return guild.Drop(guild.Unrequested, "a ruling while the work may go on")
	case one.Released != nil && one.Noted, !p.whole(one):
		return guild.Drop(guild.Late, "a ruling on money that is gone or comes back")
	}
	coins, amounts := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
	more := s.Amount
	if one.Released != nil {
		more -= min(more, one.Released.Amount)
	}
	_, kept, err := one.divide(coins, amounts, more)
	if err != nil {
		return guild.Drop(guild.Malformed, "a ruling of %d %s: %v", s.Amount, one.Reserved.Unit, err)
	}
	ruled := fact.PaymentRuled{Attempt: one.Attempt, Amount: s.Amount, Signatures: map[string]string{}, Reason: s.Reason}
	for _, c := range kept {
		proof, err := p.c.Wallet.Proof(c)
		if err != nil {
			return err
		}
		y := cashu.HashToCurve(proof.Secret).String()
		if !signs(proof.Secret, s.Signatures[y], 2) {
			return guild.Drop(guild.Malformed, "the arbiter's signature on a coin of ours is missing")
		}
		ruled.Signatures[y] = s.Signatures[y]
	}
	tx.Append(ruled)
	return nil
}

// cosignature returns the signature of another on a coin that is ours, by its Y, or "".
func (one payment) cosignature(y string) string {
	if one.Back != nil && one.Back.Signatures[y] != "" {
		return one.Back.Signatures[y]
	}
	if one.Ruled != nil {
		return one.Ruled.Signatures[y]
	}
	return ""
}

// whole reports whether all that was not released is still locked, and no transaction takes it back.
func (p *Pay) whole(one payment) bool {
	rest := one.Reserved.Amount
	if one.Released != nil {
		rest -= min(rest, one.Released.Amount)
	}
	_, amounts := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
	sum, err := cashu.Sum(amounts...)
	return err == nil && sum == rest && !p.c.Wallet.Fold().Open(one.Refund)
}

// lostToRuling returns what the provider has taken of a lock, of which nothing is left, by a ruling that we never heard: nobody else can.
func (one payment) lostToRuling() uint64 {
	if one.Order.Arbiter == nil {
		return 0
	}
	ours := one.Released.Amount
	if one.Returned {
		ours += one.Refunding
	}
	return one.Reserved.Amount - min(ours, one.Reserved.Amount)
}

// follow signs over what the arbiter gave to the provider beyond what we did, and sends it: a ruling may reach only one of us.
func (p *Pay) follow(one payment) due.Work {
	return due.Work{
		Key: "follow the ruling on " + one.Attempt.Hex(), Guard: fact.Ledger, Tries: mostTries,
		Act: func(ctx context.Context) (due.Decision, error) {
			more := one.Ruled.Amount - one.Released.Amount
			coins, amounts := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
			coins, _, err := one.divide(coins, amounts, more)
			var signed map[string]string
			var content, proof string
			if err == nil {
				signed, proof, err = p.signed(ctx, one, coins)
			}
			if err == nil {
				proof, err = joined(one.Released.Proof, proof)
			}
			if err == nil {
				content, err = dm.Signatures{Type: dm.TypeRelease, Request: one.Attempt, Amount: more, Signatures: signed, Reason: one.Ruled.Reason}.Encode()
			}
			if err == nil {
				err = p.send(ctx, one.Provider.PubKey, "Payment released", content)
			}
			if err != nil {
				return nil, fmt.Errorf("follow the ruling on %.8s: %w", one.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				if now, ok := p.fold.payment(one.Attempt); ok && now.Released != nil && now.Released.Amount < one.Ruled.Amount {
					tx.Append(fact.PaymentReleased{
						Attempt: one.Attempt, Mint: one.Reserved.Mint, Unit: one.Reserved.Unit, Amount: more, Coins: coins, Proof: proof,
					})
				}
				return nil
			}, nil
		},
	}
}

// release books what the provider gets: at first by our decision, and then what the arbiter gives it more. With an arbiter the rest
// counts in the budgets until it is back.
func (s *state) release(p *payment, one fact.PaymentReleased) {
	if p.Released != nil {
		one.Amount += p.Released.Amount
	}
	p.Released = &one
	if p.Reserved == nil { // after a repair that lost the entry with it
		return
	}
	if p.Order.Arbiter == nil {
		s.free(*p.Reserved, p.Reserved.Amount-min(p.Reserved.Amount, one.Amount), p.At)
	}
}

// applyToDispute applies what parties and arbiters do about locked money.
func (s *state) applyToDispute(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.LockDisputed:
		s.editLock(one.Request, func(l *lock) { l.Disputed = true })
	case fact.PaymentDisputed:
		s.edit(one.Attempt, func(p *payment) { p.Disputed = one.Reason })
	case fact.PaymentRuled:
		s.edit(one.Attempt, func(p *payment) {
			p.Ruled = &one
			if p.Decided == nil || one.Amount > p.Decided.Amount { // what we decide to pay the provider may have already
				p.Decided = &fact.PaymentDecided{Attempt: one.Attempt, Amount: one.Amount, Rule: ruleArbiter}
			}
		})
	case fact.CaseOpened:
		s.Cases.Set(one.Request.Hex(), dispute{CaseOpened: one, At: at})
	case fact.CaseTold:
		s.editCase(one.Request, func(c *dispute) { c.Told = true })
	case fact.CaseRuled:
		s.editCase(one.Request, func(c *dispute) { c.Ruled = &one })
	case fact.CaseSent:
		s.editCase(one.Request, func(c *dispute) { c.Sent = true })
	case fact.CaseClosed:
		s.Cases.Delete(one.Request.Hex())
	}
}
