package bolt11

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"guild"
)

// unit is a multiplier of amounts.
type unit struct {
	letter string
	msat   uint64
}

// The units with their values in millisatoshis, largest first. A p is a tenth of a millisatoshi, so a valid number of
// them ends in 0, and "0p" is read as the unit.
var units = []unit{
	{"", 100_000_000_000}, {"m", 100_000_000}, {"u", 100_000}, {"n", 100}, {"0p", 1},
}

// maxAmount is the maximal supply of bitcoin, in millisatoshis.
const maxAmount = 21_000_000 * 100_000_000_000

// parsePrefix parses ln, the network, and optionally an amount with its multiplier.
func parsePrefix(prefix string) (Network, guild.Msat, error) {
	rest, ok := strings.CutPrefix(prefix, "ln")
	digits := strings.IndexAny(rest, "0123456789")
	if digits < 0 {
		digits = len(rest)
	}
	network, amount := Network(rest[:digits]), rest[digits:]
	if !ok || !network.known() {
		return "", 0, fmt.Errorf("prefix %.20q: of no network that is known", prefix)
	}
	if amount == "" {
		return network, 0, nil
	}
	msat, err := parseAmount(amount)
	return network, msat, err
}

func (n Network) known() bool {
	switch n {
	case Mainnet, Testnet, Signet, Regtest:
		return true
	}
	return false
}

// parseAmount parses an amount with its multiplier, if any. It refuses leading zeros, which would be a second
// spelling, and fractions of a millisatoshi.
func parseAmount(s string) (guild.Msat, error) {
	for _, u := range slices.Backward(units) {
		digits, ok := strings.CutSuffix(s, u.letter)
		if !ok || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || digits[0] == '0' || n > maxAmount/u.msat {
			return 0, fmt.Errorf("amount %.30q: not between nothing and all there is", s)
		}
		return guild.Msat(n * u.msat), nil
	}
	return 0, fmt.Errorf("amount %.30q: no number of millisatoshis", s)
}

// prefix writes the form that parsePrefix reads, with the shortest amount.
func (inv Invoice) prefix() (string, error) {
	switch {
	case !inv.Network.known():
		return "", fmt.Errorf("network %.20q: not known", inv.Network)
	case inv.Amount < 0 || inv.Amount > maxAmount:
		return "", fmt.Errorf("amount of %s: not between nothing and all there is", inv.Amount)
	case inv.Amount == 0:
		return "ln" + string(inv.Network), nil
	}
	fits := func(u unit) bool { return uint64(inv.Amount)%u.msat == 0 }
	u := units[slices.IndexFunc(units, fits)] // the last unit always fits
	return fmt.Sprintf("ln%s%d%s", inv.Network, uint64(inv.Amount)/u.msat, u.letter), nil
}
