package mintd

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"

	"guild/cashu"
	"guild/internal/durable"
)

var (
	bucketMeta       = []byte("meta")
	bucketKeysets    = []byte("keysets")     // number → storedKeyset
	bucketSpent      = []byte("spent")       // Y → a zero byte and the witness
	bucketSignatures = []byte("signatures")  // B_ → signature
	bucketMintQuotes = []byte("mint quotes") // id → mintQuote
	bucketMeltQuotes = []byte("melt quotes") // id → meltQuote
	bucketInvoices   = []byte("invoices")    // payment hash → id of the mint quote

	keySeed = []byte("seed")
)

// storedKeyset is a keyset without what the seed gives.
type storedKeyset struct {
	ID  string `json:"id"`
	Fee uint64 `json:"fee"`
}

// store is the mint's file. Writers that come at the same time share one transaction, since its two flushes of the disk take
// longer than all else.
type store struct {
	db *bbolt.DB

	queue  sync.Mutex // guards queued
	queued []*write
	commit sync.Mutex // held by the writer that commits all queued ones
}

// write is a change that waits for its transaction.
type write struct {
	do  func(*bbolt.Tx) error
	err error
}

var (
	errUnwritten = errors.New("not written")      // until the transaction says otherwise
	errUnchanged = errors.New("nothing to write") // as all writes of a transaction were refused
)

// openStore opens the file, or makes it with a new seed.
func openStore(path string) (*store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:        time.Second, // another process holds it
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open the mint's file %s: %w", path, err)
	}
	s := &store{db: db}
	err = s.update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{
			bucketMeta, bucketKeysets, bucketSpent, bucketSignatures, bucketMintQuotes, bucketMeltQuotes, bucketInvoices,
		} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		if tx.Bucket(bucketMeta).Get(keySeed) != nil {
			return nil
		}
		seed := make([]byte, 32)
		rand.Read(seed) // never fails
		return tx.Bucket(bucketMeta).Put(keySeed, seed)
	})
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the mint's file %s: %w", path, err), db.Close())
	}
	return s, nil
}

// Close closes the file after the transaction under way.
func (s *store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the mint's file: %w", err)
	}
	return nil
}

// view reads.
func (s *store) view(do func(*bbolt.Tx) error) error { return s.db.View(do) }

// update makes a change, and returns when it is on the disk. do must return a refusal before its first write, as others share its
// transaction. Every other error undoes the transaction, for all of them.
func (s *store) update(do func(*bbolt.Tx) error) error {
	w := &write{do: do, err: errUnwritten}
	s.queue.Lock()
	s.queued = append(s.queued, w)
	s.queue.Unlock()

	s.commit.Lock()
	defer s.commit.Unlock()
	s.queue.Lock()
	batch := s.queued // without w if another writer has committed it meanwhile
	s.queued = nil
	s.queue.Unlock()
	s.write(batch)
	return w.err
}

func (s *store) write(batch []*write) {
	if len(batch) == 0 {
		return
	}
	results := make([]error, len(batch))
	err := s.db.Update(func(tx *bbolt.Tx) error {
		changed := false
		for i, w := range batch {
			results[i] = w.do(tx)
			_, refused := errors.AsType[refusal](results[i])
			if results[i] != nil && !refused {
				return results[i]
			}
			changed = changed || !refused
		}
		if !changed {
			return errUnchanged
		}
		return nil
	})
	for i, w := range batch {
		w.err = results[i]
		if err != nil && !errors.Is(err, errUnchanged) {
			w.err = fmt.Errorf("the mint's file: %w", err)
		}
	}
}

// move marks inputs as spent and keeps the signatures on outputs. It refuses both if an input is spent or an output was signed.
func move(tx *bbolt.Tx, inputs []spend, outputs []signed) error {
	spent, signatures := tx.Bucket(bucketSpent), tx.Bucket(bucketSignatures)
	for i, in := range inputs {
		if spent.Get(in.y[:]) != nil {
			return refuse(codeSpent, "input %d is spent already", i+1)
		}
	}
	for i, out := range outputs {
		if signatures.Get(out.b[:]) != nil {
			return refuse(codeSigned, "output %d was signed already", i+1)
		}
	}
	for _, in := range inputs {
		if err := spent.Put(in.y[:], append([]byte{0}, in.witness...)); err != nil {
			return err
		}
	}
	for _, out := range outputs {
		if err := signatures.Put(out.b[:], out.pack()); err != nil {
			return err
		}
	}
	return nil
}

// spend is an input as it is stored.
type spend struct {
	y       cashu.Point
	witness cashu.WitnessText
}

// signed is a signature as it is stored.
type signed struct {
	b      cashu.Point // the blinded message
	keyset uint32      // number
	amount uint64
	c      cashu.Point
	proof  cashu.DLEQ
}

const packedSize = 4 + 8 + 33 + 32 + 32

func (s signed) pack() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, packedSize), s.keyset)
	b = binary.BigEndian.AppendUint64(b, s.amount)
	b = append(b, s.c[:]...)
	b = append(b, s.proof.E[:]...)
	return append(b, s.proof.S[:]...)
}

// signatureOn returns the signature on a blinded message, if there is one.
func signatureOn(tx *bbolt.Tx, message cashu.Point) (s signed, found bool, err error) {
	b := tx.Bucket(bucketSignatures).Get(message[:])
	if b == nil {
		return signed{}, false, nil
	}
	if len(b) != packedSize {
		return signed{}, false, fmt.Errorf("the signature on %s has %d bytes", message, len(b))
	}
	s = signed{b: message, keyset: binary.BigEndian.Uint32(b), amount: binary.BigEndian.Uint64(b[4:])}
	copy(s.c[:], b[12:45])
	copy(s.proof.E[:], b[45:77])
	copy(s.proof.S[:], b[77:])
	return s, true, nil
}

// load reads a quote. A quote that is not there is refused.
func load(tx *bbolt.Tx, bucket []byte, id string, quote any) error {
	b := tx.Bucket(bucket).Get([]byte(id))
	if b == nil {
		return refuse(codeRequest, "quote %.40q is unknown", id)
	}
	return decode(b, quote)
}

func save(tx *bbolt.Tx, bucket []byte, id string, quote any) error {
	return tx.Bucket(bucket).Put([]byte(id), encode(quote))
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types of numbers and hex
	}
	return b
}

func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("the mint's file: %w", err)
	}
	return nil
}
