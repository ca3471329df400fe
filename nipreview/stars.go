package nipreview

import (
	"strconv"
	"strings"

	"guild"
)

// Stars is a rating on the scale of five, in millionths of a star. guild gives 1 to 5; other programs can give less
// than 1.
type Stars int64

const star = guild.Micro

// Scale is the maximal rating.
const Scale Stars = 5 * star

// StarsOf returns the rating for a trust: 1 + 4·trust (section 4.3.2.2).
func StarsOf(t guild.Trust) Stars { return star + 4*Stars(min(max(t, 0), guild.Micro)) }

// Trust is the inverse of StarsOf. A rating below one star is trust 0.
func (s Stars) Trust() guild.Trust {
	return guild.Trust(min(max(s-star, 0), 4*star) / 4)
}

// String returns the rating as a decimal number without trailing zeros, such as "4.5".
func (s Stars) String() string { return decimal(int64(s)) }

// decimal writes millionths as a decimal number.
func decimal(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	fraction := strconv.FormatInt(guild.Micro+micro%guild.Micro, 10)[1:]
	return sign + strings.TrimSuffix(strconv.FormatInt(micro/guild.Micro, 10)+"."+strings.TrimRight(fraction, "0"), ".")
}

// maxScale limits the scales that are read: a rating out of 1,000 is valid, one out of a million is not.
const maxScale = 1000

// parseDecimal parses a decimal number from 0 to maxScale, without an exponent, into millionths. It drops further
// digits.
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

// readStars parses a rating on a scale from 0 to denom, or to 5 if denom is empty. It converts other scales in
// proportion: 9 of 10 is 4.5 of 5.
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
