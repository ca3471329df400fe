package verify

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/cashu"
	"guild/cashu/token"
	"guild/nip90"
)

// escrowTerms is the lock that a provider asked for: by its key, which is another one than that of its events.
type escrowTerms struct {
	key      [32]byte // x-only
	arbiter  [32]byte // x-only, of the arbiter that it takes; zero, which is no point's, for none
	locktime int64    // Unix s, the earliest; 0 for any
	alone    bool     // no other condition than the key
	price    guild.Msat
}

// price checks that a quote asks for at least an amount of ecash in a unit of a mint: in its payment request (NUT-18), or
// without one for exactly the amount of its amount tag. It returns the lock that the payment request asks for, or nil.
func (p payment) price(f nip90.Feedback, mint, unit string, amount guild.Msat) (*escrowTerms, error) {
	switch {
	case f.Terms == "" && !inBitcoin(unit):
		return nil, absence("the provider's quote has no price in the unit of the ecash")
	case f.Terms == "" && f.Amount != amount:
		return nil, fmt.Errorf("the quote asks for %s, and the receipt says that %s were paid", f.Amount, amount)
	case f.Terms == "":
		return nil, nil
	}
	r, err := parseRequest(f.Terms)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the quote: %w", err)
	case r.ID != p.receipt.RequestEvent.Hex():
		return nil, errors.New("the payment request in the quote is for another request than the one of the receipt")
	case r.Unit != unit:
		return nil, fmt.Errorf("the quote asks for %.20q, and the ecash is in %.20q", r.Unit, unit)
	case r.Amount > math.MaxInt64/each(unit):
		return nil, errors.New("the quote asks for more than there is")
	case guild.Msat(r.Amount*each(unit)) < amount:
		return nil, fmt.Errorf("the quote asks for %s, and the receipt says %s", sum(guild.Msat(r.Amount*each(unit)), unit), sum(amount, unit))
	case len(r.Mints) > 0 && !slices.Contains(r.Mints, mint):
		return nil, fmt.Errorf("the quote does not take ecash of %.80q", mint)
	case r.Lock == nil:
		return nil, nil
	}
	terms, err := readTerms(*r.Lock)
	if err != nil {
		return nil, err
	}
	terms.price = guild.Msat(r.Amount * each(unit))
	return terms, nil
}

// readTerms reads the lock that a payment request asks for.
func readTerms(lock token.RequestedLock) (*escrowTerms, error) {
	key, err := cashu.ParsePoint(lock.Data)
	if lock.Kind != cashu.P2PK || err != nil {
		return nil, errors.New("the lock that the quote asks for is not to a key")
	}
	terms := escrowTerms{key: [32]byte(key[1:]), alone: onlyKey(lock.Tags)}
	for _, tag := range lock.Tags {
		if len(tag) != 2 || tag[0] != "locktime" {
			continue
		}
		n, err := strconv.ParseInt(tag[1], 10, 64)
		if err != nil || n < 1 || strconv.FormatInt(n, 10) != tag[1] {
			return nil, errors.New("the locktime that the quote asks for is not a time")
		}
		terms.locktime = n
	}
	if terms.arbiter, err = askedArbiter(lock.Tags, terms.key); err != nil {
		return nil, err
	}
	return &terms, nil
}

// askedArbiter returns the x coordinate of the arbiter's key that the tags of a requested lock name, or zero. With it any two of three keys
// have to open the lock: a lock to more keys, or to another number of them, would not be the one that is checked here.
func askedArbiter(tags [][]string, provider [32]byte) (arbiter [32]byte, err error) {
	var keys, sigs [][]string
	for _, tag := range tags {
		switch {
		case len(tag) > 0 && tag[0] == "pubkeys":
			keys = append(keys, tag)
		case len(tag) > 0 && tag[0] == "n_sigs":
			sigs = append(sigs, tag)
		}
	}
	if len(keys) == 0 {
		return arbiter, nil
	}
	if len(keys) != 1 || len(keys[0]) != 2 {
		return arbiter, errors.New("the quote asks for a lock to other keys than the provider's, the customer's and one arbiter's")
	}
	key, err := cashu.ParsePoint(keys[0][1])
	switch {
	case err != nil:
		return arbiter, fmt.Errorf("the arbiter's key that the quote asks for: %w", err)
	case [32]byte(key[1:]) == provider:
		return arbiter, errors.New("the arbiter's key that the quote asks for is the provider's")
	case len(sigs) != 1 || !slices.Equal(sigs[0], []string{"n_sigs", "2"}):
		return arbiter, errors.New("the quote asks for an arbiter's key, and not that two of three keys open the lock")
	}
	return [32]byte(key[1:]), nil
}

