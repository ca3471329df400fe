package nipreview

import (
	"strconv"
	"strings"

	"guild"
)

// Stars is a rating on the scale to five, in millionths of a star. Our own go from 1 to 5; others may give less than
// one.
type Stars int64

const star = guild.Micro

// Scale is the most stars that there are.
const Scale Stars = 5 * star

// StarsOf is the rating of a provider that is trusted so far: 1 + 4·trust (section 4.3.2.2).
func StarsOf(t guild.Trust) Stars { return star + 4*Stars(min(max(t, 0), guild.Micro)) }

// Trust is the other direction of StarsOf. What is below one star is no trust.
func (s Stars) Trust() guild.Trust {
	return guild.Trust(min(max(s-star, 0), 4*star) / 4)
}

// String writes the rating as a decimal number without zeros at its end, as "4.5".
func (s Stars) String() string { return decimal(int64(s)) }

// whole is the rating in whole stars, from 1 to 5; half a star counts as one.
func (s Stars) whole() int { return int(min(max((s+star/2)/star, 1), 5)) }

// decimal writes millionths as a decimal number.
func decimal(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	fraction := strconv.FormatInt(guild.Micro+micro%guild.Micro, 10)[1:]
	return sign + strings.TrimSuffix(strconv.FormatInt(micro/guild.Micro, 10)+"."+strings.TrimRight(fraction, "0"), ".")
}

// maxScale bounds the scales that are read, in units: a rating out of a thousand is one, one out of a million is not.
const maxScale = 1000

// parseDecimal reads a decimal number from 0 to maxScale, without an exponent, into millionths. Further digits are
// dropped.
func parseDecimal(s string) (micro int64, ok bool) {
	whole, fraction, dotted := strings.Cut(strings.TrimSpace(s), ".")
	if len(whole) > 4 || len(fraction) > 30 || whole == "" || dotted && fraction == "" || !digits(whole) || !digits(fraction) {
		return 0, false
	}
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, false
	}
	parts, err := strconv.ParseInt((fraction + "000000")[:6], 10, 64)
	micro = units*guild.Micro + parts
	return micro, err == nil && micro <= maxScale*guild.Micro
}

func digits(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// readStars reads a rating on a scale from 0 to denom, which is 5 if nobody says. Another scale is converted in
// proportion: 9 of 10 are 4.5 of 5.
func readStars(rating, denom string) (Stars, bool) {
	if denom == "" {
		denom = "5"
	}
	given, ok := parseDecimal(rating)
	of, known := parseDecimal(denom)
	if !ok || !known || of <= 0 || given > of {
		return 0, false
	}
	return Stars(given * int64(Scale) / of), true
}
