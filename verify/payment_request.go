package verify

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"guild/cashu/token"
)

// parseRequest parses a payment request (NUT-18). It refuses CBOR that two parsers could read differently.
func parseRequest(s string) (token.Request, error) {
	r, err := token.ParseRequest(s)
	if err != nil {
		return token.Request{}, err
	}
	body := strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(strings.TrimPrefix(s, "creqA"), "="))
	b, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || strings.ContainsAny(body, "\r\n") {
		return token.Request{}, errors.New("payment request: not base64")
	}
	rest, err := plainCBOR(b, 0)
	if err == nil && len(rest) > 0 {
		err = errNotPlain
	}
	if err != nil {
		return token.Request{}, fmt.Errorf("payment request: %w", err)
	}
	return r, nil
}

var errNotPlain = errors.New("not plain CBOR")

// plainCBOR checks one item of CBOR and returns what follows it. An item is a number of at least 0, bytes, a text, false, true,
// null, a list, or a map with different texts as keys. All are of definite length.
func plainCBOR(b []byte, depth int) (rest []byte, err error) {
	const deepest, mostElements, mostPairs = 6, 1000, 64
	if len(b) > 0 && b[0] >= 0xf4 && b[0] <= 0xf6 { // false, true, null
		return b[1:], nil
	}
	kind, n, b, ok := headCBOR(b)
	switch {
	case !ok:
	case kind == 0:
		return b, nil
	case kind == 2 && n <= uint64(len(b)), kind == 3 && n <= uint64(len(b)) && utf8.Valid(b[:n]):
		return b[n:], nil
	case kind == 4 && n <= mostElements && depth < deepest:
		for range n {
			if b, err = plainCBOR(b, depth+1); err != nil {
				return nil, err
			}
		}
		return b, nil
	case kind == 5 && n <= mostPairs && depth < deepest:
		keys := map[string]bool{}
		for range n {
			kind, size, text, ok := headCBOR(b)
			if !ok || kind != 3 || size > uint64(len(text)) || keys[string(text[:size])] {
				return nil, errNotPlain
			}
			keys[string(text[:size])] = true
			if b, err = plainCBOR(b, depth+1); err != nil { // the key
				return nil, err
			}
			if b, err = plainCBOR(b, depth+1); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	return nil, errNotPlain
}

// headCBOR reads the head of an item: its major type, and its number, length or count.
func headCBOR(b []byte) (kind byte, n uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, 0, nil, false
	}
	kind, n, rest = b[0]>>5, uint64(b[0]&31), b[1:]
	if n < 24 {
		return kind, n, rest, true
	}
	if n > 27 || len(rest) < 1<<(n-24) {
		return 0, 0, nil, false
	}
	size := 1 << (n - 24)
	return kind, binary.BigEndian.Uint64(append(make([]byte, 8-size, 8), rest[:size]...)), rest[size:], true
}
