package pay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/hand/dm"
	"guild/internal/hand/lightning"
	"guild/internal/hand/mint"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// maxOffers limits the locks that are checked for one request, which costs a question to the mint each.
const maxOffers = 3

// Quote returns how the customer of a request may pay before the work begins: by ecash that it locks to us and to itself until the
// verdict is final (NUT-18), or to us alone if it pays ahead of the work, or by an invoice of the owner's Lightning wallet, which is
// valid until a time. One of them may be "". If the customer chose a payment hash, the invoice is for that, and its payment is
// held; but an ordinary one if the wallet says that it can hold none, or the customer has to pay ahead. If the request names an arbiter,
// the lock has its key, too.
func (p *Pay) Quote(
	ctx context.Context, r fact.RequestReceived, until time.Time, amount uint64, unit string, ahead bool,
) (terms, invoice string, err error) {
	request, deadline, hold := r.Request, time.UnixMilli(r.Deadline), r.Hold
	if !ahead {
		if err := p.checkArbiter(ctx, r); err != nil {
			return "", "", err
		}
	}
	if p.mintsOf(unit) != nil {
		if terms, err = p.terms(r, amount, unit, ahead); err != nil {
			return "", "", err
		}
	}
	if p.lightning() != nil && inBitcoin(unit) {
		if terms != "" { // which need no wallet that answers
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
		}
		unable := ahead || hold == (guild.Hash{})
		if !unable {
			invoice, err = p.holdInvoice(ctx, request, hold, deadline, until.Add(-invoiceEnds), msats(unit, amount))
			unable = lightning.IsRefused(err, lightning.Unable...)
		}
		if unable {
			invoice, err = p.invoice(ctx, request, until.Add(-invoiceEnds), msats(unit, amount))
		}
	}
	switch {
	case err != nil && terms == "":
		return "", "", err
	case terms == "" && invoice == "":
		return "", "", fmt.Errorf("nothing in the wallet takes %q: add a mint or a Lightning wallet with guild wallet add", unit)
	}
	return terms, invoice, nil
}

// invoiceEnds is the time by which our invoice expires before we give up waiting, so that none is paid in vain.
const invoiceEnds = 2 * time.Minute

// inBitcoin reports whether a unit is one of bitcoin, so that it can be paid over Lightning.
func inBitcoin(unit string) bool { return unit == "sat" || unit == "msat" }

// mintsOf returns the mints of the wallet that have a unit.
func (p *Pay) mintsOf(unit string) (urls []string) {
	for _, a := range p.c.Wallet.Fold().Mints() {
		if a.Unit == unit {
			urls = append(urls, a.Mint)
		}
	}
	return urls
}

// terms returns the payment request for a request to us: locked to us and to the customer, until the verdict is final, or to us alone.
func (p *Pay) terms(to fact.RequestReceived, amount uint64, unit string, alone bool) (string, error) {
	key, err := p.c.Wallet.Seed().Key(wallet.PayeeKey, to.Request.Hex())
	if err != nil {
		return "", err
	}
	r := token.Request{ID: to.Request.Hex(), Amount: amount, Unit: unit, Once: true, Mints: p.mintsOf(unit), Lock: &token.RequestedLock{
		Kind: cashu.P2PK, Data: key.PubKey().String(),
		Tags: [][]string{{"n_sigs", "2"}, {"locktime", strconv.FormatInt(lockedUntil(time.UnixMilli(to.Deadline), to.Arbiter).Unix(), 10)}},
	}}
	if to.Arbiter != nil {
		r.Lock.Tags = append(r.Lock.Tags, []string{"pubkeys", to.Arbiter.Key.String()})
	}
	if alone {
		r.Lock.Tags = nil
	}
	return r.String(), nil
}

// Takes reports whether a price in a unit can be paid to us.
func (p *Pay) Takes(unit string) bool {
	return p.mintsOf(unit) != nil || (p.lightning() != nil || p.bitcoin() != nil) && inBitcoin(unit)
}

// Funded reports whether the customer of a request has locked or paid what Quote asked for.
func (p *Pay) Funded(request nostr.ID) bool { return p.fold.Funded(request) }

