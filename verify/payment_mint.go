package verify

import (
	"fmt"
	"strconv"

	"guild/cashu"
)

// ecashKeyset is one keyset of a mint (NUT-01): a key for each amount.
type ecashKeyset struct {
	ID     string            `json:"id"`
	Unit   string            `json:"unit"`
	Keys   map[string]string `json:"keys"` // by amount, in decimal
	Fee    uint64            `json:"input_fee_ppk,omitempty"`
	Expiry uint64            `json:"final_expiry,omitempty"` // Unix seconds
}

// dleq is the mint's proof that it signed with its key, and the blinding factor r of the coin (NUT-12). All are
// scalars in hex.
type dleq struct {
	E string `json:"e"`
	S string `json:"s"`
	R string `json:"r"`
}

// parse returns the keyset with its keys decoded.
func (k ecashKeyset) parse() (cashu.Keyset, error) {
	parsed := cashu.Keyset{ID: k.ID, Unit: k.Unit, Keys: cashu.Keys{}, Fee: k.Fee, Expiry: k.Expiry}
	for amount, key := range k.Keys {
		n, err := strconv.ParseUint(amount, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != amount {
			return parsed, fmt.Errorf("keyset: %.30q is not an amount", amount)
		}
		if parsed.Keys[n], err = cashu.ParsePoint(key); err != nil {
			return parsed, fmt.Errorf("keyset: the key for %s: %w", amount, err)
		}
	}
	return parsed, nil
}

// checkMint checks that the keyset's key for the coin's amount signed the coin.
func (c ecashProof) checkMint(k ecashKeyset, unit string) error {
	keys, err := k.parse()
	if err == nil {
		err = keys.Check()
	}
	switch {
	case err != nil:
		return err
	case k.Unit != unit:
		return fmt.Errorf("keyset %s is for another unit", k.ID)
	}
	key, ok := keys.Keys[c.Amount]
	if !ok {
		return fmt.Errorf("keyset %s has no key for an amount of %d", k.ID, c.Amount)
	}
	signature, err := cashu.ParsePoint(c.C)
	if err != nil {
		return fmt.Errorf("signature of the mint: %w", err)
	}
	proof, err := c.DLEQ.parse()
	if err != nil {
		return fmt.Errorf("DLEQ proof: %w", err)
	}
	return proof.Check(key, c.Secret, signature)
}

// parse returns the proof with its scalars decoded.
func (d dleq) parse() (cashu.DLEQ, error) {
	parsed := cashu.DLEQ{R: new(cashu.Scalar)}
	err := parsed.E.UnmarshalText([]byte(d.E))
	if err == nil {
		err = parsed.S.UnmarshalText([]byte(d.S))
	}
	if err == nil {
		err = parsed.R.UnmarshalText([]byte(d.R))
	}
	return parsed, err
}
