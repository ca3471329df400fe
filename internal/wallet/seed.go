package wallet

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/tyler-smith/go-bip39"
	"golang.org/x/crypto/chacha20poly1305"

	"guild"
	"guild/cashu"
	"guild/internal/journal/fact"
)

// entropy of a mnemonic, in bits: 12 words.
const entropy = 128

// NewMnemonic returns a new phrase of 12 words (BIP-39).
func NewMnemonic() (string, error) {
	random, err := bip39.NewEntropy(entropy)
	if err != nil {
		return "", err
	}
	return bip39.NewMnemonic(random)
}

// ParseMnemonic returns the seed of a phrase, whose words and checksum must be right.
func ParseMnemonic(phrase string) (Seed, error) {
	phrase = strings.Join(strings.Fields(phrase), " ")
	if !bip39.IsMnemonicValid(phrase) {
		return nil, errors.New("this is no mnemonic phrase (BIP-39)")
	}
	seed, err := cashu.Seed(phrase)
	return seed, err
}

// Seed is the source of all secrets of the wallet (BIP-39).
type Seed []byte

// derive returns 32 bytes for a purpose.
func (s Seed) derive(purpose string, about ...string) []byte {
	mac := hmac.New(sha256.New, s)
	fmt.Fprintf(mac, "guild/%s", purpose)
	for _, a := range about {
		fmt.Fprintf(mac, "/%s", a)
	}
	return mac.Sum(nil)
}

// Key returns the private key of a lock, by what the lock is for.
func (s Seed) Key(purpose, about string) (key cashu.Scalar, err error) {
	err = key.UnmarshalText([]byte(hex.EncodeToString(s.derive(purpose, about))))
	return key, err
}

// Preimage returns the preimage of a payment hash that we choose, by a nonce.
func (s Seed) Preimage(nonce string) [32]byte { return [32]byte(s.derive("preimage", nonce)) }

// condition returns the lock on the n-th output of an operation.
func (s Seed) condition(op string, n int, lock fact.EcashLock) cashu.Condition {
	c := cashu.Condition{Kind: cashu.P2PK, Nonce: hex.EncodeToString(s.derive("nonce", op, fmt.Sprint(n))), Keys: []cashu.Point{lock.Provider}, Sigs: 1}
	if lock.Customer != (cashu.Point{}) {
		c.Keys, c.Sigs, c.Locktime = append(c.Keys, lock.Customer), 2, lock.Locktime
		c.Refund, c.RefundSigs = []cashu.Point{lock.Customer}, 1
	}
	if lock.Arbiter != (cashu.Point{}) {
		c.Nonce, c.Keys = Nonce(lock.Parties, n), append(c.Keys, lock.Arbiter)
	}
	return c
}

// Salt returns what is hashed with the parties of a lock, so that nobody else can find them in its nonces.
func (s Seed) Salt(op string) [32]byte { return [32]byte(s.derive("salt", op)) }

// Nonce returns the nonce of the n-th coin of a lock with an arbiter. It commits to the parties, whom the arbiter learns from one of
// them.
func Nonce(parties guild.Hash, n int) string { return guild.Sum(append(parties[:], byte(n))).Hex() }

// secret returns the secret and the blinding factor of an output of an operation.
func (s Seed) secret(keyset, op string, n int, counter uint32, lock *fact.EcashLock) (secret string, r cashu.Scalar, err error) {
	if lock == nil {
		return cashu.Derive(s, keyset, counter)
	}
	if secret, err = s.condition(op, n, *lock).Secret(); err != nil {
		return "", cashu.Scalar{}, err
	}
	r, err = s.Key("blinding", fmt.Sprintf("%s/%d", op, n))
	return secret, r, err
}

// cipher encrypts ecash of others, which whoever reads it could spend.
func (s Seed) cipher() (cipher.AEAD, error) { return chacha20poly1305.NewX(s.derive("seal")) }

// seal encrypts the inputs of an operation. The nonce, which is before the text, is random: a decision may be taken again with
// other inputs.
func (s Seed) seal(op string, inputs []cashu.Proof) ([]byte, error) {
	aead, err := s.cipher()
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(inputs)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, plain, []byte(op)), nil
}

// open decrypts what seal encrypted.
func (s Seed) open(op string, sealed []byte) (inputs []cashu.Proof, err error) {
	aead, err := s.cipher()
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, fmt.Errorf("the inputs of operation %s have %d bytes", op, len(sealed))
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(op))
	if err != nil {
		return nil, fmt.Errorf("the inputs of operation %s were sealed by another wallet: %w", op, err)
	}
	return inputs, json.Unmarshal(plain, &inputs)
}