var errNoLock = errors.New("the provider's quote asks for no lock")

// escrow has the keys and the locktime of the locks, which all coins share. Two of the provider's key, the customer's and, if there is
// one, an arbiter's are needed to spend a coin. If nobody does until the locktime, the customer's alone is enough.
type escrow struct {
	coins              int
	provider, customer [32]byte // x-only
	arbiter            [32]byte // x-only; zero, which is no point's, for none
	locktime           int64    // Unix s, of the first that ends; 0 for never
}

// judged reports whether one of the keys is an arbiter's.
func (h escrow) judged() bool { return h.arbiter != [32]byte{} }

// ofEscrow returns the lock in a secret if it has several keys (NUT-11).
func ofEscrow(secret string) (cashu.Condition, bool) {
	if _, err := canon.Canonical([]byte(secret)); err != nil { // two parsers could read it differently
		return cashu.Condition{}, false
	}
	c, ok, err := cashu.ParseCondition(secret)
	return c, ok && err == nil && c.Kind == cashu.P2PK && len(c.Keys) > 1
}

// checkEscrow checks that a coin is locked as an escrow, as those before it, and that the customer has released it: by the
// signature of the second key, also where an arbiter ruled. The provider adds that of the first one when it spends the coin. Nobody else
// can, but for the arbiter who has the third key, if there is one.
func (c ecashProof) checkEscrow(lock cashu.Condition, held *escrow) error {
	one := escrow{coins: held.coins + 1, provider: [32]byte(lock.Keys[0][1:]), customer: [32]byte(lock.Keys[1][1:]), locktime: lock.Locktime}
	if len(lock.Keys) == 3 {
		one.arbiter = [32]byte(lock.Keys[2][1:])
	}
	switch {
	case lock.All:
		return errors.New("what opens its lock is signed together with what it was swapped for, which is not here")
	case len(lock.Keys) == 2 && lock.Sigs != 2:
		return fmt.Errorf("it can be spent by %d of %d keys, and not by both of two alone", lock.Sigs, len(lock.Keys))
	case len(lock.Keys) > 3 || lock.Sigs != 2:
		return fmt.Errorf("it can be spent by %d of %d keys, and not by two of three", lock.Sigs, len(lock.Keys))
	case one.provider == one.customer || one.arbiter == one.provider || one.arbiter == one.customer:
		return errors.New("two of its keys are one")
	case lock.Locktime == 0 && len(lock.Refund) > 0 || lock.Locktime > 0 && len(lock.Refund) != 1:
		return errors.New("after its locktime it is not the customer's alone")
	case len(lock.Refund) == 1 && [32]byte(lock.Refund[0][1:]) != one.customer:
		return errors.New("after its locktime it is somebody else's")
	case held.coins > 0 && (one.provider != held.provider || one.customer != held.customer || one.arbiter != held.arbiter):
		return errors.New("it is locked to other keys than those before it")
	}
	if held.locktime > 0 && (one.locktime == 0 || held.locktime < one.locktime) {
		one.locktime = held.locktime
	}
	*held = one
	return c.checkWitness(one.customer[:], "customer")
}

// follows checks that the lock is the one that the provider asked for; nil if it asked for none.
func (h escrow) follows(terms *escrowTerms) error {
	switch {
	case terms == nil:
		return errNoLock
	case terms.alone:
		return errors.New("it is locked to a second key, and the provider's quote asks for none")
	case h.provider != terms.key:
		return errors.New("it is locked to another key than the one in the provider's quote")
	case h.judged() && terms.arbiter == [32]byte{}:
		return errors.New("it is locked to a third key, and the provider's quote asks for no arbiter's")
	case h.arbiter != terms.arbiter:
		return errors.New("it is not locked to the arbiter's key that the provider's quote asks for")
	case h.locktime > 0 && h.locktime < terms.locktime:
		return errors.New("it is the customer's again before the time that the provider's quote asks for")
	}
	return nil
}

