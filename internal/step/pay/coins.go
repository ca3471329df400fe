package pay

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"guild/cashu"
	"guild/internal/journal/fact"
)

// maxCoins limits the coins of a lock, so that they fit into one private message.
const maxCoins = 28

// parts returns the parts in which a price is locked. What pays by the verdict is locked so that nearly every amount is a sum of coins.
// With an arbiter each amount is the sum of the first coins: customer and arbiter decide without knowing of each other, and the provider
// has what both give it, so the smaller of the two has to be a part of the larger.
func (one payment) parts(unit string, amount uint64) []uint64 {
	switch {
	case one.Order.How == prepaid:
		return []uint64{amount}
	case one.Order.Arbiter != nil:
		return row(one.Order, amount)
	}
	coins := change(one.fixed(unit, amount), amount)
	if len(coins) > maxCoins && one.Rates == nil {
		return row(one.Order, amount)
	}
	return coins
}

// amounts returns the coins that a price is locked in.
func (one payment) amounts(unit string, amount uint64) (all []uint64) {
	for _, part := range one.parts(unit, amount) {
		all = append(all, cashu.Split(part)...)
	}
	return all
}

// coins returns how many they are.
func (one payment) coins(unit string, amount uint64) int { return len(one.amounts(unit, amount)) }

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

// row returns the coins of a lock of which the first ones are given: each share of the order is the sum of some, and between the shares
// they are in equal steps, the smallest for which they are few enough.
func row(o fact.Settlement, amount uint64) (coins []uint64) {
	ends := []uint64{share(amount, o.Mixed), share(amount, o.Partial), amount}
	slices.Sort(ends)
	for step := uint64(1); ; step *= 2 {
		if amount/step > maxCoins {
			continue
		}
		coins = nil
		at := uint64(0)
		for _, end := range ends {
			part := end - at
			coins = append(append(coins, slices.Repeat([]uint64{step}, int(part/step))...), cashu.Split(part%step)...)
			at = end
		}
		if len(coins) <= maxCoins || step > amount/2 {
			return coins
		}
	}
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

// first returns the coins from the first one, by their numbers, that are worth the most up to an amount, and what that is.
func first(amounts []uint64, amount uint64) (chosen []int, worth uint64) {
	for i, a := range amounts {
		if a > amount-worth {
			break
		}
		chosen, worth = append(chosen, i), worth+a
	}
	return chosen, worth
}

// choice is pick or first.
type choice func(amounts []uint64, amount uint64) (chosen []int, worth uint64)

// choice returns how coins of the lock are chosen.
func (one payment) choice() choice {
	if one.Order.Arbiter != nil {
		return first
	}
	return pick
}

// exactly returns the coins that are worth an amount. The error names the sums next to one that none are worth.
func (by choice) exactly(amounts []uint64, amount uint64, unit string) (chosen []int, err error) {
	chosen, below := by(amounts, amount)
	total, err := cashu.Sum(amounts...)
	switch {
	case err != nil || below == amount:
		return chosen, err
	case amount > total:
		return nil, fmt.Errorf("%d %s are no sum of the locked coins: all are %d", amount, unit, total)
	}
	above := amount + uint64(sort.Search(int(total-amount), func(i int) bool {
		_, worth := by(amounts, amount+uint64(i))
		return worth >= amount
	}))
	return nil, fmt.Errorf("%d %s are no sum of the locked coins: %d or %d are", amount, unit, below, above)
}

// divide returns the chosen coins, and the others.
func divide[C any](coins []C, chosen []int) (given, kept []C) {
	for i, c := range coins {
		if slices.Contains(chosen, i) {
			given = append(given, c)
		} else {
			kept = append(kept, c)
		}
	}
	return given, kept
}

// divide returns the locked coins that are worth an amount, and the others.
func (one payment) divide(coins []fact.Coin, amounts []uint64, amount uint64) (given, kept []fact.Coin, err error) {
	chosen, err := one.choice().exactly(amounts, amount, one.Reserved.Unit)
	if err != nil {
		return nil, nil, err
	}
	given, kept = divide(coins, chosen)
	return given, kept, nil
}

// payable returns the most that can be paid of an amount in whole coins of the lock. What is held over Lightning is in none.
func (one payment) payable(amount uint64) uint64 {
	if one.Lock == nil {
		return amount
	}
	_, worth := one.choice()(one.Coins, amount)
	return worth
}
