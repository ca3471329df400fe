package pay

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/hand/dm"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

func (p ecash) pay(one payment, now time.Time) []due.Work {
	id := one.Attempt.Hex()
	switch {
	case one.Terms == "":
		return nil
	case one.Order.How == prepaid:
		return p.inAdvance(one)
	case one.Refused != "" && one.Reserved == nil:
		return p.refuse(one)
	case one.Reserved == nil && one.Over:
		return nil
	case p.asks(one) > 0:
		return []due.Work{p.ask(one)}
	case one.Reserved == nil:
		return []due.Work{p.reserve(one)}
	case p.c.Wallet.Fold().Open(one.Reserved.Op):
		return nil // the mint has not locked it yet
	case !one.Held:
		return []due.Work{decide("hold money for "+id, fact.JobSubject(one.Job), func() bool { now, _ := p.fold.payment(one.Attempt); return !now.Held },
			func() fact.Fact { return one.hold() })}
	case !one.Sent && (!one.Over || one.earned()):
		return []due.Work{p.sendLock(one)}
	case !one.Over && one.Decided == nil: // no verdict until the locktime pays nothing
		return []due.Work{due.Decide("the locktime of "+id, fact.Ledger, p.locktime(one), p.decided(one, 0, ruleForgotten))}
	case one.Decided == nil:
		return p.settle(one, now)
	case one.Released == nil:
		return []due.Work{p.release(one)}
	case one.Ruled != nil && one.Released.Amount < one.Ruled.Amount && p.whole(one):
		return []due.Work{p.follow(one)}
	}
	return p.finish(one, now)
}

// payout returns what the provider gets of what was agreed, and by which rule. wait means that a person must decide: also about the
// only one of several deliveries that came, where one was to be chosen, and about a share of what is held over Lightning.
func (one payment) payout(agreed uint64) (amount uint64, rule string, wait bool) {
	switch {
	case one.Verdict == nil:
		return 0, ruleUndone, false
	case one.Alone:
		return agreed, rulePerson, true
	}
	amount, rule, wait = payout(one.Order, *one.Verdict, agreed)
	return amount, rule, wait || one.Holds && amount != 0 && amount != agreed
}

// payout is that of the payment, and waits for a person if the owner's limit for weak verdicts and opinions says so.
func (p *Pay) payout(one payment, agreed uint64) (amount uint64, rule string, wait bool) {
	amount, rule, wait = one.payout(agreed)
	alone := slices.Contains([]string{ruleConsensus, ruleOutdone, ruleWeak}, rule)
	over := alone && p.c.Opinions > 0 && msats(one.Order.Unit, amount) > p.c.Opinions
	return amount, rule, wait || over
}

// earned reports whether the verdict pays the provider anything, or may.
func (one payment) earned() bool {
	if one.Verdict == nil {
		return false
	}
	amount, _, wait := one.payout(one.agreed())
	return amount > 0 || wait || one.Voting
}

// refuse ends an attempt whose quote is not paid.
func (p *Pay) refuse(one payment) []due.Work {
	if one.Over || !p.c.Waiting(one.Attempt) {
		return nil
	}
	return []due.Work{decide("do not pay "+one.Attempt.Hex(), fact.JobSubject(one.Job), func() bool { return p.c.Waiting(one.Attempt) },
		func() fact.Fact {
			return fact.AttemptRefused{Attempt: one.Attempt, Reason: "it is not paid: " + one.Refused, Event: one.Quote, Unpaid: true}
		})}
}