// listening is the time after the locktime for which a release is still taken.
const listening = 7 * 24 * time.Hour

func (p ecash) receive(one lock) (work []due.Work) {
	id := one.Request.Hex()
	switch {
	case one.Offered == nil && one.Ahead && one.Over && (one.Invoice == "" || one.Settled):
		return []due.Work{p.unpaid(one)}
	case one.Offered == nil:
		return nil
	case one.Accepted == nil:
		return []due.Work{p.examine(one)}
	case one.Released == nil:
		// A release that was sent in time may be heard late, and is good as long as the customer has not taken the money back.
		expiry := time.Unix(one.Accepted.Locktime, 0).Add(listening)
		return []due.Work{due.Decide("the locktime of "+id, fact.Ledger, expiry, func(tx *journal.Tx) error {
			if now, ok := p.fold.lock(one.Request); ok && now.Released == nil {
				tx.Append(fact.LockExpired{Request: one.Request})
			}
			return nil
		})}
	}
	if one.Released.Amount > 0 && !one.Paid && !p.c.Wallet.Fold().Open(one.Claim) {
		work = append(work, p.claim(one))
	}
	if one.Released.Amount < one.Accepted.Amount && !one.Returned && one.Over { // not while we still work for it
		back := p.giveBack(one)
		back.Ready = one.returns()
		work = append(work, back)
	}
	return work
}

// TakeLock takes the ecash that a customer has locked for a request. The error is a *guild.DropError if it is of no use.
func (p *Pay) TakeLock(ctx context.Context, m dm.Message) error {
	sent, err := token.ParsePayment(m.Content)
	if err != nil {
		return guild.Drop(guild.Malformed, "%v", err)
	}
	request, err := nostr.IDFromHex(sent.ID)
	if err != nil {
		return guild.Drop(guild.Malformed, "a payment for %.80q", sent.ID)
	}
	return p.c.Journal.Do(ctx, fact.Ledger, m.ID.Hex(), func(tx *journal.Tx) error {
		one, ok := p.fold.lock(request)
		switch {
		case !ok || one.Customer != m.From:
			return guild.Drop(guild.Unrequested, "money for no request of %.8s", m.From.Hex())
		case one.Offered != nil || one.Arrived > 0:
			return guild.Drop(guild.Repeated, "a second payment for request %.8s", request.Hex())
		case one.Tries >= maxOffers:
			return guild.Drop(guild.Flood, "%d payments for request %.8s that did not do", one.Tries, request.Hex())
		}
		tx.Append(fact.LockOffered{Request: request, Customer: m.From, Mint: sent.Mint, Unit: sent.Unit, Proofs: sent.Proofs, Salt: saltIn(sent.Memo)})
		return nil
	})
}

// examine checks what was locked: who can spend it and when, what it is worth, the mint's signatures, and that it is not spent.
func (p *Pay) examine(one lock) due.Work {
	return due.Work{
		Key: "check the lock for " + one.Request.Hex(), Guard: fact.Ledger, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			locktime, err := p.accept(ctx, one)
			if unsure, ok := errors.AsType[*unsureError](err); ok {
				return nil, fmt.Errorf("check the lock for %.8s: %w", one.Request.Hex(), unsure.error)
			}
			amount, _ := cashu.Worth(one.Offered.Proofs) // checked when it came
			return func(tx *journal.Tx) error {
				now, ok := p.fold.lock(one.Request)
				switch {
				case !ok || now.Offered == nil || now.Accepted != nil:
				case now.Released != nil:
					tx.Append(fact.LockRefused{Request: one.Request, Reason: "its payment over Lightning was released already"})
				case err != nil:
					tx.Append(fact.LockRefused{Request: one.Request, Reason: guild.Cut(err.Error(), 500)})
				default:
					tx.Append(fact.LockAccepted{Request: one.Request, Amount: amount, Locktime: locktime})
					if one.Ahead {
						tx.Append(fact.LockReleased{Request: one.Request, Amount: amount})
					}
				}
				return nil
			}, nil
		},
	}
}

// unsureError means that the mint could not be asked.
type unsureError struct{ error }

