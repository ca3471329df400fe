package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/canon"
	"guild/cashu"
	"guild/nip90"
)

// ecash is the value of a cashu_proof, as the customer gave it to the provider. Keysets, the mint's answer to GET
// /v1/keys (NUT-01), is optional; with it the mint's signature can be checked offline.
type ecash struct {
	Mint    string        `json:"mint"`
	Unit    string        `json:"unit"`
	Proofs  []ecashProof  `json:"proofs"`
	Keysets []ecashKeyset `json:"keysets,omitempty"`
}

// ecashProof is a Proof of NUT-00 with the witness of NUT-11 and optionally the DLEQ proof of NUT-12.
type ecashProof struct {
	Amount  uint64             `json:"amount"`
	Keyset  string             `json:"id"`
	Secret  string             `json:"secret"`
	C       string             `json:"C"`
	Witness stdjson.RawMessage `json:"witness"` // an object, or a string that contains one
	DLEQ    *dleq              `json:"dleq,omitempty"`
}

// cashu checks that the ecash is worth the amount, that the provider asked for it, and that it is the provider's: locked to
// the provider, who signed for it, or locked as an escrow and released (see checkEscrow), or locked to the key in its quote alone.
//
// Two things in it are only the customer's claim: a coin's value, which no signature but the mint's covers, and the mint's
// keys. So a payment counts as proven only if the provider asked for the amount in a quote. Only the mint knows whether a
// coin was spent.
func (p payment) cashu() (string, error) {
	var f nip90.Feedback
	if p.quote != nil {
		var err error
		if f, err = p.asked(); err != nil {
			return "", err
		}
	}
	var e ecash
	if err := decodeJSON(p.receipt.PaymentProof.Value, &e); err != nil {
		return "", fmt.Errorf("the ecash cannot be read: %w", err)
	}
	if err := checkAsset(e.Unit, e.Mint, p.assetID()); err != nil {
		return "", err
	}
	var terms *escrowTerms
	if p.quote != nil {
		var err error
		if terms, err = p.price(f, e.Mint, e.Unit, p.receipt.AmountMsats); err != nil {
			return "", err
		}
	}
	var held escrow
	var alone ahead
	owner, signed := p.receipt.ProviderPubKey[:], 0
	for i, proof := range e.Proofs {
		if slices.ContainsFunc(e.Proofs[:i], func(other ecashProof) bool { return other.Secret == proof.Secret }) {
			return "", fmt.Errorf("coin %d of the ecash is there twice", i+1)
		}
		checked, err := proof.check(owner, &held, &alone, e.Keysets, e.Unit)
		if isAbsent(err) {
			return "", err
		}
		if err == nil && held.coins > 0 && p.quote != nil {
			err = held.follows(terms)
		}
		if err == nil && held.coins > 0 {
			err = held.named(p.request)
		}
		if err == nil && alone.coins > 0 && p.quote != nil {
			err = alone.follows(terms, owner, p.receipt.AmountMsats)
		}
		if err != nil {
			return "", fmt.Errorf("coin %d of the ecash: %w", i+1, err)
		}
		if checked {
			signed++
		}
	}
	amount, err := e.amount()
	switch {
	case err != nil:
		return "", err
	case amount != p.receipt.AmountMsats:
		return "", fmt.Errorf("the ecash is worth %s, and the receipt says that %s were paid",
			sum(amount, e.Unit), sum(p.receipt.AmountMsats, e.Unit))
	case p.quote == nil && held.coins > 0:
		return "", held.unquoted(sum(amount, e.Unit))
	case p.quote == nil && alone.coins > 0:
		return "", absence(fmt.Sprintf("%s of it, by the customer's word, are in ecash that is locked to one key; the provider's quote, which says "+
			"whether that is its own, is not in the export", sum(amount, e.Unit)))
	case alone.coins > 0:
		return alone.proven(len(e.Proofs), signed, sum(amount, e.Unit))
	case p.quote == nil:
		return "", absence(fmt.Sprintf("%s of it, by the customer's word, are in ecash that the provider signed for; the provider's quote of "+
			"the amount is not in the export", sum(amount, e.Unit)))
	}
	byMint := "that the mint issued it is not checked offline"
	if signed == len(e.Proofs) {
		byMint = "it is signed by the mint's keys as they were handed over"
	}
	if held.coins > 0 {
		return held.proven(sum(amount, e.Unit), byMint), nil
	}
	return fmt.Sprintf("%s in ecash that is locked to the provider, who signed for it; %s", sum(amount, e.Unit), byMint), nil
}

// checkAsset checks that the asset id in a receipt is that of ecash in a unit of a mint.
func checkAsset(unit, mint, stated string) error {
	ticker := strings.ToUpper(unit)
	switch {
	case inBitcoin(unit):
		ticker = "BTC"
	case ticker == "BTC":
		return fmt.Errorf("%.20q is no unit of ecash in bitcoin", unit)
	}
	if asset := fmt.Sprintf("%s_CASHU(%s)", ticker, mint); asset != stated {
		return fmt.Errorf("the ecash is %.80q, and the receipt has %.80q", asset, stated)
	}
	return nil
}

// inBitcoin reports whether a unit of ecash is one of bitcoin.
func inBitcoin(unit string) bool { return unit == "sat" || unit == "msat" }

