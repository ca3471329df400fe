// Package bitcoin reads Bitcoin transactions, addresses and block headers as far as a payment is proved by them offline: that a
// transaction pays an amount to an address, and that a block has it. Whether the block is in the best chain only the network knows.
package bitcoin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Transaction is the checked data of a transaction.
type Transaction struct {
	ID      string // in hex, in the usual display order: the bytes of the hash reversed
	Size    int    // in bytes, without witnesses
	Inputs  []Outpoint
	Outputs []Output
}

// Outpoint names an output of an earlier transaction, which an input spends.
type Outpoint struct {
	ID string // in display order
	N  uint32
}

// Output is an amount and who can spend it.
type Output struct {
	Satoshis int64
	Script   []byte
}

// Satoshis returns the sum of all outputs.
func (t Transaction) Satoshis() (sum int64) {
	for _, o := range t.Outputs {
		sum += o.Satoshis
	}
	return sum
}

// Pays returns the number of the output that pays an amount to a script, and reports whether there is exactly one to that script, and
// it pays exactly that.
func (t Transaction) Pays(script []byte, satoshis int64) (n int, ok bool) {
	n = -1
	for i, o := range t.Outputs {
		if !bytes.Equal(o.Script, script) {
			continue
		}
		if n >= 0 || o.Satoshis != satoshis {
			return -1, false
		}
		n = i
	}
	return n, n >= 0
}

// Unsigned returns a transaction in its network format that nobody has signed yet. Inputs and outputs are less than 253 each.
func Unsigned(inputs []Outpoint, outputs []Output) ([]byte, error) {
	const most = 252
	if len(inputs) > most || len(outputs) > most {
		return nil, fmt.Errorf("%d inputs and %d outputs, and at most %d of each are written", len(inputs), len(outputs), most)
	}
	raw := []byte{2, 0, 0, 0, byte(len(inputs))}
	for _, in := range inputs {
		id, err := parseHash(in.ID)
		if err != nil {
			return nil, err
		}
		raw = binary.LittleEndian.AppendUint32(append(raw, id[:]...), in.N)
		raw = append(raw, 0, 0xff, 0xff, 0xff, 0xff) // no script yet, and no sign that another one may replace it
	}
	raw = append(raw, byte(len(outputs)))
	for _, o := range outputs {
		if len(o.Script) > most {
			return nil, fmt.Errorf("a script of %d bytes", len(o.Script))
		}
		raw = binary.LittleEndian.AppendUint64(raw, uint64(o.Satoshis))
		raw = append(append(raw, byte(len(o.Script))), o.Script...)
	}
	return append(raw, 0, 0, 0, 0), nil
}

// MaxTransaction limits the size of a transaction in bytes: no block can hold a larger one.
const MaxTransaction = 4_000_000

// MaxSatoshis is the maximal supply of bitcoin, in satoshis.
const MaxSatoshis = 21_000_000 * 100_000_000

// ParseTransaction parses a transaction in its network format, with witnesses (BIP 144) or without.
func ParseTransaction(raw []byte) (Transaction, error) {
	r := txReader{rest: raw}
	r.take(4) // version
	witnessed := bytes.HasPrefix(r.rest, []byte{0, 1})
	if witnessed {
		r.take(2)
	}
	body := r.rest
	inputs := r.count()
	t := Transaction{Inputs: make([]Outpoint, 0, min(inputs, 1000))}
	for range inputs {
		spent := r.take(36)
		r.take(r.count())
		r.take(4) // sequence
		if r.failed {
			break
		}
		t.Inputs = append(t.Inputs, Outpoint{display(spent[:32]), binary.LittleEndian.Uint32(spent[32:])})
	}
	satoshis := int64(0)
	outputs := r.count()
	for range outputs {
		value := r.take(8)
		script := r.take(r.count())
		if r.failed {
			break
		}
		n := binary.LittleEndian.Uint64(value)
		if n > MaxSatoshis || satoshis+int64(n) > MaxSatoshis {
			return Transaction{}, errors.New("its outputs are worth more than there is")
		}
		satoshis += int64(n)
		t.Outputs = append(t.Outputs, Output{int64(n), slices.Clone(script)})
	}
	body = body[:len(body)-len(r.rest)]
	if witnessed {
		r.witnesses(inputs)
	}
	locktime := r.take(4)
	switch {
	case r.failed || len(r.rest) > 0:
		return Transaction{}, errors.New("it does not end where its parts do")
	case inputs == 0 || outputs == 0:
		return Transaction{}, errors.New("it has no inputs or no outputs")
	}
	plain := slices.Concat(raw[:4], body, locktime)
	hash := twice(plain)
	t.ID, t.Size = display(hash[:]), len(plain)
	return t, nil
}

// twice is the hash of Bitcoin's transactions, blocks and trees.
func twice(b []byte) [32]byte {
	once := sha256.Sum256(b)
	return sha256.Sum256(once[:])
}

// display returns a hash in hex as it is shown.
func display(hash []byte) string {
	hash = slices.Clone(hash)
	slices.Reverse(hash)
	return hex.EncodeToString(hash)
}

// txReader reads a transaction. After a read beyond the end it has failed, and every further read returns nothing.
type txReader struct {
	rest   []byte
	failed bool
}

// take returns the next n bytes.
func (r *txReader) take(n int) []byte {
	if r.failed = r.failed || n > len(r.rest); r.failed {
		return nil
	}
	var b []byte
	b, r.rest = r.rest[:n], r.rest[n:]
	return b
}

// count reads a number of elements in the shortest form: one byte, or a byte that announces a longer number. The
// number may not exceed the remaining bytes, so that loops over it are short.
func (r *txReader) count() int {
	first := r.take(1)
	if r.failed {
		return 0
	}
	n := uint64(first[0])
	if n >= 253 {
		b := r.take(2 << (n - 253))
		least := [...]uint64{253, 1 << 16, 1 << 32}[n-253]
		n = 0
		for _, c := range slices.Backward(b) {
			n = n<<8 | uint64(c)
		}
		r.failed = r.failed || n < least
	}
	if r.failed = r.failed || n > uint64(len(r.rest)); r.failed {
		return 0
	}
	return int(n)
}

// witnesses skips the witnesses of all inputs. At least one input must have one.
func (r *txReader) witnesses(inputs int) {
	found := false
	for range inputs {
		items := r.count()
		found = found || items > 0
		for range items {
			r.take(r.count())
			if r.failed {
				return
			}
		}
	}
	r.failed = r.failed || !found
}
