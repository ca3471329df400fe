package mintd

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"go.etcd.io/bbolt"

	"guild/cashu"
)

// Unit is the only unit of the mint's money, which is worthless.
const Unit = "test"

// denominations is the number of a keyset's keys, for the amounts 1, 2, 4 and so on.
const denominations = 40

// maxQuote is the largest amount of a quote: one proof of each denomination.
const maxQuote = 1<<denominations - 1

// Options says how a mint behaves.
type Options struct {
	Now    func() time.Time // for locktimes and quotes
	Faucet uint64           // largest mint quote that counts as paid at once; 0 for none
	Fee    uint64           // for each proof that is spent, in thousandths of the unit (input_fee_ppk)
	Log    *slog.Logger     // slog.Default() if nil
}

// maxFee limits Options.Fee, so that a proof of the lowest amounts is worth something.
const maxFee = 1000

// Mint is a mint with its file open.
type Mint struct {
	options Options
	store   *store
	keysets map[string]*keyset
	active  *keyset // signs
	node    *btcec.PrivateKey
	slots   chan struct{} // one element for each request under way
}

// keyset is a keyset with its private keys.
type keyset struct {
	cashu.Keyset
	number  uint32
	private map[uint64]cashu.Scalar
}

// Open opens the mint in a directory, or makes it. A mint whose fee has changed signs with a new keyset, and takes the ecash of
// its old ones. Only one process can have the mint open.
func Open(dir string, o Options) (*Mint, error) {
	if o.Now == nil {
		return nil, errors.New("mint: Options.Now is not set")
	}
	if o.Fee > maxFee {
		return nil, fmt.Errorf("mint: a fee of %d thousandths for each proof; at most %d", o.Fee, maxFee)
	}
	o.Faucet = min(o.Faucet, maxQuote)
	o.Log = cmp.Or(o.Log, slog.Default())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mint: %w", err)
	}
	store, err := openStore(filepath.Join(dir, "mint.db"))
	if err != nil {
		return nil, err
	}
	m := &Mint{options: o, store: store, keysets: map[string]*keyset{}, slots: make(chan struct{}, maxRequests)}
	if err := store.update(m.loadKeys); err != nil {
		return nil, errors.Join(fmt.Errorf("keys of the mint in %s: %w", dir, err), store.Close())
	}
	return m, nil
}

// Close waits for requests under way to be recorded, and closes the file.
func (m *Mint) Close() error { return m.store.Close() }

// loadKeys derives the keysets, and adds one if there is none with the fee. A keyset that is not the stored one is an error: with
// other keys, all ecash would be worth nothing.
func (m *Mint) loadKeys(tx *bbolt.Tx) error {
	seed := tx.Bucket(bucketMeta).Get(keySeed)
	node := derive(seed, "node", 0)
	m.node, _ = btcec.PrivKeyFromBytes(node[:])
	stored := tx.Bucket(bucketKeysets)
	next := uint32(0)
	err := stored.ForEach(func(number, value []byte) error {
		var known storedKeyset
		if err := decode(value, &known); err != nil || len(number) != 4 {
			return fmt.Errorf("keyset %x does not read back: %w", number, err)
		}
		k, err := newKeyset(seed, binary.BigEndian.Uint32(number), known.Fee)
		if err != nil {
			return err
		}
		if k.ID != known.ID {
			return fmt.Errorf("keyset %d is %.20s, but was %.20s", k.number, k.ID, known.ID)
		}
		m.keysets[k.ID], m.active, next = k, k, k.number+1
		return nil
	})
	if err != nil || m.active != nil && m.active.Fee == m.options.Fee {
		return err
	}
	k, err := newKeyset(seed, next, m.options.Fee)
	if err != nil {
		return err
	}
	m.keysets[k.ID], m.active = k, k
	return stored.Put(binary.BigEndian.AppendUint32(nil, k.number), encode(storedKeyset{ID: k.ID, Fee: k.Fee}))
}

func newKeyset(seed []byte, number uint32, fee uint64) (*keyset, error) {
	k := &keyset{
		Keyset:  cashu.Keyset{ID: "01", Unit: Unit, Keys: cashu.Keys{}, Fee: fee},
		number:  number,
		private: map[uint64]cashu.Scalar{},
	}
	for i := range denominations {
		secret := derive(seed, "keyset", uint64(number)<<32|uint64(i))
		k.private[1<<i] = secret
		k.Keys[1<<i] = secret.PubKey()
	}
	id, err := k.Derive()
	k.ID = id
	return k, err
}

// derive returns a private key of the seed, for a purpose and a number.
func derive(seed []byte, purpose string, number uint64) (key cashu.Scalar) {
	for try := uint64(0); ; try++ { // the first one is good, but for one of 2^127 seeds
		mac := hmac.New(sha256.New, seed)
		mac.Write([]byte("guild mint " + purpose))
		mac.Write(binary.BigEndian.AppendUint64(nil, number))
		mac.Write(binary.BigEndian.AppendUint64(nil, try))
		if key.UnmarshalText(hex.AppendEncode(nil, mac.Sum(nil))) == nil {
			return key
		}
	}
}
