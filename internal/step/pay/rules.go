package pay

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
	"guild/nip90"
)

// escrow is the settlement that locks ecash before the work, or has the payment held over Lightning.
const escrow = "escrow"

// Times around a lock.
const (
	judging   = time.Hour          // after the deadline, for the verdict
	objecting = 24 * time.Hour     // after the verdict, for objections
	ruling    = 48 * time.Hour     // after that, for an arbiter
	longest   = 8 * 24 * time.Hour // from the deadline to the locktime, at most: a longer lock would tie the customer's money up
)

// Locktime returns the earliest time at which a customer may take back what it locked for work with a deadline.
func Locktime(deadline time.Time) time.Time { return deadline.Add(judging + objecting) }

// lockedUntil returns the same for a lock on which an arbiter may have to rule, or nil.
func lockedUntil(deadline time.Time, a *nip90.Arbiter) time.Time {
	if a != nil {
		return Locktime(deadline).Add(ruling)
	}
	return Locktime(deadline)
}

// Rules by which a payment is decided, in the receipt's approval_rule_id.
const (
	ruleStrong    = "verdict.strong"
	ruleMixed     = "verdict.mixed"
	ruleWeak      = "order.weak"
	rulePartial   = "order.partial"
	ruleConsensus = "verdict.consensus"
	ruleOutdone   = "order.outdone"
	ruleNothing   = "verdict.nothing"
	ruleUndone    = "no-delivery"
	rulePerson    = "person"
	ruleForgotten = "locktime" // nobody decided until then
	ruleArbiter   = "arbiter"  // on the provider's objection
)

// payout returns what the provider of a judged delivery gets of what was agreed, and by which rule. wait means that a person
// must decide. A person's ruling counts as strong. Of results that only an opinion can tell apart, those that it chose or that
// agree get what was agreed, and the outdone what the order names, without asking.
func payout(o fact.Settlement, v guild.Verdict, agreed uint64) (amount uint64, rule string, wait bool) {
	switch {
	case v.Outcome == guild.Success && v.Ruling != nil:
		return agreed, rulePerson, false
	case v.Outcome == guild.Success && v.Opinion != nil:
		return agreed, ruleConsensus, false
	case v.Outcome == guild.Partial && v.Ruling == nil && v.Opinion != nil:
		return share(agreed, o.Partial), ruleOutdone, false
	case v.Outcome == guild.Success && v.Strength == guild.Strong:
		return agreed, ruleStrong, false
	case v.Outcome == guild.Success && v.Strength == guild.Mixed:
		return share(agreed, o.Mixed), ruleMixed, false
	case v.Outcome == guild.Success && v.Strength == guild.Weak:
		return agreed, ruleWeak, agreed > o.Weak
	case v.Outcome == guild.Partial && (v.Ruling != nil || v.Strength != guild.Unverified):
		return share(agreed, o.Partial), rulePartial, o.Partial == 0
	}
	return 0, ruleNothing, false
}

// share returns some per cent of an amount, rounded down.
func share(amount uint64, percent int) uint64 {
	p := uint64(max(0, min(percent, 100)))
	return amount/100*p + amount%100*p/100
}

// quote is a provider's price and the lock that it asks for.
type quote struct {
	amount   uint64
	mints    []string
	key      cashu.Point // the provider's, for the lock
	arbiter  cashu.Point // whose key can replace one of the other two; zero for none
	locktime int64       // Unix s
	alone    bool        // it wants no other condition than its key
}

// readQuote reads the terms of a provider for an attempt (NUT-18).
func readQuote(terms string, attempt nostr.ID) (q quote, unit string, err error) {
	r, err := token.ParseRequest(terms)
	if err != nil {
		return q, "", err
	}
	switch {
	case r.ID != attempt.Hex():
		return q, "", errors.New("the payment request is for another job")
	case r.Amount == 0:
		return q, "", errors.New("the payment request names no amount")
	case r.Lock == nil || r.Lock.Kind != cashu.P2PK:
		return q, "", errors.New("the payment request does not ask for a lock")
	}
	q = quote{amount: r.Amount, mints: r.Mints}
	if q.key, err = cashu.ParsePoint(r.Lock.Data); err != nil {
		return q, "", fmt.Errorf("the provider's key: %w", err)
	}
	q.alone = !slices.ContainsFunc(r.Lock.Tags, func(tag []string) bool {
		return !slices.Equal(tag, []string{"n_sigs", "1"}) && !slices.Equal(tag, []string{"sigflag", "SIG_INPUTS"})
	})
	for _, tag := range r.Lock.Tags {
		switch {
		case len(tag) == 2 && tag[0] == "locktime":
			if q.locktime, err = strconv.ParseInt(tag[1], 10, 64); err != nil {
				return q, "", fmt.Errorf("the locktime %.20q: %w", tag[1], err)
			}
		case len(tag) > 0 && tag[0] == "pubkeys":
			if len(tag) != 2 {
				return q, "", fmt.Errorf("the payment request asks for %d more keys in the lock, and one is understood", len(tag)-1)
			}
			if q.arbiter, err = cashu.ParsePoint(tag[1]); err != nil {
				return q, "", fmt.Errorf("the arbiter's key: %w", err)
			}
		}
	}
	return q, r.Unit, nil
}

