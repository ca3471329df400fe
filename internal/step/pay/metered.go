package pay

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"guild/cashu"
	"guild/internal/journal/fact"
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

// change returns the coins of a lock whose payout depends on a claim. Of some of them each multiple of a step is a sum, up to the
// bound, and so is the fixed part with each multiple of it. The step is the smallest for which they are few enough, and at most the
// 64th part of what is not fixed; if they are too many even so, they do not fit into a message, and the quote is refused.
func change(fixed, bound uint64) (coins []uint64) {
	for step := uint64(1); ; step *= 2 {
		coins = inSteps(fixed%step, bound, step)
		if len(coins) <= maxCoins || step*2 > (bound-fixed)/64 {
			return coins
		}
	}
}

// inSteps splits a bound into coins: those of the odd part, which is below the step, then the step, its double and so on, and the
// rest. The rest is at most one more than the coins before it are worth together, in steps, so that no sum is left out.
func inSteps(odd, bound, step uint64) []uint64 {
	coins, rest := cashu.Split(odd), bound-odd
	for coin := step; coin <= rest; coin *= 2 {
		coins, rest = append(coins, coin), rest-coin
		if coin > 1<<62 {
			break
		}
	}
	return append(coins, cashu.Split(rest)...)
}

// pick returns the coins, by their numbers, that are worth the most up to an amount, and what that is. All coins are powers of two,
// so that the largest one that fits is always right.
func pick(amounts []uint64, amount uint64) (chosen []int, worth uint64) {
	order := make([]int, len(amounts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(amounts[b], amounts[a]) })
	for _, i := range order {
		if amounts[i] <= amount-worth {
			chosen, worth = append(chosen, i), worth+amounts[i]
		}
	}
	slices.Sort(chosen)
	return chosen, worth
}

// parts returns the parts in which the price of a payment is locked.
func (one payment) parts(unit string, amount uint64) []uint64 {
	if one.Rates == nil {
		return parts(one.Order, amount)
	}
	return change(one.fixed(unit, amount), amount)
}

// fixed returns the fixed part of a price by usage, in the unit.
func (one payment) fixed(unit string, bound uint64) uint64 { return cost(*one.Rates, nil, unit, bound) }

// amounts returns the coins that the price of a payment is locked in.
func (one payment) amounts(unit string, amount uint64) (all []uint64) {
	for _, part := range one.parts(unit, amount) {
		all = append(all, cashu.Split(part)...)
	}
	return all
}

// coins returns how many they are.
func (one payment) coins(unit string, amount uint64) int { return len(one.amounts(unit, amount)) }

// payable returns the most that can be paid of an amount in whole coins of the lock.
func (one payment) payable(amount uint64) uint64 {
	if one.Rates == nil {
		return amount
	}
	_, worth := pick(one.parts(one.Reserved.Unit, one.Reserved.Amount), amount)
	return worth
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

// divide returns the locked coins that are worth an amount, and the others. whole is false if none are worth it.
func (one payment) divide(coins []fact.Coin, amounts []uint64, amount uint64) (given, kept []fact.Coin, whole bool) {
	if one.Rates == nil {
		n, whole := choose(amounts, amount)
		return coins[:n], coins[n:], whole
	}
	chosen, worth := pick(amounts, amount)
	for i, c := range coins {
		if slices.Contains(chosen, i) {
			given = append(given, c)
		} else {
			kept = append(kept, c)
		}
	}
	return given, kept, worth == amount
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
