package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"guild"
)

// maxTransaction limits the size of a transaction in bytes: no block can hold a larger one.
const maxTransaction = 4_000_000

// onchain checks that the transaction is the one that the receipt names and moves at least its amount. No signature
// says which output is the provider's, so the payment itself is never proven.
func (p payment) onchain() (string, error) {
	if err := p.checkQuote(); err != nil {
		return "", err
	}
	digits := bytes.TrimSpace(p.transaction)
	if len(digits) == 0 {
		return "", absence("the transaction is not in the export")
	}
	if len(digits) > 2*maxTransaction {
		return "", fmt.Errorf("the transaction has more than %d bytes, and no block holds that", maxTransaction)
	}
	raw := make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(raw, digits); err != nil {
		return "", fmt.Errorf("the transaction is not in hex: %w", err)
	}
	tx, err := parseTransaction(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("the transaction cannot be read: %w", err)
	case tx.id != p.receipt.PaymentProof.Value:
		return "", fmt.Errorf("the transaction is %s, and the receipt names another one", tx.id)
	case guild.Msat(tx.satoshis)*1000 < p.receipt.AmountMsats:
		return "", fmt.Errorf("the transaction moves %d sat in all, and the receipt says that %s were paid", tx.satoshis, p.receipt.AmountMsats)
	}
	return "", absence(fmt.Sprintf("the transaction is the one of the receipt and moves enough for its %s; whom it pays, and whether a "+
		"block confirms it, is not known here", p.receipt.AmountMsats))
}

// transaction holds the checked data of a Bitcoin transaction.
type transaction struct {
	id       string // in the usual display order: the bytes of the hash reversed
	satoshis int64  // sum of all outputs
}

// maxSatoshis is the maximal supply of bitcoin, in satoshis.
const maxSatoshis = 21_000_000 * 100_000_000

// parseTransaction parses a transaction in its network format, with witnesses (BIP 144) or without.
func parseTransaction(raw []byte) (transaction, error) {
	r := txReader{rest: raw}
	r.take(4) // version
	witnessed := bytes.HasPrefix(r.rest, []byte{0, 1})
	if witnessed {
		r.take(2)
	}
	body := r.rest
	inputs := r.count()
	for range inputs {
		r.take(36) // spent output
		r.take(r.count())
		r.take(4) // sequence
		if r.failed {
			break
		}
	}
	satoshis := int64(0)
	outputs := r.count()
	for range outputs {
		value := r.take(8)
		r.take(r.count())
		if r.failed {
			break
		}
		n := binary.LittleEndian.Uint64(value)
		if n > maxSatoshis || satoshis+int64(n) > maxSatoshis {
			return transaction{}, errors.New("its outputs are worth more than there is")
		}
		satoshis += int64(n)
	}
	body = body[:len(body)-len(r.rest)]
	if witnessed {
		r.witnesses(inputs)
	}
	locktime := r.take(4)
	switch {
	case r.failed || len(r.rest) > 0:
		return transaction{}, errors.New("it does not end where its parts do")
	case inputs == 0 || outputs == 0:
		return transaction{}, errors.New("it has no inputs or no outputs")
	}
	once := sha256.Sum256(slices.Concat(raw[:4], body, locktime))
	hash := sha256.Sum256(once[:])
	slices.Reverse(hash[:])
	return transaction{id: hex.EncodeToString(hash[:]), satoshis: satoshis}, nil
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