// named checks that a request in clear names the arbiter whose key is one of the lock's. An encrypted request, or nil, says nothing of it.
func (h escrow) named(request *nostr.Event) error {
	if !h.judged() || request == nil || sealed(*request) {
		return nil
	}
	a := nip90.ArbiterOf(request.Tags)
	switch {
	case a == nil:
		return errors.New("it is locked to an arbiter's key, and the request names no arbiter")
	case [32]byte(a.Key[1:]) != h.arbiter:
		return errors.New("it is locked to another arbiter's key than the one in the request")
	}
	return nil
}

// proven says what the coins prove.
func (h escrow) proven(amount, byMint string) string {
	if h.judged() {
		return fmt.Sprintf("%s in ecash: two of the provider's, the customer's and an arbiter's key open it. The customer's has signed it over, so until "+
			"%s the provider can spend it with the key in its quote; the arbiter could have opened it too, with either of the two; %s; whether it is spent, "+
			"only the mint says (checkstate)", amount, h.until(), byMint)
	}
	return fmt.Sprintf("%s in ecash that was locked to the key in the provider's quote and to another one, which has signed it over: nobody but "+
		"the provider can spend it until %s; %s; whether the provider has spent it, only the mint says (checkstate)", amount, h.until(), byMint)
}

// unquoted says why the coins prove nothing without the quote.
func (h escrow) unquoted(amount string) error {
	keys, other := "two", "the other key"
	if h.judged() {
		keys, other = "three", "the provider's key and the arbiter's"
	}
	return absence(fmt.Sprintf("%s of it, by the customer's word, are in ecash that one of %s keys released; the provider's quote, which has %s, is not "+
		"in the export", amount, keys, other))
}

// until names the locktime.
func (h escrow) until() string {
	if h.locktime == 0 {
		return "the end of time"
	}
	return time.Unix(h.locktime, 0).UTC().Format(time.RFC3339)
}

// spent is the proof of a refund in ecash: the points of the coins that were locked (HashToCurve of their secrets), by which
// the mint is asked what became of them (NUT-07).
type spent struct {
	Mint   string   `json:"mint"`
	Unit   string   `json:"unit"`
	Amount uint64   `json:"amount"` // in the unit
	Spent  []string `json:"spent"`
}

// refund checks the form of a refund. That the money came back is the customer's claim; nothing that the provider signed
// says so.
func (p payment) refund() (string, error) {
	r := *p.receipt.Refund
	if r.Rail == "lightning" {
		return "", absence(fmt.Sprintf("nothing was paid: %s that the provider's wallet held are the customer's again, by the customer's word; "+
			"nobody else can be asked about a payment over Lightning", r.AmountMsats))
	}
	if r.Rail != "cashu" {
		return "", absence(fmt.Sprintf("a refund on the rail %.40q is not checked by this program", r.Rail))
	}
	var f nip90.Feedback
	if p.quote != nil {
		var err error
		if f, err = p.asked(); err != nil {
			return "", err
		}
	}
	var s spent
	if err := decodeJSON(r.Proof, &s); err != nil {
		return "", fmt.Errorf("the refund cannot be read: %w", err)
	}
	if err := checkAsset(s.Unit, s.Mint, r.AssetID); err != nil {
		return "", err
	}
	if s.Amount > math.MaxInt64/each(s.Unit) || guild.Msat(s.Amount*each(s.Unit)) != r.AmountMsats {
		return "", fmt.Errorf("the refund is of %d %.20s, and the receipt says %s", s.Amount, s.Unit, sum(r.AmountMsats, s.Unit))
	}
	seen := map[cashu.Point]bool{}
	for i, y := range s.Spent {
		point, err := cashu.ParsePoint(y)
		if err != nil || seen[point] {
			return "", fmt.Errorf("point %d of the refund is not one of another coin", i+1)
		}
		seen[point] = true
	}
	if len(seen) == 0 {
		return "", errors.New("the refund names no coins")
	}
	if p.quote != nil {
		terms, err := p.price(f, s.Mint, s.Unit, r.AmountMsats)
		switch {
		case err != nil:
		case terms == nil:
			err = errNoLock
		case terms.alone:
			err = errors.New("the lock that the provider's quote asks for gives nothing back")
		}
		if err != nil {
			return "", err
		}
	}
	return "", absence(fmt.Sprintf("nothing was paid: %s that were locked for it are the customer's again, by the customer's word; ask the mint for the "+
		"state of the %d points in the refund (checkstate, NUT-07): if one is not spent, that is not so", sum(r.AmountMsats, s.Unit), len(seen)))
}
