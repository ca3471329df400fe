package bitcoin

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// The header of the chain's first block, which has one transaction.
const (
	firstHeader = "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c"
	firstBlock  = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
)

func read(t *testing.T, text string) Transaction {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := ParseTransaction(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestFirstBlock(t *testing.T) {
	tx := read(t, genesis)
	in, err := Include(firstHeader, []string{tx.ID}, tx.ID)
	if err != nil {
		t.Fatal(err)
	}
	if block, err := in.Check(tx); err != nil || block != firstBlock {
		t.Errorf("it is in %s: %v", block, err)
	}
	lazy := in
	lazy.Header = strings.Replace(firstHeader, "1dac2b7c", "1dac2b7d", 1)
	if _, err := lazy.Check(tx); err == nil || !strings.Contains(err.Error(), "the work") {
		t.Error("a header without work:", err)
	}
	if _, err := in.Check(read(t, witnessed)); err == nil {
		t.Error("the block has another transaction")
	}
}

// easy returns a header with a root, and bits that nearly every hash meets.
func easy(t *testing.T, root [32]byte) string {
	t.Helper()
	header := make([]byte, 80)
	copy(header[36:], root[:])
	copy(header[72:], []byte{0xff, 0xff, 0x7f, 0x20})
	for n := range 256 {
		header[76] = byte(n)
		if worked(twice(header), 0x207fffff) {
			return hex.EncodeToString(header)
		}
	}
	t.Fatal("no work")
	return ""
}

func TestBranches(t *testing.T) {
	tx := read(t, genesis)
	for size := 1; size <= 9; size++ {
		for at := range size {
			ids := make([]string, size)
			level := make([][32]byte, size)
			for i := range ids {
				ids[i] = fmt.Sprintf("%064x", i+1)
				if i == at {
					ids[i] = tx.ID
				}
				level[i], _ = parseHash(ids[i])
			}
			for len(level) > 1 {
				var above [][32]byte
				for i := 0; i < len(level); i += 2 {
					above = append(above, pair(level[i], level[min(i+1, len(level)-1)]))
				}
				level = above
			}
			in, err := Include(easy(t, level[0]), ids, tx.ID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := in.Check(tx); err != nil {
				t.Errorf("%d of %d: %v", at, size, err)
			}
			moved := in
			moved.Index ^= 1
			if _, err := moved.Check(tx); err == nil {
				t.Errorf("%d of %d: it is also at %d", at, size, moved.Index)
			}
		}
	}
}

func TestFalseBranches(t *testing.T) {
	tx := read(t, genesis)
	hash, _ := parseHash(tx.ID)
	twins := Inclusion{Header: easy(t, pair(hash, hash)), Index: 1, Branch: []string{tx.ID}}
	if _, err := twins.Check(tx); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error("a leaf twice:", err)
	}
	short := tx
	short.Size = 64
	alone := Inclusion{Header: easy(t, hash)}
	if _, err := alone.Check(short); err == nil || !strings.Contains(err.Error(), "64 bytes") {
		t.Error("a transaction of 64 bytes:", err)
	}
	deep := Inclusion{Header: easy(t, hash), Branch: make([]string, maxBranch+1)}
	if _, err := deep.Check(tx); err == nil {
		t.Error("a branch deeper than any block")
	}
	for _, bits := range []uint32{0, 0x1d800001, 0x1d000000, 0xff7fffff, 0x02ffff00, 0x227fffff} {
		if worked([32]byte{}, bits) {
			t.Errorf("the bits %08x are a target", bits)
		}
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{ // of BIP 173 and 350
		"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4":                     "main 0014751e76e8199196d454941c45d1b3a323f1433bd6",
		"tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7": "test 00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
		"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0": "main 512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
		"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080":                   "regtest 0014751e76e8199196d454941c45d1b3a323f1433bd6",
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5":                     "", // a false checksum
		"tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf": "", // that of version 0
		"bc1rw5uspcuh":                       "", // a program of 1 byte
		"1BoatSLRHtKNngkdXEeobR76b53LETtpyT": "",
		"lnbc1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxx": "",
		"": "",
	} {
		script, network, err := Script(address)
		if got := fmt.Sprintf("%s %x", network, script); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%s: %s %v, want %s", address, got, err, want)
		}
	}
}
