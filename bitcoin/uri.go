package bitcoin

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// MaxConfirmations limits how many a payment can be asked for: less than a day's blocks.
const MaxConfirmations = 100

// URI asks for a payment (BIP 21), with a parameter of its own for the confirmations that it needs, which other wallets ignore.
type URI struct {
	Address       string // of segregated witness, in lower case
	Satoshis      int64
	Confirmations int // from 1
}

// String returns the text that ParseURI reads.
func (u URI) String() string {
	return fmt.Sprintf("bitcoin:%s?amount=%d.%08d&confirmations=%d", u.Address, u.Satoshis/1e8, u.Satoshis%1e8, u.Confirmations)
}

// uriForm has the address, the whole bitcoins, their parts and the confirmations. BIP 21 knows more parameters; two programs could read
// those differently.
var uriForm = regexp.MustCompile(
	`^bitcoin:([0-9a-z]{1,90})\?amount=(0|[1-9][0-9]{0,7})(?:\.([0-9]{1,8}))?(?:&confirmations=([1-9][0-9]?|100))?$`)

// ParseURI reads a URI that asks for an amount, and for nothing else but confirmations. Without their number it is 1.
func ParseURI(text string) (u URI, err error) {
	m := uriForm.FindStringSubmatch(text)
	if m == nil {
		return URI{}, fmt.Errorf("%.150q is not bitcoin:ADDRESS?amount=BITCOINS&confirmations=NUMBER, with 1 to %d", text, MaxConfirmations)
	}
	u = URI{Address: m[1], Confirmations: 1}
	if _, _, err := Script(u.Address); err != nil {
		return URI{}, err
	}
	if m[4] != "" {
		u.Confirmations, _ = strconv.Atoi(m[4]) // the form bounds it
	}
	u.Satoshis, err = strconv.ParseInt(m[2]+m[3]+strings.Repeat("0", 8-len(m[3])), 10, 64)
	if err != nil || u.Satoshis <= 0 || u.Satoshis > MaxSatoshis {
		return URI{}, fmt.Errorf("%.150q asks for nothing, or for more than there is", text)
	}
	return u, nil
}
