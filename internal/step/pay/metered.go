package pay

import (
	"fmt"
	"math/bits"

	"guild/nip90"
)

// each returns how many thousandths of a price a unit has: prices in msat are in millisatoshis already.
func each(unit string) uint64 {
	if unit == "msat" {
		return 1
	}
	return 1000
}

// cost returns what work costs by its rates, in the unit, rounded down and at most the bound. Without a usage it is the fixed part.
func cost(r nip90.Rates, used *nip90.Usage, unit string, bound uint64) uint64 {
	sum := count(int64(r.Price))
	if used != nil {
		for _, part := range []uint64{
			times(count(int64(r.Per1kTokens)), count(used.Tokens), 1000),
			times(count(int64(r.PerMinute)), count(used.WorkMs), 60_000),
		} {
			var carry uint64
			if sum, carry = bits.Add64(sum, part, 0); carry > 0 {
				return bound
			}
		}
	}
	return min(bound, sum/each(unit))
}

// count returns a number that cannot be negative.
func count(n int64) uint64 { return uint64(max(n, 0)) }

// times returns rate*n/per, rounded down; the largest number if it is even larger.
func times(rate, n, per uint64) uint64 {
	hi, lo := bits.Mul64(rate, n)
	if hi >= per {
		return 1<<64 - 1
	}
	q, _ := bits.Div64(hi, lo, per)
	return q
}

// fixed returns the fixed part of a price by usage, in the unit, or 0.
func (one payment) fixed(unit string, bound uint64) uint64 {
	if one.Rates == nil {
		return 0
	}
	return cost(*one.Rates, nil, unit, bound)
}

// agreed returns what the provider gets for work that the verdict pays in full, in the unit of the order: what was locked or is held,
// or by the rates what it claims of that, in whole coins.
func (one payment) agreed() uint64 {
	switch {
	case one.Holds:
		return whole(one.Order.Unit, one.Price)
	case one.Rates == nil:
		return one.Reserved.Amount
	}
	return one.payable(cost(*one.Rates, one.Usage, one.Reserved.Unit, one.Reserved.Amount))
}

// claims returns what a provider claims, as far as it can be: it did not work before the money was set aside for it, nor after its
// result came. Both times are ours.
func (one payment) claims(used *nip90.Usage, at int64) *nip90.Usage {
	if used == nil || one.Rates == nil {
		return nil
	}
	could := int64(0)
	if one.At > 0 {
		could = max(0, at-one.At)
	}
	return &nip90.Usage{Tokens: max(0, used.Tokens), WorkMs: min(max(0, used.WorkMs), could)}
}

// claimed says what a payment by usage would be by the provider's claim, for a person who decides about it.
func (one payment) claimed() string {
	if one.Rates == nil {
		return ""
	}
	return fmt.Sprintf(": %d by the provider's claim", one.agreed())
}

// fixedOver reports whether the fixed part of a price is more than what is to be locked.
func fixedOver(r nip90.Rates, unit string, bound uint64) bool {
	return count(int64(r.Price))/each(unit) > bound
}
