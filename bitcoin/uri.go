package bitcoin

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Scheme is what the URIs of BIP 21 begin with.
const Scheme = "bitcoin:"

// uriForm has the address, the whole bitcoins and their parts. BIP 21 knows more parameters; two programs could read those differently.
var uriForm = regexp.MustCompile(`^bitcoin:([0-9A-Za-z]{1,90})\?amount=(0|[1-9][0-9]{0,7})(?:\.([0-9]{1,8}))?$`)

// URI returns the URI by which an address asks for satoshis.
func URI(address string, satoshis int64) string {
	return fmt.Sprintf("%s%s?amount=%d.%08d", Scheme, address, satoshis/1e8, satoshis%1e8)
}

// ParseURI reads a URI that asks for satoshis to an address, and nothing else. It does not check the address: see Script.
func ParseURI(text string) (address string, satoshis int64, err error) {
	m := uriForm.FindStringSubmatch(text)
	if m == nil {
		return "", 0, fmt.Errorf("%.150q is not %sADDRESS?amount=BITCOINS", text, Scheme)
	}
	satoshis, err = strconv.ParseInt(m[2]+m[3]+strings.Repeat("0", 8-len(m[3])), 10, 64)
	if err != nil || satoshis <= 0 || satoshis > MaxSatoshis {
		return "", 0, fmt.Errorf("%.150q asks for nothing, or for more than there is", text)
	}
	return m[1], satoshis, nil
}
