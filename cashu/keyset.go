package cashu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Keyset is a set of a mint's public keys (NUT-01, NUT-02).
type Keyset struct {
	ID     string `json:"id"` // from the keys: see Check
	Unit   string `json:"unit"`
	Keys   Keys   `json:"keys"`
	Fee    uint64 `json:"input_fee_ppk,omitempty"` // for each proof that is spent, in thousandths of the unit
	Expiry uint64 `json:"final_expiry,omitempty"`  // Unix seconds, after which nothing of it can be spent; 0 for never
}

// Keys has the key for each amount. In JSON the amounts are decimal names.
type Keys map[uint64]Point

// maxKeys limits the keys of a keyset. Mints have up to 64.
const maxKeys = 256

// UnmarshalJSON implements json.Unmarshaler. It refuses an amount that is there twice or in another form, and over 256 keys.
func (k *Keys) UnmarshalJSON(b []byte) error {
	var wire map[string]Point
	if err := json.Unmarshal(b, &wire); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if len(wire) > maxKeys {
		return fmt.Errorf("keys: %d of them; at most %d are read", len(wire), maxKeys)
	}
	*k = make(Keys, len(wire))
	for name, key := range wire {
		amount, err := strconv.ParseUint(name, 10, 64)
		if err != nil || strconv.FormatUint(amount, 10) != name {
			return fmt.Errorf("keys: %.30q is not an amount", name)
		}
		if key == (Point{}) {
			return fmt.Errorf("keys: the one for %d is missing", amount)
		}
		(*k)[amount] = key
	}
	return nil
}

// Check returns an error if the id of the keyset is not that of its keys, in the version of the id.
func (k Keyset) Check() error {
	want, err := k.Derive()
	if err == nil && want != k.ID {
		err = fmt.Errorf("the keys of keyset %.70q are not those that its id was made of", k.ID)
	}
	return err
}

// Derive computes the id from all else (NUT-02), in the version by which the present id begins: 00 or 01.
func (k Keyset) Derive() (string, error) {
	amounts := slices.Sorted(maps.Keys(k.Keys))
	if strings.HasPrefix(k.ID, "00") {
		digest := sha256.New()
		for _, amount := range amounts {
			key := k.Keys[amount]
			digest.Write(key[:])
		}
		return "00" + hex.EncodeToString(digest.Sum(nil))[:14], nil
	}
	if !strings.HasPrefix(k.ID, "01") {
		return "", fmt.Errorf("keyset %.70q is of a version that this program does not know", k.ID)
	}
	var text strings.Builder
	for i, amount := range amounts {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, "%d:%s", amount, k.Keys[amount])
	}
	text.WriteString("|unit:" + k.Unit)
	if k.Fee > 0 {
		fmt.Fprintf(&text, "|input_fee_ppk:%d", k.Fee)
	}
	if k.Expiry > 0 {
		fmt.Fprintf(&text, "|final_expiry:%d", k.Expiry)
	}
	digest := sha256.Sum256([]byte(text.String()))
	return "01" + hex.EncodeToString(digest[:]), nil
}
