package bolt11

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"guild"
)

// Types of tagged fields, with the letters that BOLT 11 uses for them.
const (
	fieldPaymentHash     = 1  // p
	fieldRoute           = 3  // r
	fieldFeatures        = 5  // 9
	fieldExpiry          = 6  // x
	fieldFallback        = 9  // f
	fieldDescription     = 13 // d
	fieldSecret          = 16 // s
	fieldPayee           = 19 // n
	fieldDescriptionHash = 23 // h
	fieldMinFinalCLTV    = 24 // c
	fieldMetadata        = 27 // m
)

// Groups of 5 bits in a field.
const (
	hashGroups   = 52
	pubKeyGroups = 53
	maxGroups    = 1<<10 - 1
	maxFallback  = 18 // highest defined version of a fallback address
	hopSize      = 51 // bytes
)

// maxExpiry is the longest time that fits a Duration, in seconds.
const maxExpiry = uint64(math.MaxInt64 / time.Second)

// understood are the features that an invoice may require of its payer (BOLT 9), each with the feature that it depends
// on, or 0. An even bit means required; the odd bit after it means optional.
var understood = map[int]int{
	8:  0,  // var_onion_optin
	14: 0,  // payment_secret
	16: 14, // basic_mpp
	24: 0,  // option_route_blinding
	36: 0,  // option_attribution_data
	48: 0,  // option_payment_metadata
}

// takeFields reads the tagged fields. A field is a type, a length in two groups, and the data.
func (inv *Invoice) takeFields(groups []byte) error {
	seen := map[byte]bool{}
	for len(groups) > 0 {
		if len(groups) < 3 {
			return errors.New("the last field has no length")
		}
		kind, size := groups[0], int(groups[1])<<5|int(groups[2])
		if groups = groups[3:]; size > len(groups) {
			return fmt.Errorf("field %q: longer than the invoice", charset[kind])
		}
		field := groups[:size]
		groups = groups[size:]
		if isSkipped(kind, field) {
			continue
		}
		if seen[kind] && kind != fieldFallback && kind != fieldRoute {
			return fmt.Errorf("duplicate field %q", charset[kind])
		}
		seen[kind] = true
		if err := inv.take(kind, field); err != nil {
			return fmt.Errorf("field %q: %w", charset[kind], err)
		}
	}
	switch {
	case !seen[fieldPaymentHash]:
		return errors.New("no payment hash")
	case !seen[fieldSecret]:
		return errors.New("no payment secret")
	case seen[fieldDescription] == seen[fieldDescriptionHash]:
		return errors.New("not exactly one of a description and its hash")
	}
	return nil
}

// isSkipped reports whether readers must ignore a field, because it can be from a later version of BOLT 11.
func isSkipped(kind byte, field []byte) bool {
	switch kind {
	case fieldPaymentHash, fieldSecret, fieldDescriptionHash:
		return len(field) != hashGroups
	case fieldPayee:
		return len(field) != pubKeyGroups
	case fieldFallback:
		return len(field) == 0 || field[0] > maxFallback
	case fieldRoute, fieldFeatures, fieldExpiry, fieldDescription, fieldMinFinalCLTV, fieldMetadata:
		return false
	}
	return true
}

// take reads a field that isSkipped has accepted. So fields of fixed size have the right number of groups, and their
// conversions below cannot panic.
func (inv *Invoice) take(kind byte, field []byte) error {
	switch kind {
	case fieldFallback:
		inv.Fallbacks = append(inv.Fallbacks, bytes.Clone(field))
		return nil
	case fieldFeatures:
		for bit := range len(field) * 5 { // bit 0 is the last one
			if field[len(field)-1-bit/5]>>(bit%5)&1 == 1 {
				inv.Features = append(inv.Features, bit)
			}
		}
		return checkFeatures(inv.Features)
	case fieldExpiry, fieldMinFinalCLTV:
		n, ok := number(field)
		switch {
		case !ok, kind == fieldExpiry && (n > maxExpiry || n == 0):
			return errors.New("the number is 0 or too large")
		case kind == fieldExpiry:
			inv.Expiry = time.Duration(n) * time.Second
		default:
			inv.MinFinalCLTV = n
		}
		return nil
	}
	b, ok := whole(field)
	if !ok {
		return errors.New("it does not end where its bytes do")
	}
	switch kind {
	case fieldPaymentHash:
		inv.PaymentHash = guild.Hash(b)
	case fieldSecret:
		inv.Secret = [32]byte(b)
	case fieldPayee:
		if inv.Payee = PubKey(b); inv.Payee == (PubKey{}) {
			return errors.New("no key") // a zero key would read as an absent field
		}
	case fieldDescription:
		if !utf8.Valid(b) {
			return errors.New("not UTF-8")
		}
		inv.Description = string(b)
	case fieldDescriptionHash:
		inv.DescriptionHash = guild.Hash(b)
	case fieldMetadata:
		inv.Metadata = append(inv.Metadata, b...) // an empty value is the same as none
	case fieldRoute:
		if len(b) == 0 || len(b)%hopSize != 0 {
			return fmt.Errorf("%d bytes are not a list of hops", len(b))
		}
		inv.Routes = append(inv.Routes, b)
	}
	return nil
}

