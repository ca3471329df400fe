package bitcoin

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// Inclusion shows that a block has a transaction: the block's header, and the hashes beside the way from the transaction to the root of
// the block's tree. The claimed difficulty is the header's own, so it is worth as much as the network agrees to the header.
type Inclusion struct {
	Header string   `json:"header"` // 80 bytes in hex
	Index  int      `json:"index"`  // of the transaction in the block, from 0
	Branch []string `json:"branch"` // from the leaf up, in display order
}

// maxBranch limits a branch: a block has less than 2^17 transactions.
const maxBranch = 17

// unspendable is the size of a transaction that could also be two hashes of a tree, by which a false leaf can be shown.
const unspendable = 64

// Include returns what shows that the block with a header has a transaction, from the ids of all its transactions in order.
func Include(header string, ids []string, id string) (Inclusion, error) {
	in := Inclusion{Header: header, Index: slices.Index(ids, id), Branch: []string{}}
	if in.Index < 0 || len(ids) > 1<<maxBranch {
		return in, errors.New("the block does not have the transaction")
	}
	level := make([][32]byte, len(ids))
	for i, one := range ids {
		hash, err := parseHash(one)
		if err != nil {
			return in, err
		}
		level[i] = hash
	}
	for at := in.Index; len(level) > 1; at /= 2 {
		if len(level)%2 == 1 {
			level = append(level, level[len(level)-1])
		}
		beside := level[at^1]
		in.Branch = append(in.Branch, display(beside[:]))
		for i := range len(level) / 2 {
			level[i] = pair(level[2*i], level[2*i+1])
		}
		level = level[:len(level)/2]
	}
	return in, nil
}

// Check returns the hash of the block that has a transaction, in display order, or why that is not shown.
func (in Inclusion) Check(t Transaction) (block string, err error) {
	switch {
	case t.Size == unspendable:
		return "", errors.New("a transaction of 64 bytes may be a part of the tree, and proves nothing")
	case len(in.Branch) > maxBranch || in.Index < 0 || in.Index >= 1<<len(in.Branch):
		return "", fmt.Errorf("the place %d does not fit a branch of %d hashes", in.Index, len(in.Branch))
	}
	root, err := in.root(t.ID)
	if err != nil {
		return "", err
	}
	if block, err = in.Block(); err != nil {
		return "", err
	}
	if header, _ := hex.DecodeString(in.Header); [32]byte(header[36:68]) != root {
		return "", errors.New("the branch does not lead to the root in the block's header")
	}
	return block, nil
}

// root returns the root of the tree that the branch leads to.
func (in Inclusion) root(id string) (hash [32]byte, err error) {
	if hash, err = parseHash(id); err != nil {
		return hash, err
	}
	at := in.Index
	for _, text := range in.Branch {
		beside, err := parseHash(text)
		if err != nil {
			return hash, err
		}
		if at%2 == 1 && beside == hash { // only the last hash of a level is doubled, and its place is the left one
			return hash, errors.New("the branch has a hash twice (CVE-2012-2459)")
		}
		if at%2 == 1 {
			hash = pair(beside, hash)
		} else {
			hash = pair(hash, beside)
		}
		at /= 2
	}
	return hash, nil
}

// Block returns the hash of the header, in display order, once that has the work which its bits claim.
func (in Inclusion) Block() (string, error) {
	header, err := hex.DecodeString(in.Header)
	if err != nil || len(header) != 80 {
		return "", errors.New("the header of the block is not 80 bytes in hex")
	}
	hash := twice(header)
	if !worked(hash, binary.LittleEndian.Uint32(header[72:76])) {
		return "", errors.New("the header does not have the work that it claims")
	}
	return display(hash[:]), nil
}

// worked reports whether the hash of a header is at most the target that its bits say.
func worked(hash [32]byte, bits uint32) bool {
	size, mantissa := uint(bits>>24), int64(bits&0x7fffff)
	if bits&0x800000 != 0 || mantissa == 0 || size > 32 || size < 3 {
		return false
	}
	target := new(big.Int).Lsh(big.NewInt(mantissa), 8*(size-3))
	slices.Reverse(hash[:])
	return target.BitLen() <= 256 && new(big.Int).SetBytes(hash[:]).Cmp(target) <= 0
}

func pair(left, right [32]byte) [32]byte { return twice(slices.Concat(left[:], right[:])) }

// parseHash reads a hash in display order.
func parseHash(text string) (hash [32]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(hash) {
		return hash, fmt.Errorf("%.80q is no hash", text)
	}
	slices.Reverse(b)
	return [32]byte(b), nil
}