// each returns what one unit is worth in a receipt: in msat, and of what is not bitcoin in thousandths of the unit.
func each(unit string) uint64 {
	if unit == "msat" {
		return 1
	}
	return 1000
}

// sum returns an amount in a receipt for a person.
func sum(amount guild.Msat, unit string) string {
	if inBitcoin(unit) {
		return amount.String()
	}
	text := strconv.FormatInt(int64(amount)/1000, 10)
	if rest := int64(amount) % 1000; rest > 0 {
		text += fmt.Sprintf(".%03d", rest)
	}
	text += fmt.Sprintf(" %.20s", unit)
	if strings.EqualFold(unit, "test") {
		text += " (play money, worth nothing)"
	}
	return text
}

// decodeJSON decodes JSON and refuses text that two parsers could read differently.
func decodeJSON(text string, v any) error {
	canonical, err := canon.Canonical([]byte(text))
	if err != nil {
		return err
	}
	return json.Unmarshal(canonical, v)
}

// amount returns the value of the ecash as a receipt states it.
func (e ecash) amount() (guild.Msat, error) {
	total := uint64(0)
	for _, proof := range e.Proofs {
		if proof.Amount > (math.MaxInt64-total)/each(e.Unit) {
			return 0, errors.New("the ecash is worth more than there is")
		}
		total += proof.Amount * each(e.Unit)
	}
	return guild.Msat(total), nil
}

// check checks one coin: its lock, a signature and, if the keyset is there, the mint's signature. byMint reports whether the
// last was checked. The lock is to the provider and has its signature, or it is one of an escrow, which is added to held, or it is to
// some key alone, and is added to alone.
func (c ecashProof) check(owner []byte, held *escrow, alone *ahead, keysets []ecashKeyset, unit string) (byMint bool, err error) {
	if !strings.HasPrefix(c.Keyset, "00") && !strings.HasPrefix(c.Keyset, "01") {
		return false, absence("ecash of this kind of keyset is not checked by this program")
	}
	if _, err := cashu.ParsePoint(c.C); err != nil {
		return false, fmt.Errorf("the signature of the mint: %w", err)
	}
	if lock, ok := ofEscrow(c.Secret); ok {
		err = c.checkEscrow(lock, held)
	} else {
		err = c.checkOwn(owner, alone)
	}
	if err != nil || c.DLEQ == nil {
		return false, err
	}
	i := slices.IndexFunc(keysets, func(k ecashKeyset) bool { return k.ID == c.Keyset })
	if i < 0 {
		return false, nil
	}
	return true, c.checkMint(keysets[i], unit)
}

// checkOwn checks that the coin is locked to one key alone: the provider's, who signed for it, or one that is added to alone.
func (c ecashProof) checkOwn(owner []byte, alone *ahead) error {
	key, err := lockedTo(c.Secret)
	if err != nil {
		return err
	}
	if !bytes.Equal(key, owner) || c.unsigned() {
		return alone.add(key)
	}
	return c.checkWitness(key, "provider")
}

// lock is the second element of a secret with a spending condition (NUT-10).
type lock struct {
	Data string     `json:"data"`
	Tags [][]string `json:"tags"`
}

// lockedTo returns the x-only public key that alone can spend the coin with that secret (NUT-11). A secret with any
// tag that lets other keys spend it is refused.
func lockedTo(secret string) ([]byte, error) {
	var parts []stdjson.RawMessage
	var kind string
	var l lock
	if decodeJSON(secret, &parts) != nil || len(parts) != 2 ||
		json.Unmarshal(parts[0], &kind) != nil || json.Unmarshal(parts[1], &l) != nil || kind != "P2PK" {
		return nil, errors.New("it is not locked to a key")
	}
	for _, tag := range l.Tags {
		if len(tag) == 0 {
			continue
		}
		switch tag[0] {
		case "sigflag":
			if len(tag) != 2 || tag[1] != "SIG_INPUTS" {
				return nil, errors.New("what opens its lock is signed together with what it was swapped for, which is not here")
			}
		case "pubkeys", "n_sigs", "locktime", "refund", "n_sigs_refund":
			return nil, fmt.Errorf("by its %s others than the provider have a say in who spends it", tag[0])
		}
	}
	key, err := cashu.ParsePoint(l.Data)
	if err != nil {
		return nil, fmt.Errorf("what it is locked to: %w", err)
	}
	return key[1:], nil
}

// checkWitness checks that a key of the lock, who is named in errors, signed the secret.
func (c ecashProof) checkWitness(owner []byte, who string) error {
	var text string
	if json.Unmarshal(c.Witness, &text) != nil {
		text = string(c.Witness)
	}
	var witness struct {
		Signatures []string `json:"signatures"`
	}
	if text == "" {
		return fmt.Errorf("the %s did not sign for it", who)
	}
	if err := decodeJSON(text, &witness); err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	key, err := schnorr.ParsePubKey(owner)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(c.Secret))
	if !slices.ContainsFunc(witness.Signatures, func(s string) bool {
		b, err := hex.DecodeString(s)
		if err != nil {
			return false
		}
		signature, err := schnorr.ParseSignature(b)
		return err == nil && signature.Verify(digest[:], key)
	}) {
		return fmt.Errorf("the signature for it is not the %s's", who)
	}
	return nil
}