// check returns why a quote is not paid, or nil.
func (q quote) check(p payment, unit string, mints []string, frozen bool) error {
	least := lockedUntil(time.UnixMilli(p.Deadline), p.Order.Arbiter).Unix()
	badArbiter := q.checkArbiter(p)
	switch {
	case frozen:
		return errFrozen
	case unit != p.Order.Unit:
		return fmt.Errorf("wants %q and the order is in %q", guild.Cut(unit, 20), p.Order.Unit)
	case q.amount > p.Order.Most:
		return fmt.Errorf("wants %d %s, and the order bids %d %s", q.amount, unit, p.Order.Most, p.Order.Unit)
	case p.Rates != nil && fixedOver(*p.Rates, unit, q.amount):
		return fmt.Errorf("wants a fixed part of %d thousandths, and asks to lock %d %s", p.Rates.Price, q.amount, unit)
	case p.coins(unit, q.amount) > maxCoins:
		return fmt.Errorf("wants %d %s, which is locked in %d coins, and %d fit into a message: a rounder price or share takes less",
			q.amount, unit, p.coins(unit, q.amount), maxCoins)
	case len(mints) == 0:
		return fmt.Errorf("takes none of the mints of this wallet (%.200q): add one with guild wallet add mint URL", q.mints)
	case p.Order.How == prepaid && !q.alone:
		return errors.New("takes ecash in escrow, and the order pays before the work (--settle escrow)")
	case p.Order.How == prepaid && p.direct() && q.amount != whole(unit, p.Price):
		return fmt.Errorf("wants %d %s in ecash, and %s over Lightning", q.amount, unit, p.Price)
	case p.Order.How != prepaid && q.alone:
		return errors.New("wants to be paid before the work, and the order pays by the verdict (--settle prepaid)")
	case p.Order.How == prepaid:
	case badArbiter != nil:
		return badArbiter
	case q.locktime < least:
		return errors.New("wants the money back before an objection would be heard")
	case q.locktime > time.UnixMilli(p.Deadline).Add(longest).Unix():
		return fmt.Errorf("wants the money locked for longer than %s after the deadline", longest)
	}
	return nil
}

// demand has the conditions that a provider sets for a lock.
type demand struct {
	ours     cashu.Point
	amount   uint64
	unit     string
	mints    []string
	locktime int64       // Unix s, the earliest
	alone    bool        // ours is the only key, for ever
	arbiter  cashu.Point // zero for none
	parties  guild.Hash  // that the nonces commit to, for the arbiter
}

// check returns why a customer's lock does not do, or nil. The mint's signatures are checked elsewhere.
func (d demand) check(mint, unit string, proofs []cashu.Proof) error {
	if !slices.Contains(d.mints, mint) || unit != d.unit {
		return fmt.Errorf("%.20q of %.200q was not asked for", unit, mint)
	}
	if len(proofs) > maxCoins {
		return fmt.Errorf("it is in %d coins, and at most %d are taken", len(proofs), maxCoins)
	}
	seen := map[string]bool{}
	var theirs cashu.Point
	for i, p := range proofs {
		c, ok, err := cashu.ParseCondition(p.Secret)
		switch {
		case err != nil:
			return fmt.Errorf("ecash %d: %w", i+1, err)
		case !ok || c.Kind != cashu.P2PK:
			return fmt.Errorf("ecash %d is not locked", i+1)
		case c.All:
			return fmt.Errorf("ecash %d must be signed for with all others (SIG_ALL)", i+1)
		case d.alone && (len(c.Keys) != 1 || c.Sigs != 1 || c.Keys[0] != d.ours || c.Locktime != 0 || len(c.Refund) > 0):
			return fmt.Errorf("ecash %d is not locked to us alone", i+1)
		case seen[p.Secret]:
			return fmt.Errorf("ecash %d is there twice", i+1)
		case d.alone:
			seen[p.Secret] = true
			continue
		case len(c.Keys) != d.keys() || c.Sigs != 2 || c.Keys[0] != d.ours || !distinct(c.Keys):
			return fmt.Errorf("ecash %d is not locked to us and the customer", i+1)
		case d.arbiter != cashu.Point{} && (c.Keys[2] != d.arbiter || c.Nonce != wallet.Nonce(d.parties, i)):
			return fmt.Errorf("ecash %d is not locked so that the arbiter could rule on it", i+1)
		case c.Locktime < d.locktime:
			return fmt.Errorf("ecash %d is the customer's again too early", i+1)
		case c.Locktime > d.locktime+int64(longest/time.Second):
			return fmt.Errorf("ecash %d is locked for too long", i+1)
		case i > 0 && c.Keys[1] != theirs:
			return fmt.Errorf("ecash %d has another key of the customer", i+1)
		}
		seen[p.Secret], theirs = true, c.Keys[1]
	}
	sum, err := cashu.Worth(proofs)
	switch {
	case err != nil:
		return err
	case sum != d.amount:
		return fmt.Errorf("it is worth %d %s, and the price is %d %s", sum, unit, d.amount, d.unit)
	}
	return nil
}
