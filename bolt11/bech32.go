package bolt11

import (
	"errors"
	"fmt"
	"strings"
)

// The encoding is bech32 (BIP 173) without its limit of 90 characters: a prefix, a 1, and data in groups of 5 bits.
// The last six groups are a checksum.

const (
	charset        = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	checksumGroups = 6
)

// decodeBech32 splits an invoice into its prefix, in lower case, and its data in groups of 5 bits, without the
// checksum.
func decodeBech32(s string) (prefix string, data []byte, err error) {
	if len(s) > MaxSize {
		return "", nil, fmt.Errorf("%d characters: more than %d", len(s), MaxSize)
	}
	for _, c := range []byte(s) {
		if c < 33 || c > 126 { // some letters beyond ASCII have an ASCII letter as lower case
			return "", nil, fmt.Errorf("character %q: not printable", c)
		}
	}
	lower := strings.ToLower(s)
	if s != lower && s != strings.ToUpper(s) {
		return "", nil, errors.New("lower and upper case are mixed")
	}
	one := strings.LastIndexByte(lower, '1')
	if one < 1 || len(lower)-one-1 < checksumGroups {
		return "", nil, errors.New("no prefix with data after it")
	}
	prefix = lower[:one]
	data = make([]byte, 0, len(lower)-one)
	for i := one + 1; i < len(lower); i++ {
		group := strings.IndexByte(charset, lower[i])
		if group < 0 {
			return "", nil, fmt.Errorf("character %q: not of bech32", lower[i])
		}
		data = append(data, byte(group))
	}
	if polymod(prefix, data) != 1 {
		return "", nil, errors.New("the checksum does not fit: it was copied wrongly")
	}
	return prefix, data[:len(data)-checksumGroups], nil
}

// encodeBech32 writes the form that decodeBech32 reads.
func encodeBech32(prefix string, data []byte) (string, error) {
	size := len(prefix) + 1 + len(data) + checksumGroups
	if size > MaxSize {
		return "", fmt.Errorf("%d characters: more than %d", size, MaxSize)
	}
	sum := polymod(prefix, append(data[:len(data):len(data)], make([]byte, checksumGroups)...)) ^ 1
	b := append(make([]byte, 0, size), prefix...)
	b = append(b, '1')
	for _, group := range data {
		b = append(b, charset[group])
	}
	for i := range checksumGroups {
		b = append(b, charset[sum>>(5*(checksumGroups-1-i))&31])
	}
	return string(b), nil
}

// polymod returns the remainder of prefix and data as a polynomial, divided by the generator of bech32. It is 1 if the
// last six groups are the checksum of the rest.
func polymod(prefix string, data []byte) uint32 {
	sum := uint32(1)
	step := func(group byte) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(group)
		for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, c := range []byte(prefix) {
		step(c >> 5)
	}
	step(0)
	for _, c := range []byte(prefix) {
		step(c & 31)
	}
	for _, group := range data {
		step(group)
	}
	return sum
}

// regroup converts groups of from bits to groups of to bits. The last group is padded with zero bits.
func regroup(groups []byte, from, to int) []byte {
	out := make([]byte, 0, (len(groups)*from+to-1)/to)
	held, bits := uint32(0), 0
	for _, group := range groups {
		held, bits = held<<from|uint32(group), bits+from
		for ; bits >= to; bits -= to {
			out = append(out, byte(held>>(bits-to)&(1<<to-1)))
		}
		held &= 1<<bits - 1
	}
	if bits > 0 {
		out = append(out, byte(held<<(to-bits)))
	}
	return out
}

// whole returns the bytes of groups of 5 bits. It returns false if the padding has bits that are not zero, or more
// bits than needed.
func whole(groups []byte) ([]byte, bool) {
	b := regroup(groups, 5, 8)
	rest := len(groups) * 5 % 8
	if rest == 0 {
		return b, true
	}
	last := b[len(b)-1]
	return b[:len(b)-1], rest < 5 && last == 0
}

// number reads groups of 5 bits as one number. It returns false if the number has more than 64 bits.
func number(groups []byte) (uint64, bool) {
	n := uint64(0)
	for _, group := range groups {
		if n>>59 != 0 {
			return 0, false
		}
		n = n<<5 | uint64(group)
	}
	return n, true
}

// groupsOf writes a number as groups of 5 bits, with at least least groups.
func groupsOf(n uint64, least int) []byte {
	var groups []byte
	for ; n > 0 || len(groups) < least; n >>= 5 {
		groups = append([]byte{byte(n & 31)}, groups...)
	}
	return groups
}