// reserve decides whether a quote is paid, and plans the lock in the same decision if that can be taken back.
func (p *Pay) reserve(one payment) due.Work {
	return due.Work{
		Key: "reserve money for " + one.Attempt.Hex(), Guard: fact.Ledger, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			q, unit, err := readQuote(one.Terms, one.Attempt)
			mints := p.mints(q, unit)
			if err == nil {
				err = q.check(one, unit, mints, p.fold.Frozen())
			}
			if err != nil {
				return p.refused(one, err), nil
			}
			var terms []wallet.Terms
			for _, m := range mints {
				t, failed := p.c.Wallet.Terms(ctx, wallet.Asset{Mint: m, Unit: unit})
				if failed == nil {
					terms = append(terms, t)
				}
				err = errors.Join(err, failed)
			}
			if len(terms) == 0 {
				return nil, err
			}
			return p.reserved(one, q, terms)
		},
	}
}

// mints returns the mints of this wallet that a provider takes, in its order.
func (p *Pay) mints(q quote, unit string) (both []string) {
	ours := p.c.Wallet.Fold().Mints()
	for _, url := range q.mints {
		if slices.Contains(ours, wallet.Asset{Mint: url, Unit: unit}) && !slices.Contains(both, url) {
			both = append(both, url)
		}
	}
	return both
}

// refused returns the decision that a quote is not paid.
func (p *Pay) refused(one payment, why error) due.Decision {
	return func(tx *journal.Tx) error {
		if now, ok := p.fold.payment(one.Attempt); ok && now.Reserved == nil && now.Refused == "" {
			tx.Append(fact.PaymentRefused{Attempt: one.Attempt, Reason: guild.Cut(why.Error(), 500)})
		}
		return nil
	}
}

// reserved returns the decision that sets the money aside, at the first mint where there is enough.
func (p *Pay) reserved(one payment, q quote, terms []wallet.Terms) (due.Decision, error) {
	key, err := p.c.Wallet.Seed().Key(wallet.PayerKey, one.Attempt.Hex())
	if err != nil {
		return nil, err
	}
	op, lock := wallet.NewOp(), fact.EcashLock{Provider: q.key}
	if one.Order.How == escrow {
		lock = p.locked(one, q, key.PubKey(), op)
	}
	return func(tx *journal.Tx) error {
		now, ok := p.fold.payment(one.Attempt)
		switch {
		case !ok || now.Reserved != nil || now.Refused != "" || now.Over || p.asks(now) > 0:
			return nil
		case p.fold.Frozen():
			return p.refused(one, errFrozen)(tx)
		case one.Order.How == prepaid && one.stale(tx.Now()):
			return p.refused(one, errStale)(tx)
		}
		var why error
		for _, t := range terms {
			r := one.wants(t.Asset.Unit, q.amount)
			planned, err := p.c.Wallet.PlanSpend(op, t, one.Attempt.Hex(), &lock, one.parts(r.Unit, r.Amount)...)
			r.Mint, r.Fee, r.Op = planned.Mint, planned.Fee, op
			if err == nil {
				err = cmp.Or(tooDear(planned.Fee, r.Amount, r.Unit), tooDear(claiming(t, one.coins(r.Unit, r.Amount)), r.Amount, r.Unit))
			}
			if err == nil {
				err = p.affordable(now, r, tx.Now())
			}
			if err != nil {
				why = errors.Join(why, err)
				continue
			}
			tx.Append(r)
			if one.Order.How == escrow {
				tx.Append(planned)
				p.c.Wallet.Planned(op)
			}
			return nil
		}
		return p.refused(one, why)(tx)
	}, nil
}

// affordable returns why a payment with the mint's fee is not made by the owner's limits, or nil. The fee is not known when the owner is
// asked about a price, so it is refused if only the fee takes it over that limit.
func (p *Pay) affordable(one payment, r fact.PaymentReserved, now time.Time) (err error) {
	p.fold.View(func(s *state) {
		err = s.within(r, now.UnixMilli())
		if limit := s.limit(r); err == nil && limit > 0 && !one.Allowed {
			err = fmt.Errorf("%d %s and the mint's fee of %d are over %d (guild wallet budget --ask-over)", r.Amount, r.Unit, r.Fee, limit)
		}
	})
	return err
}