// accept returns the locktime of good locked ecash, or why it does not do. It is an *unsureError if that is not known.
func (p *Pay) accept(ctx context.Context, one lock) (locktime int64, err error) {
	asked, unit, err := readQuote(one.Terms, one.Request)
	if err != nil {
		return 0, err
	}
	want := demand{ours: asked.key, amount: asked.amount, unit: unit, mints: asked.mints, locktime: asked.locktime, alone: asked.alone, arbiter: asked.arbiter}
	if one.Arbiter != nil {
		if want.parties, err = p.partiesOf(one); err != nil {
			return 0, err
		}
	}
	offered := *one.Offered
	if err := want.check(offered.Mint, offered.Unit, offered.Proofs); err != nil {
		return 0, err
	}
	m, err := p.c.Wallet.Mint(offered.Mint)
	if err != nil {
		return 0, err
	}
	terms, err := p.c.Wallet.Terms(ctx, wallet.Asset{Mint: offered.Mint, Unit: offered.Unit})
	if err != nil {
		return 0, &unsureError{err}
	}
	fees := map[string]uint64{}
	ys := make([]cashu.Point, len(offered.Proofs))
	for i, proof := range offered.Proofs {
		if !terms.Knows(proof.Keyset) {
			return 0, fmt.Errorf("ecash %d is of a keyset that the mint does not have", i+1)
		}
		keyset, err := m.Keyset(ctx, proof.Keyset)
		if err != nil {
			return 0, &unsureError{err}
		}
		fees[proof.Keyset] = keyset.Fee
		key, ok := keyset.Keys[proof.Amount]
		switch {
		case keyset.Unit != offered.Unit || !ok:
			return 0, fmt.Errorf("ecash %d is of a keyset for another unit or amount", i+1)
		case proof.DLEQ == nil:
			return 0, fmt.Errorf("ecash %d has no proof that the mint signed it", i+1)
		}
		if err := proof.DLEQ.Check(key, proof.Secret, proof.C); err != nil {
			return 0, fmt.Errorf("ecash %d: %w", i+1, err)
		}
		ys[i] = cashu.HashToCurve(proof.Secret)
		c, _, _ := cashu.ParseCondition(proof.Secret) // it was parsed before
		if locktime == 0 || c.Locktime < locktime {
			locktime = c.Locktime
		}
	}
	fee, err := cashu.Fee(offered.Proofs, func(id string) (uint64, bool) { fee, ok := fees[id]; return fee, ok })
	if err == nil && !one.Ahead { // what is ours alone is of no use to the customer, so it is taken
		err = tooDear(fee, want.amount, unit)
	}
	if err != nil {
		return 0, err
	}
	states, err := m.States(ctx, ys)
	if err != nil {
		return 0, &unsureError{err}
	}
	for i, s := range states {
		if s.State != mint.Unspent {
			return 0, fmt.Errorf("ecash %d is spent or about to be", i+1)
		}
	}
	return locktime, nil
}

// TakeRelease takes a customer's signatures on what it locked for a request. The error is a *guild.DropError if they are of no
// use.
func (p *Pay) TakeRelease(ctx context.Context, m dm.Message) error {
	s, err := dm.DecodeSignatures(m.Content, dm.TypeRelease)
	if err != nil {
		return err
	}
	return p.c.Journal.Do(ctx, fact.Ledger, m.ID.Hex(), func(tx *journal.Tx) error {
		one, ok := p.fold.lock(s.Request)
		held := one.holds() && one.Accepted == nil
		more := one.Released != nil && one.Accepted != nil && one.Arbiter != nil // than the arbiter gave us, or what it gave us
		if !ok || one.Accepted == nil && !held || one.Customer != m.From || one.Released != nil && !more {
			return guild.Drop(guild.Unrequested, "a release of no money that waits for one")
		}
		if held {
			return p.takePreimage(tx, one, s)
		}
		released, good := one.signedOver(s, 1)
		switch {
		case good < len(s.Signatures):
			return guild.Drop(guild.Malformed, "%d of the customer's %d signatures do", good, len(s.Signatures))
		case more && one.Told && released.Amount == one.Released.Amount:
			return guild.Drop(guild.Repeated, "a release of what is ours for request %.8s", s.Request.Hex())
		case more:
			released.Ruled = one.Released.Ruled
		}
		tx.Append(released)
		return nil
	})
}

