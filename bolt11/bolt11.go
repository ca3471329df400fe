// Package bolt11 reads and writes the invoices of the Lightning network (BOLT 11). An invoice names the payee, the
// amount and the purpose, and the payment hash, whose preimage proves the payment. The payee's signature has been
// checked in every decoded invoice. The package does not know whether an invoice was paid, can be paid or should be
// paid.
//
// The package is stricter than a wallet needs to be. It refuses everything that two readers could understand
// differently: a duplicate field, bits after the end of a field, an amount with a leading zero.
package bolt11

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"guild"
)

// MaxSize limits the length of an invoice, in characters.
const MaxSize = 7089

// DefaultExpiry is the validity of an invoice without an expiry field.
const DefaultExpiry = time.Hour

// DefaultMinFinalCLTV is the number of blocks that the last hop of a payment stays open, for an invoice without the
// field.
const DefaultMinFinalCLTV = 18

// ErrInvalid is wrapped by every error about an invoice.
var ErrInvalid = errors.New("invalid invoice")

// Network is the part of the prefix after "ln". It determines the currency.
type Network string

// The networks.
const (
	Mainnet Network = "bc"
	Testnet Network = "tb"
	Signet  Network = "tbs"
	Regtest Network = "bcrt"
)

// PubKey is a compressed secp256k1 public key, which identifies a Lightning node.
type PubKey [btcec.PubKeyBytesLenCompressed]byte

// Invoice is one invoice. The zero value of a field means that the invoice does not have it. Network, Created,
// PaymentHash, Secret and Payee are always set.
type Invoice struct {
	Network         Network
	Amount          guild.Msat    // least amount; 0 lets the payer choose
	Created         time.Time     // whole seconds, UTC, at most 35 bits of Unix seconds
	PaymentHash     guild.Hash    // hash of the preimage that the payee reveals when paid
	Secret          [32]byte      // prevents nodes on the route from probing the payee
	Description     string        // UTF-8; empty with a DescriptionHash
	DescriptionHash guild.Hash    // of a description sent elsewhere; zero if Description is used
	Payee           PubKey        // the signer
	Expiry          time.Duration // whole seconds; 0 means DefaultExpiry. See Expired
	MinFinalCLTV    uint64        // blocks; 0 means DefaultMinFinalCLTV
	Metadata        []byte        // returned by the payer with the payment
	Features        []int         // set bits (BOLT 9), ascending, with those for Secret

	Fallbacks [][]byte // f fields in groups of 5 bits, the version first: on-chain addresses
	Routes    [][]byte // r fields, each a list of hops of 51 bytes: routes to a payee that is not public
}

// Decode parses an invoice and checks its signature.
func Decode(s string) (Invoice, error) {
	inv, err := decode(s)
	if err != nil {
		return Invoice{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return inv, nil
}

// Sizes within the data part, in groups of 5 bits.
const (
	timestampGroups = 7
	signatureGroups = 104
)

func decode(s string) (Invoice, error) {
	prefix, data, err := decodeBech32(s)
	if err != nil {
		return Invoice{}, err
	}
	if len(data) < timestampGroups+signatureGroups {
		return Invoice{}, fmt.Errorf("%d characters of data: too short for a signature", len(data))
	}
	var inv Invoice
	if inv.Network, inv.Amount, err = parsePrefix(prefix); err != nil {
		return Invoice{}, err
	}
	signed, signature := data[:len(data)-signatureGroups], data[len(data)-signatureGroups:]
	seconds, _ := number(signed[:timestampGroups])
	inv.Created = time.Unix(int64(seconds), 0).UTC()
	if err := inv.takeFields(signed[timestampGroups:]); err != nil {
		return Invoice{}, err
	}
	return inv, inv.checkSignature(digest(prefix, signed), signature)
}

// digest returns the signed hash: of the prefix as text and the data as bytes, padded with zero bits.
func digest(prefix string, data []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(prefix), regroup(data, 5, 8)...))
}

// checkSignature checks the payee's signature, or recovers the payee from it if the invoice names none. A signature
// with a high S value is valid only for recovery: with a named payee, both forms would verify, and the invoice would
// have two encodings.
func (inv *Invoice) checkSignature(digest [sha256.Size]byte, groups []byte) error {
	b := regroup(groups, 5, 8) // 520 bits, without padding
	if b[64] > 3 {
		return fmt.Errorf("signature: there is no recovery id %d", b[64])
	}
	if inv.Payee == (PubKey{}) {
		compact := append([]byte{compactCompressed + b[64]}, b[:64]...)
		key, _, err := ecdsa.RecoverCompact(compact, digest[:])
		if err != nil {
			return fmt.Errorf("signature: no payee can be found by it: %w", err)
		}
		inv.Payee = PubKey(key.SerializeCompressed())
		return nil
	}
	key, err := btcec.ParsePubKey(inv.Payee[:])
	if err != nil {
		return fmt.Errorf("payee: %w", err)
	}
	var r, s btcec.ModNScalar
	if r.SetByteSlice(b[:32]) || s.SetByteSlice(b[32:64]) || s.IsOverHalfOrder() {
		return errors.New("signature: not in its one form")
	}
	if !ecdsa.NewSignature(&r, &s).Verify(digest[:], key) {
		return errors.New("signature: not by the payee")
	}
	return nil
}

// compactCompressed is added to the recovery id in the compact form of a signature, for a compressed key.
const compactCompressed = 27 + 4

// Expired reports whether the invoice may not be paid any more at time now.
func (inv Invoice) Expired(now time.Time) bool {
	lasts := inv.Expiry
	if lasts == 0 {
		lasts = DefaultExpiry
	}
	return now.Sub(inv.Created) > lasts
}

// Sign returns the encoded invoice, signed by the payee. Payee can be empty.
func (inv Invoice) Sign(key *btcec.PrivateKey) (string, error) {
	s, err := inv.sign(key)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, nil
}

// sign writes the data first, because the signature covers the prefix and all fields.
func (inv Invoice) sign(key *btcec.PrivateKey) (string, error) {
	if own := PubKey(key.PubKey().SerializeCompressed()); inv.Payee != (PubKey{}) && inv.Payee != own {
		return "", errors.New("payee: another than the key")
	}
	prefix, err := inv.prefix()
	if err != nil {
		return "", err
	}
	seconds := inv.Created.Unix()
	if seconds < 0 || seconds >= 1<<(5*timestampGroups) {
		return "", fmt.Errorf("created in the year %d: not within 35 bits of seconds since 1970", inv.Created.Year())
	}
	data := groupsOf(uint64(seconds), timestampGroups)
	if data, err = inv.appendFields(data); err != nil {
		return "", err
	}
	sum := digest(prefix, data)
	compact := ecdsa.SignCompact(key, sum[:], true)
	signature := append(compact[1:], compact[0]-compactCompressed)
	return encodeBech32(prefix, append(data, regroup(signature, 8, 5)...))
}
