package nook

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Sparks is an amount in micro-sparks. In JSON it is a number of sparks with at most six decimals.
type Sparks int64

// Spark is one spark.
const Spark Sparks = 1_000_000

// The caps of a root identity, section 2 of the specification, in each UTC hour and UTC day of the events' timestamps.
const (
	HourlyCap = 50 * Spark
	DailyCap  = 300 * Spark
)

// String returns the sparks as a decimal number without trailing zeros: 1.151293.
func (s Sparks) String() string {
	sign := ""
	if s < 0 {
		sign, s = "-", -s
	}
	whole, rest := s/Spark, s%Spark
	if rest == 0 {
		return fmt.Sprintf("%s%d", sign, whole)
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%06d", whole, rest), "0")
}

// MarshalJSON writes the form of String, which is a JSON number.
func (s Sparks) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON reads a number of sparks of at least 0 with at most six decimals.
func (s *Sparks) UnmarshalJSON(b []byte) error {
	if digit, tiny := strings.CutSuffix(string(b), "e-6"); tiny && len(digit) == 1 {
		b = []byte("0.00000" + digit) // canonical JSON spells it so
	}
	whole, decimals, point := strings.Cut(string(b), ".")
	if whole == "" || len(decimals) > 6 || point && decimals == "" || strings.ContainsAny(string(b), "+-eE") {
		return fmt.Errorf("%.40s is not a number of sparks", b)
	}
	n, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", 6-len(decimals)), 10, 64)
	if err != nil {
		return fmt.Errorf("%.40s is not a number of sparks", b)
	}
	*s = Sparks(n)
	return nil
}

// Raw returns the formula of the specification, sqrt(tokens/1000) * ln(units+1), before rates and caps. It is rounded to
// the nearest micro-spark. There are no ties: for units > 0, ln(units+1) is transcendental and the root is algebraic, so that the
// product is not a rational number.
//
// The float64 result has a relative error below 2^-51: half an ulp each for the product below the root, the root and the final
// product, and one ulp for math.Log. If all numbers within 2^-49 of it round alike, that is the result. Otherwise, once in some
// 100,000 times for the amounts that a day allows, big numbers decide. So the result is the same on every machine.
func Raw(tokens int64, units int) Sparks {
	if tokens <= 0 || units <= 0 {
		return 0
	}
	if tokens > 1<<53 {
		return rawBig(tokens, units) // float64 does not represent every such integer
	}
	micro := math.Sqrt(float64(tokens)*1e9) * math.Log(float64(units+1))
	slack := micro * 0x1p-49
	low, high := math.Floor(micro-slack+0.5), math.Floor(micro+slack+0.5)
	if low == high {
		return Sparks(low)
	}
	return rawBig(tokens, units)
}

// rawBig computes Raw with increasing precision, until the bounds of the error round alike.
func rawBig(tokens int64, units int) Sparks {
	for prec := uint(128); ; prec *= 2 {
		number := func(n int64) *big.Float { return new(big.Float).SetPrec(prec).SetInt64(n) }
		micro := number(tokens)
		micro.Sqrt(micro.Mul(micro, number(1_000_000_000)))
		micro.Mul(micro, ln(number(int64(units)+1)))
		slack := number(0).SetMantExp(micro, -int(prec)+16)
		micro.Add(micro, big.NewFloat(0.5))
		low, _ := number(0).Sub(micro, slack).Int64()
		high, _ := number(0).Add(micro, slack).Int64()
		if low == high {
			return Sparks(low)
		}
	}
}

// ln returns the natural logarithm of n >= 2 with an error of a few units in the last place: n is f * 2^k with f in [0.5, 1),
// ln n is k ln 2 + ln f, and ln f is 2 artanh((f-1)/(f+1)).
func ln(n *big.Float) *big.Float {
	number := func(n int64) *big.Float { return new(big.Float).SetPrec(128).SetInt64(n) }
	like := func() *big.Float { return new(big.Float).SetPrec(n.Prec()) }
	f := like()
	k := n.MantExp(f)
	ln2 := artanh(like().Quo(number(1), number(3)))
	lnf := artanh(like().Quo(like().Sub(f, number(1)), like().Add(f, number(1))))
	half := like().Add(like().Mul(number(int64(k)), ln2), lnf)
	return half.Mul(half, number(2))
}

// artanh returns z + z^3/3 + z^5/5 + ... for |z| <= 1/3, which gains three bits with each term.
func artanh(z *big.Float) *big.Float {
	like := func() *big.Float { return new(big.Float).SetPrec(z.Prec()) }
	sum, square, power := like(), like().Mul(z, z), like().Set(z)
	for i := int64(1); i < int64(z.Prec()); i += 2 {
		sum.Add(sum, like().Quo(power, like().SetInt64(i)))
		power.Mul(power, square)
	}
	return sum
}

// Steps is the computation of the sparks of one event.
type Steps struct {
	Tokens   int64     `json:"tokens"`
	Units    int       `json:"units"`    // distinct work units of the root in the 24 hours up to the event
	Raw      Sparks    `json:"raw"`      // the formula
	ThisDay  Sparks    `json:"thisDay"`  // earned before in the UTC day
	Split    [4]Sparks `json:"split"`    // the parts of Raw that count 100 %, 50 %, 25 % and 0 %
	Rated    Sparks    `json:"rated"`    // what they are worth
	ThisHour Sparks    `json:"thisHour"` // earned before in the UTC hour
	Hourly   Sparks    `json:"hourly"`   // what the hourly cap leaves of Rated
	Earned   Sparks    `json:"earned"`   // what the daily cap leaves of that
}

// Compute computes what a completed event earns. thisHour and thisDay are the sparks that its root has earned before in the
// UTC hour and day.
//
// A part at 50 % or 25 % can end between two micro-sparks. The sum is rounded to the nearest, halves up.
func Compute(tokens int64, units int, thisHour, thisDay Sparks) Steps {
	s := Steps{Tokens: tokens, Units: units, Raw: Raw(tokens, units), ThisDay: thisDay, ThisHour: thisHour}
	left, at, quarters := s.Raw, thisDay, Sparks(0)
	for i := range 3 {
		end, cost := Sparks(i+1)*100*Spark, Sparks(1)<<i // the bracket ends there; a spark costs that many raw ones
		if at >= end {
			continue
		}
		s.Split[i] = min(left, (end-at)*cost)
		left -= s.Split[i]
		quarters += s.Split[i] * 4 / cost
		at = end
	}
	s.Split[3] = left
	s.Rated = (quarters + 2) / 4
	s.Hourly = min(s.Rated, max(0, HourlyCap-thisHour))
	s.Earned = min(s.Hourly, max(0, DailyCap-thisDay))
	return s
}