// tooDear returns an error if a mint's fee is more than a tenth of an amount, and more than the smallest there is.
func tooDear(fee, amount uint64, unit string) error {
	if fee <= max(1, amount/10) {
		return nil
	}
	return fmt.Errorf("the mint's fee of %d %s is over a tenth of %d", fee, unit, amount)
}

// claiming returns what a mint takes from the provider for the coins of a lock.
func claiming(t wallet.Terms, coins int) uint64 { return (uint64(coins)*t.Keyset.Fee + 999) / 1000 }

// sendLock sends the provider the locked ecash, as the answer to its payment request.
func (p *Pay) sendLock(one payment) due.Work {
	return due.Work{
		Key: "send the lock for " + one.Attempt.Hex(), Guard: fact.Ledger, Tries: mostTries,
		Act: func(ctx context.Context) (due.Decision, error) {
			sent := token.Payment{ID: one.Attempt.Hex(), Mint: one.Reserved.Mint, Unit: one.Reserved.Unit}
			if one.Order.Arbiter != nil {
				salt := p.c.Wallet.Seed().Salt(one.Reserved.Op)
				sent.Memo = hex.EncodeToString(salt[:])
			}
			coins, amounts := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
			for _, c := range coins {
				proof, err := p.c.Wallet.Proof(c)
				if err != nil {
					return nil, err
				}
				sent.Proofs = append(sent.Proofs, proof)
			}
			if sum, err := cashu.Sum(amounts...); err != nil || sum != one.Reserved.Amount { // the mint has refused to lock it
				return nil, fmt.Errorf("send the locked money for %.8s: %d of %d %s are locked", one.Attempt.Hex(), sum, one.Reserved.Amount, one.Reserved.Unit)
			}
			paid := []fact.Fact{fact.PaymentSent{Attempt: one.Attempt}}
			if one.Order.How == prepaid {
				proof, err := p.shown(ctx, one, sent.Proofs)
				if err != nil {
					return nil, err
				}
				paid = append(paid, one.paid(coins, proof))
			}
			if err := p.send(ctx, one.Provider.PubKey, "Payment", sent.String()); err != nil {
				return nil, fmt.Errorf("send the locked money for %.8s: %w", one.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				if now, ok := p.fold.payment(one.Attempt); ok && now.Reserved != nil && !now.Sent {
					tx.Append(paid...)
				}
				return nil
			}, nil
		},
		Park: func(tx *journal.Tx, _ string) { // it is the provider's all the same, and of no other use
			if one.Order.How == prepaid {
				coins, _ := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
				tx.Append(fact.PaymentSent{Attempt: one.Attempt}, one.paid(coins, ""))
			}
		},
	}
}

// settle decides what the provider gets. What waits for a person is decided by the locktime if nobody comes.
func (p *Pay) settle(one payment, now time.Time) []due.Work {
	amount, rule, wait := p.payout(one, one.agreed())
	amount = one.payable(amount)
	switch {
	case !now.Before(p.locktime(one)): // the provider counts on nothing any more
		amount, rule = 0, ruleForgotten
	case one.Approved != nil:
		amount, rule = one.Approved.Amount, rulePerson
	case wait, one.Voting:
		return []due.Work{due.Decide("the locktime of "+one.Attempt.Hex(), fact.Ledger, p.locktime(one), p.decided(one, 0, ruleForgotten))}
	}
	return []due.Work{due.Decide("decide the payment for "+one.Attempt.Hex(), fact.Ledger, time.Time{}, p.decided(one, amount, rule))}
}

func (p *Pay) decided(one payment, amount uint64, rule string) due.Decision {
	return func(tx *journal.Tx) error {
		if now, ok := p.fold.payment(one.Attempt); ok && now.Decided == nil {
			tx.Append(fact.PaymentDecided{Attempt: one.Attempt, Amount: amount, Rule: rule})
		}
		return nil
	}
}

// locktime returns when the locked ecash can be taken back without the provider, or when we decide nothing any more about what is held
// over Lightning.
func (p *Pay) locktime(one payment) time.Time {
	if one.Holds {
		return lockedUntil(time.UnixMilli(one.Deadline), nil)
	}
	q, _, err := readQuote(one.Terms, one.Attempt)
	if err != nil { // it was read before
		return time.UnixMilli(one.Deadline).Add(longest)
	}
	return time.Unix(q.locktime, 0)
}

// release signs over what the provider gets, and tells it. If that is nothing, the message says so and why.
func (p *Pay) release(one payment) due.Work {
	coins, amounts := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
	coins, _, unlike := one.divide(coins, amounts, one.Decided.Amount)
	released := fact.PaymentReleased{Attempt: one.Attempt, Mint: one.Reserved.Mint, Unit: one.Reserved.Unit, Amount: one.Decided.Amount, Coins: coins}
	return due.Work{
		Key: "release the payment for " + one.Attempt.Hex(), Guard: fact.Ledger, Tries: mostTries,
		Act: func(ctx context.Context) (due.Decision, error) {
			if unlike != nil {
				return nil, fmt.Errorf("release the payment for %.8s: %w", one.Attempt.Hex(), unlike)
			}
			signed, proof, err := p.signed(ctx, one, coins)
			if err != nil {
				return nil, err
			}
			released := released
			released.Proof = proof
			content, err := dm.Signatures{Type: dm.TypeRelease, Request: one.Attempt, Amount: one.Decided.Amount, Signatures: signed, Reason: one.why()}.Encode()
			if err == nil {
				err = p.send(ctx, one.Provider.PubKey, "Payment released", content)
			}
			if err != nil {
				return nil, fmt.Errorf("release the payment for %.8s: %w", one.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				if now, ok := p.fold.payment(one.Attempt); ok && now.Released == nil {
					tx.Append(released)
				}
				return nil
			}, nil
		},
		Park: func(tx *journal.Tx, _ string) { // what nobody gets need not be told: it is ours at the locktime
			if one.Decided.Amount == 0 {
				tx.Append(released)
			}
		},
	}
}

// why tells the provider by which rule it gets what it gets.
func (one payment) why() string {
	if one.Verdict == nil {
		return "there was no delivery"
	}
	return strings.ToLower(fmt.Sprintf("%s, %s", one.Verdict.Outcome, one.Verdict.Strength))
}

// signed returns the customer's signatures on locked coins, by their Y, and the proof of that for the receipt.
func (p *Pay) signed(ctx context.Context, one payment, coins []fact.Coin) (all map[string]string, proof string, err error) {
	key, err := p.c.Wallet.Seed().Key(wallet.PayerKey, one.Attempt.Hex())
	if err != nil {
		return nil, "", err
	}
	all = map[string]string{}
	var proofs []cashu.Proof
	for _, c := range coins {
		one, err := p.c.Wallet.Proof(c)
		if err != nil {
			return nil, "", err
		}
		var w cashu.Witness
		if err := w.Sign(key, one.Secret); err != nil {
			return nil, "", err
		}
		all[cashu.HashToCurve(one.Secret).String()] = w.Signatures[0]
		one.Witness = w.Text()
		proofs = append(proofs, one)
	}
	if len(coins) == 0 {
		return all, "", nil
	}
	proof, err = p.shown(ctx, one, proofs)
	return all, proof, err
}

// finish lists what is due after the release: the attempt learns of it, and the rest comes back.
func (p *Pay) finish(one payment, now time.Time) (work []due.Work) {
	rest, _ := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
	lost := uint64(0)
	if len(rest) == 0 {
		lost = one.lostToRuling()
	}
	switch {
	case len(rest) == 0 && one.Released.Amount+lost == 0 && !one.Noted:
		if !one.Over {
			break // the attempt learns of it when it ends
		}
		proof, err := p.refunded(one)
		if err == nil {
			work = append(work, p.note(one, fact.AttemptRefunded{Attempt: one.Attempt, Rule: one.Decided.Rule, Proof: proof}))
		}
	case len(rest) > 0 && !p.c.Wallet.Fold().Open(one.Refund):
		work = append(work, p.refund(one, rest, now))
	}
	if one.Released.Amount+lost > 0 && one.Over && !one.Noted {
		got := fact.AttemptReleased{
			Attempt: one.Attempt, Amount: msats(one.Reserved.Unit, one.Released.Amount+lost), Rule: one.by(one.Decided.Rule), Proof: one.Released.Proof,
		}
		if lost > 0 {
			got.Rule, got.Proof = ruleArbiter, "" // the proof that we have is of less
		}
		note := p.note(one, got)
		if len(rest) > 0 && one.contestable() { // a mint may never give it back: its fee can be as much
			note.Ready = p.locktime(one).Add(judging)
		}
		work = append(work, note)
	}
	return work
}

// note records at the attempt what became of its money.
func (p *Pay) note(one payment, with fact.Fact) due.Work {
	return decide("note the payment for "+one.Attempt.Hex(), fact.JobSubject(one.Job), func() bool {
		now, ok := p.fold.payment(one.Attempt)
		return ok && !now.Noted
	}, func() fact.Fact { return with })
}

// refund takes locked ecash back: with the provider's signatures or the arbiter's if they sent them, else after the locktime.
func (p *Pay) refund(one payment, coins []fact.Coin, now time.Time) due.Work {
	work := due.Work{Key: "take back the money of " + one.Attempt.Hex(), Guard: fact.Ledger, Free: true}
	var cosigned []string
	for _, c := range coins {
		proof, err := p.c.Wallet.Proof(c)
		if err != nil {
			break
		}
		if s := one.cosignature(cashu.HashToCurve(proof.Secret).String()); s != "" {
			cosigned = append(cosigned, s)
		}
	}
	if len(cosigned) < len(coins) {
		cosigned, work.Ready = nil, p.locktime(one).Add(time.Minute) // the mint's clock may be behind ours
	}
	if again := one.Failed.again(); again.After(work.Ready) {
		work.Ready = again
	}
	op := wallet.NewOp()
	work.Act = func(ctx context.Context) (due.Decision, error) {
		t, err := p.c.Wallet.Terms(ctx, wallet.Asset{Mint: one.Reserved.Mint, Unit: one.Reserved.Unit})
		return func(tx *journal.Tx) error {
			if now, ok := p.fold.payment(one.Attempt); !ok || now.Refund != one.Refund {
				return nil
			}
			planned, err := p.c.Wallet.PlanRefund(op, t, one.Attempt.Hex(), coins, cosigned)
			if err == nil {
				tx.Append(planned)
				p.c.Wallet.Planned(op)
			}
			return err
		}, err
	}
	return work
}

// TakeReturn takes a provider's signatures on money that it does not get. The error is a *guild.DropError if they are of no
// use.
func (p *Pay) TakeReturn(ctx context.Context, m dm.Message) error {
	s, err := dm.DecodeSignatures(m.Content, dm.TypeReturn)
	if err != nil {
		return err
	}
	return p.c.Journal.Do(ctx, fact.Ledger, m.ID.Hex(), func(tx *journal.Tx) error {
		one, ok := p.fold.payment(s.Request)
		if !ok || one.Reserved == nil || one.Provider.PubKey != m.From || one.Back != nil {
			return guild.Drop(guild.Unrequested, "signatures for no money of ours")
		}
		if one.Decided == nil {
			return guild.Drop(guild.Unrequested, "signatures before the verdict")
		}
		coins, amounts := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
		if one.Released == nil { // the provider was faster than the fact that it was told
			if _, coins, err = one.divide(coins, amounts, one.Decided.Amount); err != nil {
				return err
			}
		}
		good := map[string]string{}
		for _, c := range coins {
			proof, err := p.c.Wallet.Proof(c)
			if err != nil {
				return err
			}
			y := cashu.HashToCurve(proof.Secret).String()
			if signs(proof.Secret, s.Signatures[y], 0) {
				good[y] = s.Signatures[y]
			}
		}
		if len(good) < len(coins) {
			return guild.Drop(guild.Malformed, "%d of the provider's %d signatures do", len(good), len(coins))
		}
		tx.Append(fact.PaymentReturned{Attempt: one.Attempt, Signatures: good})
		return nil
	})
}

// signs reports whether a signature on a locked secret is that of its n-th key.
func signs(secret, signature string, n int) bool {
	c, ok, err := cashu.ParseCondition(secret)
	if err != nil || !ok || len(c.Keys) <= n {
		return false
	}
	c.Keys, c.Sigs, c.Locktime, c.Refund, c.RefundSigs = c.Keys[n:n+1], 1, 0, nil, 0
	return c.Check(secret, cashu.Witness{Signatures: []string{signature}}, time.Time{}) == nil
}

// Approve is a person's decision about money that waits for one: how much of it the provider gets, in the unit. Before the work
// it is about the price: that it is locked or paid, or with 0 that it is not.
func (p *Pay) Approve(ctx context.Context, attempt nostr.ID, amount uint64) error {
	return p.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		one, ok := p.fold.payment(attempt)
		switch {
		case !ok:
			return fmt.Errorf("approve the payment for %.8s: %w", attempt.Hex(), ErrNoPayment)
		case p.asks(one) > 0:
			return one.allow(tx, amount)
		}
		return p.railOf(one).approve(tx, one, amount)
	})
}