// claim makes what was released ours.
func (p *Pay) claim(one lock) due.Work {
	op := wallet.NewOp()
	return due.Work{
		Key: "claim the payment for " + one.Request.Hex(), Guard: fact.Ledger, Free: true, Ready: one.Failed.again(),
		Act: func(ctx context.Context) (due.Decision, error) {
			key, err := p.c.Wallet.Seed().Key(wallet.PayeeKey, one.Request.Hex())
			if err != nil {
				return nil, err
			}
			var proofs []cashu.Proof
			for _, proof := range one.Offered.Proofs {
				var w cashu.Witness
				if !one.Ahead {
					theirs := one.Released.Signatures[cashu.HashToCurve(proof.Secret).String()]
					if theirs == "" {
						continue
					}
					w.Signatures = []string{theirs}
				}
				if err := w.Sign(key, proof.Secret); err != nil {
					return nil, err
				}
				proof.Witness = w.Text()
				proofs = append(proofs, proof)
			}
			if one.Failed.Times > 0 || one.Arbiter != nil { // a part of it can be ours already, or at the locktime the customer's
				if proofs, err = p.unspent(ctx, one.Offered.Mint, proofs); err != nil {
					return nil, err
				}
			}
			t, err := p.c.Wallet.Terms(ctx, wallet.Asset{Mint: one.Offered.Mint, Unit: one.Offered.Unit})
			return func(tx *journal.Tx) error {
				if now, ok := p.fold.lock(one.Request); !ok || now.Claim != one.Claim || now.Released.Amount != one.Released.Amount {
					return nil
				}
				if len(proofs) == 0 {
					tx.Append(fact.LockLost{Request: one.Request})
					return nil
				}
				planned, err := p.c.Wallet.PlanTake(op, wallet.Claim, t, one.Request.Hex(), proofs)
				if err == nil {
					tx.Append(planned)
					p.c.Wallet.Planned(op)
				}
				return err
			}, err
		},
	}
}

// unspent returns the proofs that are not spent, as their mint says.
func (p *Pay) unspent(ctx context.Context, at string, proofs []cashu.Proof) (left []cashu.Proof, err error) {
	m, err := p.c.Wallet.Mint(at)
	if err != nil {
		return nil, err
	}
	ys := make([]cashu.Point, len(proofs))
	for i, one := range proofs {
		ys[i] = cashu.HashToCurve(one.Secret)
	}
	states, err := m.States(ctx, ys)
	if err != nil {
		return nil, err
	}
	for i, s := range states {
		if s.State != mint.Spent {
			left = append(left, proofs[i])
		}
	}
	return left, nil
}

// giveBack signs what is not ours over to the customer, so that it need not wait for the locktime.
func (p *Pay) giveBack(one lock) due.Work {
	return due.Work{
		Key: "return the rest for " + one.Request.Hex(), Guard: fact.Ledger, Tries: mostTries,
		Act: func(ctx context.Context) (due.Decision, error) {
			key, err := p.c.Wallet.Seed().Key(wallet.PayeeKey, one.Request.Hex())
			if err != nil {
				return nil, err
			}
			rest := dm.Signatures{Type: dm.TypeReturn, Request: one.Request, Signatures: map[string]string{}}
			for _, proof := range one.Offered.Proofs {
				y := cashu.HashToCurve(proof.Secret).String()
				if one.Released.Signatures[y] != "" {
					continue
				}
				var w cashu.Witness
				if err := w.Sign(key, proof.Secret); err != nil {
					return nil, err
				}
				rest.Signatures[y] = w.Signatures[0]
				rest.Amount += proof.Amount
			}
			content, err := rest.Encode()
			if err == nil {
				err = p.send(ctx, one.Customer, "Payment returned", content)
			}
			if err != nil {
				return nil, fmt.Errorf("return the rest for %.8s: %w", one.Request.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				if now, ok := p.fold.lock(one.Request); ok && !now.Returned {
					tx.Append(fact.LockReturned{Request: one.Request})
				}
				return nil
			}, nil
		},
	}
}