// checkFeatures refuses unknown required features and missing dependencies. Unknown odd bits are optional and ignored.
func checkFeatures(bits []int) error {
	for _, bit := range bits {
		needs, known := understood[bit&^1]
		switch {
		case !known && bit%2 == 0:
			return fmt.Errorf("feature %d is demanded, and not known", bit)
		case known && needs > 0 && !slices.Contains(bits, needs) && !slices.Contains(bits, needs+1):
			return fmt.Errorf("feature %d requires feature %d", bit, needs)
		}
	}
	return nil
}

// appendFields writes the form that takeFields reads, in the order of the examples in BOLT 11, each field in its
// shortest form.
func (inv Invoice) appendFields(data []byte) (_ []byte, err error) {
	if err := inv.checkFields(); err != nil {
		return nil, err
	}
	add := func(kind byte, field []byte) {
		if len(field) > maxGroups && err == nil {
			err = fmt.Errorf("field %q: longer than a field can be", charset[kind])
		}
		data = append(append(data, kind, byte(len(field)>>5), byte(len(field)&31)), field...)
	}
	add(fieldSecret, regroup(inv.Secret[:], 8, 5))
	add(fieldPaymentHash, regroup(inv.PaymentHash[:], 8, 5))
	if inv.DescriptionHash.IsZero() {
		add(fieldDescription, regroup([]byte(inv.Description), 8, 5))
	} else {
		add(fieldDescriptionHash, regroup(inv.DescriptionHash[:], 8, 5))
	}
	if len(inv.Metadata) > 0 {
		add(fieldMetadata, regroup(inv.Metadata, 8, 5))
	}
	if inv.Expiry > 0 {
		add(fieldExpiry, groupsOf(uint64(inv.Expiry/time.Second), 1))
	}
	if inv.MinFinalCLTV > 0 {
		add(fieldMinFinalCLTV, groupsOf(inv.MinFinalCLTV, 1))
	}
	for _, fallback := range inv.Fallbacks {
		add(fieldFallback, fallback)
	}
	for _, route := range inv.Routes {
		add(fieldRoute, regroup(route, 8, 5))
	}
	if len(inv.Features) > 0 {
		groups := make([]byte, slices.Max(inv.Features)/5+1)
		for _, bit := range inv.Features {
			groups[len(groups)-1-bit/5] |= 1 << (bit % 5)
		}
		add(fieldFeatures, groups)
	}
	return data, err
}

// checkFields refuses values that would be written as other values or could not be read again.
func (inv Invoice) checkFields() error {
	switch {
	case inv.Expiry < 0 || inv.Expiry%time.Second != 0:
		return fmt.Errorf("expiry of %s: not a number of seconds", inv.Expiry)
	case !utf8.ValidString(inv.Description):
		return errors.New("description: not UTF-8")
	case inv.Description != "" && !inv.DescriptionHash.IsZero():
		return errors.New("both a description and its hash")
	}
	for _, bit := range inv.Features {
		if bit < 0 || bit >= 5*maxGroups {
			return fmt.Errorf("feature %d: no field is that long", bit)
		}
	}
	for _, fallback := range inv.Fallbacks {
		if isSkipped(fieldFallback, fallback) || slices.Max(fallback) > 31 {
			return errors.New("invalid fallback")
		}
	}
	for _, route := range inv.Routes {
		if len(route) == 0 || len(route)%hopSize != 0 {
			return fmt.Errorf("a route of %d bytes is not a list of hops", len(route))
		}
	}
	return checkFeatures(inv.Features)
}
