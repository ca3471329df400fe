package bitcoin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxConfirmations limits how many a payment can be asked for: less than a day's blocks.
const MaxConfirmations = 100

// URI asks for a payment (BIP 21), with a parameter of its own for the confirmations that it needs, which other wallets ignore.
type URI struct {
	Address       string // of segregated witness
	Satoshis      int64
	Confirmations int // from 1
}

// String returns the text that ParseURI reads.
func (u URI) String() string {
	return fmt.Sprintf("bitcoin:%s?amount=%d.%08d&confirmations=%d", u.Address, u.Satoshis/1e8, u.Satoshis%1e8, u.Confirmations)
}

// maxURI limits the text of a URI, in bytes.
const maxURI = 500

// ParseURI reads a URI that names an amount. A payment without a number of confirmations needs one.
func ParseURI(text string) (u URI, err error) {
	const scheme = "bitcoin:"
	if len(text) > maxURI || len(text) < len(scheme) || !strings.EqualFold(text[:len(scheme)], scheme) {
		return URI{}, fmt.Errorf("%.100q does not begin with %s, or has more than %d bytes", text, scheme, maxURI)
	}
	address, query, _ := strings.Cut(text[len(scheme):], "?")
	u = URI{Address: strings.ToLower(address), Confirmations: 1}
	if address != u.Address && address != strings.ToUpper(address) {
		return URI{}, fmt.Errorf("the address %.100q mixes cases", address)
	}
	if _, _, err := Script(u.Address); err != nil {
		return URI{}, err
	}
	seen := map[string]bool{}
	for one := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(one, "=")
		switch {
		case seen[name]:
			err = fmt.Errorf("the parameter %.40q is there twice", name)
		case name == "amount":
			u.Satoshis, err = parseAmount(value)
		case name == "confirmations":
			u.Confirmations, err = strconv.Atoi(value)
			if err != nil || u.Confirmations < 1 || u.Confirmations > MaxConfirmations {
				err = fmt.Errorf("it wants %.20q confirmations, and 1 to %d are usual", value, MaxConfirmations)
			}
		case strings.HasPrefix(name, "req-"):
			err = fmt.Errorf("it requires %.40q, which is unknown here", name)
		}
		seen[name] = true
		if err != nil {
			return URI{}, err
		}
	}
	if u.Satoshis == 0 {
		return URI{}, errors.New("it names no amount")
	}
	return u, nil
}

// parseAmount reads an amount in BTC, and returns satoshis.
func parseAmount(text string) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	digits := whole + part + strings.Repeat("0", max(0, 8-len(part)))
	n, err := strconv.ParseUint(digits, 10, 63)
	if whole == "" || len(part) > 8 || err != nil || n > MaxSatoshis {
		return 0, fmt.Errorf("the amount %.40q is none in BTC", text)
	}
	return int64(n), nil
}