func (p ecash) approve(tx *journal.Tx, one payment, amount uint64) error {
	id := one.Attempt.Hex()
	switch {
	case one.Reserved == nil || !one.Over || one.Order.How == prepaid:
		return fmt.Errorf("approve the payment for %.8s: %w", id, ErrNoPayment)
	case !tx.Now().Before(p.locktime(one)):
		return fmt.Errorf("approve the payment for %.8s: its locktime is over, so it comes back", id)
	case one.Decided != nil:
		return fmt.Errorf("approve the payment for %.8s: it is decided: %d %s", id, one.Decided.Amount, one.Reserved.Unit)
	}
	coins, amounts := p.c.Wallet.Fold().Outputs(one.Reserved.Op)
	if _, _, err := one.divide(coins, amounts, amount); err != nil {
		return fmt.Errorf("approve the payment for %.8s: %w", id, err)
	}
	tx.Append(fact.PaymentApproved{Attempt: one.Attempt, Amount: amount})
	return nil
}

// postpaid is the settlement over Lightning after the work.
const postpaid = "postpaid"

// direct reports whether a provider can be paid over Lightning.
func (one payment) direct() bool {
	return one.Invoice != "" && one.Order.InBitcoin() && (one.Order.How != escrow || one.Holds)
}

var errFrozen = errors.New("the wallet is frozen (guild wallet freeze --off)")

// ErrNoPayment means that no money waits for a decision.
var ErrNoPayment = errors.New("no money waits for a decision there")

// assetID returns the id of ecash in a receipt, such as TEST_CASHU(https://mint.example).
func assetID(r fact.PaymentReserved) string {
	ticker := strings.ToUpper(r.Unit)
	if r.Unit == "sat" || r.Unit == "msat" {
		ticker = "BTC"
	}
	return fmt.Sprintf("%s_CASHU(%s)", ticker, r.Mint)
}

// msats returns an amount in a receipt: in millisatoshis, or of what is not bitcoin in thousandths of the unit.
func msats(unit string, amount uint64) guild.Msat {
	if unit == "msat" {
		return guild.Msat(amount)
	}
	return guild.Msat(amount) * 1000
}
