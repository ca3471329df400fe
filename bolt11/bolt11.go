// Package bolt11 reads and writes the invoices of the Lightning network (BOLT 11): who wants how much for what, and the
// hash whose preimage proves that it was paid. An invoice that is returned is signed by its payee; whether it was paid,
// can be paid or should be is the business of whoever reads it.
//
// The package is stricter than a wallet needs to be. What two readers could understand differently is refused: a field
// that stands twice, bits after the end of a field, an amount with a leading zero.
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

// MaxSize is the longest invoice that is read or written, in characters.
const MaxSize = 7089

// DefaultExpiry is how long an invoice is good for that does not say.
const DefaultExpiry = time.Hour

// DefaultMinFinalCLTV is how many blocks the last hop of a payment stays open if the invoice does not say.
const DefaultMinFinalCLTV = 18

// ErrInvalid is matched by every error about an invoice.
var ErrInvalid = errors.New("invalid invoice")

// Network says whose money is asked for: it is the part of the prefix after "ln".
type Network string

// The networks.
const (
	Mainnet Network = "bc"
	Testnet Network = "tb"
	Signet  Network = "tbs"
	Regtest Network = "bcrt"
)

// PubKey is a compressed secp256k1 public key, as Lightning nodes are named by.
type PubKey [btcec.PubKeyBytesLenCompressed]byte

// Invoice is one invoice. Its zero values are what an invoice that does not have the field means, but for Network,
// Created, PaymentHash, Secret and Payee, which every invoice has.
type Invoice struct {
	Network         Network
	Amount          guild.Msat    // at least; 0 leaves it to the payer
	Created         time.Time     // to the second, UTC, at most 35 bits of Unix seconds
	PaymentHash     guild.Hash    // of the preimage that paying reveals
	Secret          [32]byte      // which keeps nodes on the way from probing the payee
	Description     string        // UTF-8; of one with a DescriptionHash it is empty
	DescriptionHash guild.Hash    // of a description that is found elsewhere; zero if Description is it
	Payee           PubKey        // whose signature it is
	Expiry          time.Duration // in seconds; 0 for DefaultExpiry. See Expired
	MinFinalCLTV    uint64        // blocks; 0 for DefaultMinFinalCLTV
	Metadata        []byte        // which the payer hands back with the payment
	Features        []int         // the bits that are set (BOLT 9), the lowest first; those of Secret among them

	Fallbacks [][]byte // f fields, each in groups of 5 bits, the version first: addresses on the chain
	Routes    [][]byte // r fields, each a list of hops of 51 bytes: ways to a payee that is not known in public
}

// Decode reads an invoice and checks its signature.
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

// digest is what is signed: the prefix as text and then the data as bytes, the last of them filled up with zero bits.
func digest(prefix string, data []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(prefix), regroup(data, 5, 8)...))
}

// checkSignature checks the signature by the payee, or finds the payee by it if the invoice names none. Only in that
// case the greater of the two forms of a signature is good as well.
func (inv *Invoice) checkSignature(digest [sha256.Size]byte, groups []byte) error {
	b := regroup(groups, 5, 8) // 520 bits: nothing is left over
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

// compactCompressed is what the compact form of a signature adds to the recovery id, for a compressed key.
const compactCompressed = 27 + 4

// Expired reports whether nobody should pay the invoice any more at the time now.
func (inv Invoice) Expired(now time.Time) bool {
	lasts := inv.Expiry
	if lasts == 0 {
		lasts = DefaultExpiry
	}
	return now.Sub(inv.Created) > lasts
}

// Sign writes the invoice and signs it as the payee, which Payee need not name.
func (inv Invoice) Sign(key *btcec.PrivateKey) (string, error) {
	s, err := inv.sign(key)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, nil
}

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
