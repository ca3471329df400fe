package cashu

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
)

// Seed returns the seed of a mnemonic phrase without a passphrase (BIP-39). It does not check the words.
func Seed(mnemonic string) ([]byte, error) {
	return pbkdf2.Key(sha512.New, strings.Join(strings.Fields(mnemonic), " "), []byte("mnemonic"), 2048, 64)
}

// Derive returns the secret and the blinding factor with a number, for a keyset (NUT-13). A wallet that lost everything but its
// seed makes them again.
func Derive(seed []byte, keyset string, counter uint32) (secret string, r Scalar, err error) {
	id, err := hex.DecodeString(keyset)
	switch {
	case err == nil && len(id) == 33 && id[0] == 1:
		return derive(seed, id, counter)
	case err == nil && len(id) == 8 && id[0] == 0:
		return deriveLegacy(seed, id, counter)
	}
	return "", Scalar{}, fmt.Errorf("keyset %.70q is of a version that this program does not know", keyset)
}

// derive is the derivation for keysets of version 01.
func derive(seed, keyset []byte, counter uint32) (string, Scalar, error) {
	digest := func(purpose byte) []byte {
		mac := hmac.New(sha256.New, seed)
		mac.Write([]byte("Cashu_KDF_HMAC_SHA256"))
		mac.Write(keyset)
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(counter)))
		mac.Write([]byte{purpose})
		return mac.Sum(nil)
	}
	var n btcec.ModNScalar
	n.SetByteSlice(digest(1)) // modulo the order
	var r Scalar
	err := r.set(bytesOf(&n))
	return hex.EncodeToString(digest(0)), r, err
}

// deriveLegacy is the derivation for keysets of version 00, by m/129372'/0'/keyset'/counter'/0 and 1 (BIP-32).
func deriveLegacy(seed, keyset []byte, counter uint32) (string, Scalar, error) {
	const hardened = 1 << 31
	number := uint32(binary.BigEndian.Uint64(keyset) % (hardened - 1))
	key, err := masterKey(seed)
	if err != nil {
		return "", Scalar{}, err
	}
	if counter >= hardened {
		return "", Scalar{}, fmt.Errorf("secret %d of a keyset of version 00", counter)
	}
	for _, index := range []uint32{129372 + hardened, hardened, number + hardened, counter + hardened} {
		if key, err = key.child(index); err != nil {
			return "", Scalar{}, err
		}
	}
	secret, err := key.child(0)
	if err != nil {
		return "", Scalar{}, err
	}
	blinding, err := key.child(1)
	return hex.EncodeToString(secret.key[:]), blinding.key, err
}

// extended is an extended private key (BIP-32).
type extended struct {
	key  Scalar
	code [32]byte // chain code
}

func masterKey(seed []byte) (extended, error) { return extend([]byte("Bitcoin seed"), seed, nil) }

// child returns the child with an index, which is hardened from 2^31 on.
func (x extended) child(index uint32) (extended, error) {
	var data []byte
	if index >= 1<<31 {
		data = append([]byte{0}, x.key[:]...)
	} else {
		parent := x.key.PubKey()
		data = parent[:]
	}
	return extend(x.code[:], binary.BigEndian.AppendUint32(data, index), x.key.mod())
}

// extend returns the key that BIP-32 makes of an HMAC, with the parent added if there is one.
func extend(code, data []byte, parent *btcec.ModNScalar) (x extended, err error) {
	mac := hmac.New(sha512.New, code)
	mac.Write(data)
	sum := mac.Sum(nil)
	copy(x.code[:], sum[32:])
	if err := x.key.set(sum[:32]); err != nil || parent == nil {
		return x, err
	}
	return x, x.key.set(bytesOf(x.key.mod().Add(parent)))
}
