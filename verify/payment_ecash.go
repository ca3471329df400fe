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
	"strings"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/canon"
	"guild/cashu"
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

// cashu checks that the ecash is worth the amount, that only the provider can spend it, and that the provider signed
// for it.
//
// Two things in it are only the customer's claim: a coin's value, which the provider's signature does not cover, and
// the mint's keys. So a payment counts as proven only if the provider asked for the amount in a quote. Only the mint
// knows whether a coin was spent twice.
func (p payment) cashu() (string, error) {
	if err := p.checkQuote(); err != nil {
		return "", err
	}
	var e ecash
	if err := decodeJSON(p.receipt.PaymentProof.Value, &e); err != nil {
		return "", fmt.Errorf("the ecash cannot be read: %w", err)
	}
	ticker := strings.ToUpper(e.Unit)
	if e.Unit == "sat" || e.Unit == "msat" {
		ticker = "BTC"
	}
	asset := fmt.Sprintf("%s_CASHU(%s)", ticker, e.Mint)
	if want := p.assetID(); asset != want {
		return "", fmt.Errorf("the ecash is %.80q, and the receipt has %.80q", asset, want)
	}
	signed := 0
	for i, proof := range e.Proofs {
		if slices.ContainsFunc(e.Proofs[:i], func(other ecashProof) bool { return other.Secret == proof.Secret }) {
			return "", fmt.Errorf("coin %d of the ecash is there twice", i+1)
		}
		checked, err := proof.check(p.receipt.ProviderPubKey[:], e.Keysets, e.Unit)
		if isAbsent(err) {
			return "", err
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
		return "", fmt.Errorf("the ecash is worth %s, and the receipt says that %s were paid", amount, p.receipt.AmountMsats)
	case p.quote == nil:
		return "", absence(fmt.Sprintf("%s of it, by the customer's word, are in ecash that the provider signed for; the provider's quote of "+
			"the amount is not in the export", amount))
	case signed == len(e.Proofs):
		return fmt.Sprintf("%s in ecash that is locked to the provider, who signed for it; it is signed by the mint's keys as they "+
			"were handed over", amount), nil
	}
	return fmt.Sprintf("%s in ecash that is locked to the provider, who signed for it; that the mint issued it is not checked offline",
		amount), nil
}

// decodeJSON decodes JSON and refuses text that two parsers could read differently.
func decodeJSON(text string, v any) error {
	canonical, err := canon.Canonical([]byte(text))
	if err != nil {
		return err
	}
	return json.Unmarshal(canonical, v)
}

// amount returns the value of the ecash.
func (e ecash) amount() (guild.Msat, error) {
	each := uint64(1000)
	switch e.Unit {
	case "sat":
	case "msat":
		each = 1
	default:
		return 0, absence("the ecash is locked to the provider, who signed for it; how many msat its unit is worth is not known here")
	}
	sum := uint64(0)
	for _, proof := range e.Proofs {
		if proof.Amount > (math.MaxInt64-sum)/each {
			return 0, errors.New("the ecash is worth more than there is")
		}
		sum += proof.Amount * each
	}
	return guild.Msat(sum), nil
}

// check checks one coin: its lock, the provider's signature and, if the keyset is there, the mint's signature. byMint
// reports whether the last was checked.
func (c ecashProof) check(owner []byte, keysets []ecashKeyset, unit string) (byMint bool, err error) {
	if !strings.HasPrefix(c.Keyset, "00") && !strings.HasPrefix(c.Keyset, "01") {
		return false, absence("ecash of this kind of keyset is not checked by this program")
	}
	if _, err := cashu.ParsePoint(c.C); err != nil {
		return false, fmt.Errorf("the signature of the mint: %w", err)
	}
	key, err := lockedTo(c.Secret)
	switch {
	case err != nil:
		return false, err
	case !bytes.Equal(key, owner):
		return false, errors.New("it is locked to another key than the provider's")
	}
	if err := c.checkWitness(key); err != nil || c.DLEQ == nil {
		return false, err
	}
	i := slices.IndexFunc(keysets, func(k ecashKeyset) bool { return k.ID == c.Keyset })
	if i < 0 {
		return false, nil
	}
	return true, c.checkMint(keysets[i], unit)
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

// checkWitness checks that the owner of the lock signed the secret.
func (c ecashProof) checkWitness(owner []byte) error {
	var text string
	if json.Unmarshal(c.Witness, &text) != nil {
		text = string(c.Witness)
	}
	var witness struct {
		Signatures []string `json:"signatures"`
	}
	if text == "" {
		return errors.New("the provider did not sign for it")
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
		return errors.New("the signature for it is not the provider's")
	}
	return nil
}
