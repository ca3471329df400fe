package verify_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"guild"
	"guild/bolt11"
)

// invoice returns an invoice over an amount, for the preimage with that hash.
func invoice(t testing.TB, amount guild.Msat, hash guild.Hash) string {
	t.Helper()
	node, _ := btcec.PrivKeyFromBytes([]byte{31: 1})
	return must[string](t)(bolt11.Invoice{
		Network: bolt11.Mainnet, Amount: amount, Created: time.Unix(at, 0), PaymentHash: hash, Secret: [32]byte{2}, Description: "the work",
	}.Sign(node))
}

// transaction returns a transaction that pays so many satoshis. It has no witness, because the id does not cover
// witnesses.
func transaction(satoshis uint64) (file []byte, id string) {
	b := []byte{2, 0, 0, 0, 1}
	b = append(b, make([]byte, 32+4)...) // spent output
	b = append(b, 0, 0xff, 0xff, 0xff, 0xff, 1)
	b = binary.LittleEndian.AppendUint64(b, satoshis)
	b = append(b, 1, 0x51, 0, 0, 0, 0)
	once := sha256.Sum256(b)
	twice := sha256.Sum256(once[:])
	slices.Reverse(twice[:])
	return []byte(hex.EncodeToString(b)), hex.EncodeToString(twice[:])
}

// ecash returns one coin of 2 sat, locked to the provider, who signed for it.
func ecash(t testing.TB) string {
	t.Helper()
	secret := `["P2PK",{"data":"02` + provider().public.Hex() + `","nonce":"5d11913ee0f92fefdc82a6764fd2457a","tags":[["sigflag","SIG_INPUTS"]]}]`
	owner := provider()
	private, _ := btcec.PrivKeyFromBytes(owner.secret[:])
	digest := sha256.Sum256([]byte(secret))
	signature := must[*schnorr.Signature](t)(schnorr.Sign(private, digest[:], schnorr.FastSign()))
	witness := must[[]byte](t)(json.Marshal(map[string]any{"signatures": []string{hex.EncodeToString(signature.Serialize())}}))
	coin := map[string]any{"amount": 2, "id": "00ad268c4d1f5826", "secret": secret, "C": "02" + customer().public.Hex(), "witness": string(witness)}
	return string(must[[]byte](t)(json.Marshal(map[string]any{"mint": "https://mint.example", "unit": "sat", "proofs": []any{coin}})))
}
