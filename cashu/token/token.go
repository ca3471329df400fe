// Package token reads and writes the texts by which people give each other ecash, and ask for it: tokens of version 3 and 4
// (NUT-00) and payment requests (NUT-18).
package token

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"github.com/go-json-experiment/json"

	"guild/cashu"
)

// Token is proofs of one mint, as one person gives them to another (NUT-00).
type Token struct {
	Mint   string
	Unit   string // of a version 3 token that does not say it, empty
	Memo   string
	Proofs []cashu.Proof // the keyset of one from a version 4 token may be the first 16 digits of the id
}

// maxToken limits the characters of tokens and requests.
const maxToken = 1 << 20

// Parse parses a token of version 3 or 4, with or without "cashu:" before it.
func Parse(s string) (t Token, err error) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "cashu:")
	s = strings.TrimPrefix(s, "//")
	if len(s) > maxToken {
		return t, fmt.Errorf("a token of %d characters; at most %d are read", len(s), maxToken)
	}
	if body, ok := strings.CutPrefix(s, "cashuB"); ok {
		t, err = parseV4(body)
	} else if body, ok := strings.CutPrefix(s, "cashuA"); ok {
		t, err = parseV3(body)
	} else {
		return t, errors.New("a token begins with cashuA or cashuB")
	}
	switch {
	case err != nil:
		return Token{}, fmt.Errorf("token: %w", err)
	case len(t.Proofs) == 0:
		return Token{}, errors.New("token: there are no proofs in it")
	case len(t.Proofs) > cashu.MaxProofs:
		return Token{}, fmt.Errorf("token: %d proofs; at most %d are read", len(t.Proofs), cashu.MaxProofs)
	}
	for i, p := range t.Proofs {
		if p.C == (cashu.Point{}) || p.DLEQ != nil && (p.DLEQ.E == (cashu.Scalar{}) || p.DLEQ.S == (cashu.Scalar{})) {
			return Token{}, fmt.Errorf("token: proof %d lacks a signature", i+1)
		}
	}
	_, err = cashu.Worth(t.Proofs)
	return t, err
}

// decode64 decodes base64 of either alphabet, with or without padding: wallets write all of these.
func decode64(s string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(s, "=")))
}

// tokenV3 is a token in JSON.
type tokenV3 struct {
	Token []entryV3 `json:"token"`
	Unit  string    `json:"unit,omitempty"`
	Memo  string    `json:"memo,omitempty"`
}

type entryV3 struct {
	Mint   string        `json:"mint"`
	Proofs []cashu.Proof `json:"proofs"`
}

func parseV3(body string) (t Token, err error) {
	b, err := decode64(body)
	if err != nil {
		return t, err
	}
	var wire tokenV3
	if err := json.Unmarshal(b, &wire); err != nil {
		return t, err
	}
	t = Token{Unit: wire.Unit, Memo: wire.Memo}
	for i, entry := range wire.Token {
		if i > 0 && entry.Mint != t.Mint {
			return t, errors.New("it is of several mints, which this program does not take")
		}
		t.Mint = entry.Mint
		t.Proofs = append(t.Proofs, entry.Proofs...)
	}
	return t, nil
}

// V3 returns the token in version 3.
func (t Token) V3() (string, error) {
	b, err := json.Marshal(tokenV3{Token: []entryV3{{Mint: t.Mint, Proofs: t.Proofs}}, Unit: t.Unit, Memo: t.Memo})
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return "cashuA" + base64.RawURLEncoding.EncodeToString(b), nil
}

// tokenV4 is a token in CBOR.
type tokenV4 struct {
	Sets []setV4 `cbor:"t"`
	Memo string  `cbor:"d,omitempty"`
	Mint string  `cbor:"m"`
	Unit string  `cbor:"u"`
}

type setV4 struct {
	Keyset []byte    `cbor:"i"`
	Proofs []proofV4 `cbor:"p"`
}

type proofV4 struct {
	Amount  uint64  `cbor:"a"`
	Secret  string  `cbor:"s"`
	C       []byte  `cbor:"c"`
	DLEQ    *dleqV4 `cbor:"d,omitempty"`
	Witness string  `cbor:"w,omitempty"`
}

type dleqV4 struct {
	E []byte `cbor:"e"`
	S []byte `cbor:"s"`
	R []byte `cbor:"r"`
}

// strict decodes CBOR without duplicate members, of bounded depth and length.
var strict = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxNestedLevels: 8, MaxArrayElements: cashu.MaxProofs, FieldNameMatching: cbor.FieldNameMatchingCaseSensitive, MaxMapPairs: 64, TagsMd: cbor.TagsForbidden,
	}.DecMode()
	if err != nil {
		panic(err) // the options are constant
	}
	return mode
}()

