package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
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

// deriveID computes the id of the keyset from its keys (NUT-02), in the version of its id.
func (k ecashKeyset) deriveID() (string, error) {
	amounts := map[string]uint64{}
	for amount, key := range k.Keys {
		n, err := strconv.ParseUint(amount, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != amount {
			return "", fmt.Errorf("keyset: %.30q is not an amount", amount)
		}
		if _, err := parsePoint(key); err != nil {
			return "", fmt.Errorf("keyset: the key for %s: %w", amount, err)
		}
		amounts[amount] = n
	}
	sorted := slices.SortedFunc(maps.Keys(amounts), func(a, b string) int { return cmp.Compare(amounts[a], amounts[b]) })
	if strings.HasPrefix(k.ID, "00") {
		digest := sha256.New()
		for _, amount := range sorted {
			b, _ := hex.DecodeString(k.Keys[amount]) // cannot fail: parsePoint accepted it
			digest.Write(b)
		}
		return "00" + hex.EncodeToString(digest.Sum(nil))[:14], nil
	}
	for i, amount := range sorted {
		sorted[i] = amount + ":" + strings.ToLower(k.Keys[amount])
	}
	text := strings.Join(sorted, ",") + "|unit:" + k.Unit
	if k.Fee > 0 {
		text += fmt.Sprintf("|input_fee_ppk:%d", k.Fee)
	}
	if k.Expiry > 0 {
		text += fmt.Sprintf("|final_expiry:%d", k.Expiry)
	}
	digest := sha256.Sum256([]byte(text))
	return "01" + hex.EncodeToString(digest[:]), nil
}

// checkMint checks that the keyset's key for the coin's amount signed the coin.
func (c ecashProof) checkMint(k ecashKeyset, unit string) error {
	id, err := k.deriveID()
	switch {
	case err != nil:
		return err
	case id != k.ID:
		return fmt.Errorf("the keys of keyset %.70q are not those that its id was made of", k.ID)
	case k.Unit != unit:
		return fmt.Errorf("keyset %s is for another unit", k.ID)
	}
	key, ok := k.Keys[strconv.FormatUint(c.Amount, 10)]
	if !ok {
		return fmt.Errorf("keyset %s has no key for an amount of %d", k.ID, c.Amount)
	}
	good, err := c.DLEQ.verify(key, c.Secret, c.C)
	if err == nil && !good {
		err = errors.New("the mint did not sign it")
	}
	return err
}

// verify checks that key signed the point of the secret, blinded by r, and that c is the unblinded signature (NUT-12).
func (d dleq) verify(key, secret, c string) (bool, error) {
	var scalars [3]btcec.ModNScalar
	for i, s := range []string{d.E, d.S, d.R} {
		b, err := hex.DecodeString(s)
		if err != nil || len(b) != 32 || scalars[i].SetByteSlice(b) {
			return false, fmt.Errorf("DLEQ proof: %.70q is not a scalar", s)
		}
	}
	e, s, r := &scalars[0], &scalars[1], &scalars[2]
	a, err := parsePoint(key)
	if err != nil {
		return false, fmt.Errorf("key of the mint: %w", err)
	}
	unblinded, err := parsePoint(c)
	if err != nil {
		return false, fmt.Errorf("signature of the mint: %w", err)
	}
	y, err := hashToCurve(secret)
	if err != nil {
		return false, err
	}
	minusE := new(btcec.ModNScalar).NegateVal(e)
	signature := add(unblinded, times(r, a))               // C' = C + r·A
	message := add(y, base(r))                             // B' = Y + r·G
	r1 := add(base(s), times(minusE, a))                   // s·G − e·A
	r2 := add(times(s, message), times(minusE, signature)) // s·B' − e·C'
	var text strings.Builder
	for _, p := range []btcec.JacobianPoint{r1, r2, a, signature} {
		p.ToAffine()
		if p.Z.IsZero() || p.X.IsZero() && p.Y.IsZero() {
			return false, nil // no honest proof gives the point at infinity
		}
		text.WriteString(hex.EncodeToString(btcec.NewPublicKey(&p.X, &p.Y).SerializeUncompressed()))
	}
	digest := sha256.Sum256([]byte(text.String()))
	return strings.EqualFold(hex.EncodeToString(digest[:]), d.E), nil
}

// hashToCurve returns the point of a secret: the first of its hashes, by counter, that is the x coordinate of a point
// (NUT-00).
func hashToCurve(secret string) (btcec.JacobianPoint, error) {
	inner := sha256.Sum256([]byte("Secp256k1_HashToCurve_Cashu_" + secret))
	for counter := range uint32(1 << 16) {
		x := sha256.Sum256(binary.LittleEndian.AppendUint32(inner[:], counter))
		if p, err := btcec.ParseJacobian(append([]byte{2}, x[:]...)); err == nil {
			return p, nil
		}
	}
	return btcec.JacobianPoint{}, errors.New("the secret stands for no point")
}

// parsePoint parses a compressed point of the curve, in hex.
func parsePoint(s string) (btcec.JacobianPoint, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != btcec.PubKeyBytesLenCompressed {
		return btcec.JacobianPoint{}, fmt.Errorf("%.80q is not a compressed point", s)
	}
	key, err := btcec.ParsePubKey(b)
	if err != nil {
		return btcec.JacobianPoint{}, fmt.Errorf("%s: %w", s, err)
	}
	var p btcec.JacobianPoint
	key.AsJacobian(&p)
	return p, nil
}

func add(p, q btcec.JacobianPoint) (sum btcec.JacobianPoint) {
	btcec.AddNonConst(&p, &q, &sum)
	return sum
}

func times(n *btcec.ModNScalar, p btcec.JacobianPoint) (product btcec.JacobianPoint) {
	btcec.ScalarMultNonConst(n, &p, &product)
	return product
}

func base(n *btcec.ModNScalar) (product btcec.JacobianPoint) {
	btcec.ScalarBaseMultNonConst(n, &product)
	return product
}