func parseV4(body string) (t Token, err error) {
	b, err := decode64(body)
	if err != nil {
		return t, err
	}
	var wire tokenV4
	if err := strict.Unmarshal(b, &wire); err != nil {
		return t, err
	}
	t = Token{Mint: wire.Mint, Unit: wire.Unit, Memo: wire.Memo}
	for _, set := range wire.Sets {
		for _, p := range set.Proofs {
			proof, err := p.proof(hex.EncodeToString(set.Keyset))
			if err != nil {
				return t, err
			}
			t.Proofs = append(t.Proofs, proof)
		}
	}
	return t, nil
}

// proof returns the proof, of a keyset.
func (p proofV4) proof(keyset string) (cashu.Proof, error) {
	proof := cashu.Proof{Amount: p.Amount, Keyset: keyset, Secret: p.Secret, Witness: cashu.WitnessText(p.Witness)}
	err := proof.C.UnmarshalText(hex.AppendEncode(nil, p.C))
	if p.DLEQ == nil {
		return proof, err
	}
	proof.DLEQ = &cashu.DLEQ{R: new(cashu.Scalar)}
	return proof, errors.Join(err, proof.DLEQ.E.UnmarshalText(hex.AppendEncode(nil, p.DLEQ.E)),
		proof.DLEQ.S.UnmarshalText(hex.AppendEncode(nil, p.DLEQ.S)), proof.DLEQ.R.UnmarshalText(hex.AppendEncode(nil, p.DLEQ.R)))
}

// V4 returns the token in version 4. The error is about a keyset id that is not hex, which only version 3 can hold.
func (t Token) V4() (string, error) {
	wire := tokenV4{Memo: t.Memo, Mint: t.Mint, Unit: t.Unit}
	places := map[string]int{}
	for _, p := range t.Proofs {
		id, err := hex.DecodeString(p.Keyset)
		if err != nil {
			return "", fmt.Errorf("token: keyset %.70q: %w", p.Keyset, err)
		}
		i, ok := places[p.Keyset]
		if !ok {
			i = len(wire.Sets)
			places[p.Keyset] = i
			wire.Sets = append(wire.Sets, setV4{Keyset: id})
		}
		proof := proofV4{Amount: p.Amount, Secret: p.Secret, C: p.C[:], Witness: string(p.Witness)}
		if d := p.DLEQ; d != nil && d.R != nil {
			proof.DLEQ = &dleqV4{E: d.E[:], S: d.S[:], R: d.R[:]}
		}
		wire.Sets[i].Proofs = append(wire.Sets[i].Proofs, proof)
	}
	b, err := cbor.Marshal(wire)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return "cashuB" + base64.RawURLEncoding.EncodeToString(b), nil
}

// Request asks for a payment in ecash (NUT-18). What is empty is left to the payer.
type Request struct {
	ID         string         `cbor:"i,omitempty" json:"i,omitempty"`
	Amount     uint64         `cbor:"a,omitempty" json:"a,omitempty"`
	Unit       string         `cbor:"u,omitempty" json:"u,omitempty"`
	Once       bool           `cbor:"s,omitempty" json:"s,omitempty"`
	Mints      []string       `cbor:"m,omitempty" json:"m,omitempty"` // one of these
	Text       string         `cbor:"d,omitempty" json:"d,omitempty"`
	Transports []Transport    `cbor:"t,omitempty" json:"t,omitempty"` // the first that the payer can use
	Lock       *RequestedLock `cbor:"nut10,omitempty" json:"nut10,omitempty"`
}

// Transport is a way to send the payment.
type Transport struct {
	Type   string     `cbor:"t" json:"t"` // nostr or post
	Target string     `cbor:"a" json:"a"` // nprofile, or URL
	Tags   [][]string `cbor:"g,omitempty" json:"g,omitempty"`
}

// RequestedLock is the condition that the secrets must have.
type RequestedLock struct {
	Kind string     `cbor:"k" json:"k"`
	Data string     `cbor:"d" json:"d"`
	Tags [][]string `cbor:"t,omitempty" json:"t,omitempty"`
}

// ParseRequest parses a request, which begins with creqA.
func ParseRequest(s string) (r Request, err error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(s), "creqA")
	if !ok || len(s) > maxToken {
		return r, fmt.Errorf("a payment request begins with creqA and has at most %d characters", maxToken)
	}
	b, err := decode64(body)
	if err == nil {
		err = strict.Unmarshal(b, &r)
	}
	if err != nil {
		return Request{}, fmt.Errorf("payment request: %w", err)
	}
	return r, nil
}

// String returns the request as it is sent.
func (r Request) String() string {
	b, err := cbor.Marshal(r)
	if err != nil {
		panic(err) // texts, numbers and lists of these
	}
	return "creqA" + base64.RawURLEncoding.EncodeToString(b)
}
