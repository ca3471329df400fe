package verify_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/bitcoin"
	"guild/nip90"
	"guild/receipt"
	"guild/verify"
)

// The addresses of the exports: of the provider, of nobody in particular, and one whose script is so short that a transaction can have
// 64 bytes.
const (
	payeeAddress = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	otherAddress = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"
	shortAddress = "bc1pfeessrawgf"
)

// chained is a payment on the chain: what the quote asks for, what was paid, and the block.
type chained struct {
	uri     string
	outputs []bitcoin.Output
	block   func(bitcoin.Transaction) bitcoin.Inclusion // nil for no block
}

// pays returns an output to an address.
func pays(t testing.TB, address string, satoshis int64) bitcoin.Output {
	t.Helper()
	script, _, err := bitcoin.Script(address)
	ok(t, err)
	return bitcoin.Output{Satoshis: satoshis, Script: script}
}

// newChained returns a payment of 2 sat, the third of a block of five transactions.
func newChained(t testing.TB) chained {
	return chained{
		uri: "bitcoin:" + payeeAddress + "?amount=0.00000002&confirmations=3", outputs: []bitcoin.Output{pays(t, otherAddress, 7), pays(t, payeeAddress, 2)},
		block: func(tx bitcoin.Transaction) bitcoin.Inclusion {
			ids := []string{fmt.Sprintf("%064x", 1), fmt.Sprintf("%064x", 2), tx.ID, fmt.Sprintf("%064x", 4), fmt.Sprintf("%064x", 5)}
			return mined(must[bitcoin.Inclusion](t)(bitcoin.Include("", ids, tx.ID)), tx)
		},
	}
}

// twice is the hash of Bitcoin.
func twice(b []byte) []byte {
	once := sha256.Sum256(b)
	hash := sha256.Sum256(once[:])
	return hash[:]
}

// mined gives an inclusion a header whose root its branch leads to, with work of a few thousand hashes.
func mined(in bitcoin.Inclusion, tx bitcoin.Transaction) bitcoin.Inclusion {
	bytesOf := func(id string) []byte {
		b, _ := hex.DecodeString(id)
		slices.Reverse(b)
		return b
	}
	root := bytesOf(tx.ID)
	for i, beside := range in.Branch {
		if in.Index>>i&1 == 1 {
			root = twice(append(bytesOf(beside), root...))
		} else {
			root = twice(append(root, bytesOf(beside)...))
		}
	}
	header := make([]byte, 80)
	header[0] = 2
	copy(header[36:], root)
	binary.LittleEndian.PutUint32(header[68:], at)
	binary.LittleEndian.PutUint32(header[72:], 0x1f0fffff)
	target := new(big.Int).Lsh(big.NewInt(0x0fffff), 8*(0x1f-3))
	for nonce := uint32(0); ; nonce++ {
		binary.LittleEndian.PutUint32(header[76:], nonce)
		hash := twice(header)
		slices.Reverse(hash)
		if new(big.Int).SetBytes(hash).Cmp(target) <= 0 {
			in.Header = hex.EncodeToString(header)
			return in
		}
	}
}

// onChain adds a payment on the chain to the receipt and its quote, and returns the id of the transaction.
func (s story) onChain(t testing.TB, out files, q *nip90.Feedback) string {
	t.Helper()
	c := newChained(t)
	if s.chain != nil {
		s.chain(&c)
	}
	raw := must[[]byte](t)(bitcoin.Unsigned([]bitcoin.Outpoint{{ID: fmt.Sprintf("%064x", 1)}}, c.outputs))
	tx := must[bitcoin.Transaction](t)(bitcoin.ParseTransaction(raw))
	out[verify.FileTransaction], q.Extra = []byte(hex.EncodeToString(raw)), nostr.Tags{nip90.Bitcoin(c.uri)}
	if c.block != nil {
		out[verify.FileInclusion] = must[[]byte](t)(json.Marshal(c.block(tx)))
	}
	return tx.ID
}

// unconfirmed takes the block from a payment.
func unconfirmed(c *chained) { c.block = nil }

// inBlock changes what shows the block of a payment.
func inBlock(change func(*bitcoin.Inclusion)) func(*chained) {
	return func(c *chained) {
		honest := c.block
		c.block = func(tx bitcoin.Transaction) bitcoin.Inclusion {
			in := honest(tx)
			change(&in)
			return in
		}
	}
}

// chainLies returns false payments on the chain.
func chainLies(t testing.TB) map[string]func(*chained) {
	return map[string]func(*chained){
		"a payment to another output": func(c *chained) { c.outputs[1] = pays(t, otherAddress, 2) },
		"a payment of a satoshi less": func(c *chained) { c.outputs[1].Satoshis = 1 },
		"a payment of a satoshi more": func(c *chained) { c.outputs[1].Satoshis = 3 },
		"a payment in two outputs":    func(c *chained) { c.outputs[0] = c.outputs[1] },
		"a payment to another address": func(c *chained) {
			c.uri = "bitcoin:bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry?amount=0.00000002"
		},
		"a payment where more was asked":   func(c *chained) { c.uri = "bitcoin:" + payeeAddress + "?amount=0.00000003" },
		"a payment to a misspelt address":  func(c *chained) { c.uri = "bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5?amount=0.00000002" },
		"a payment with another parameter": func(c *chained) { c.uri += "&amount=0.00000001" },
		"a block without work":             inBlock(func(in *bitcoin.Inclusion) { in.Header = in.Header[:152] + "ffffffff" }),
		"a block with a header too long":   inBlock(func(in *bitcoin.Inclusion) { in.Header += "00" }),
		"a block with another branch":      inBlock(func(in *bitcoin.Inclusion) { in.Branch[1] = fmt.Sprintf("%064x", 9) }),
		"a block with a shorter branch":    inBlock(func(in *bitcoin.Inclusion) { in.Branch = in.Branch[:1] }),
		"a block with another place":       inBlock(func(in *bitcoin.Inclusion) { in.Index++ }),
		"a block with a place out of it":   inBlock(func(in *bitcoin.Inclusion) { in.Index += 1 << len(in.Branch) }),
		"a block with a hash twice": func(c *chained) {
			c.block = func(tx bitcoin.Transaction) bitcoin.Inclusion {
				return mined(bitcoin.Inclusion{Index: 1, Branch: []string{tx.ID}}, tx)
			}
		},
		"a payment of 64 bytes": func(c *chained) {
			c.uri, c.outputs = "bitcoin:"+shortAddress+"?amount=0.00000002", []bitcoin.Output{pays(t, shortAddress, 2)}
		},
	}
}

func TestChainLies(t *testing.T) {
	for name, lie := range chainLies(t) {
		f := story{rail: "address", chain: lie}.export(t)
		if got := failures(verify.Export(dir(f))); !slices.Equal(got, []string{"payment"}) {
			t.Errorf("%s: failed %q", name, got)
		}
	}
}

// paymentLine returns the line about the payment of an export.
func paymentLine(t testing.TB, f files) verify.Check {
	t.Helper()
	checks := verify.Export(dir(f)).Checks
	return checks[slices.IndexFunc(checks, func(c verify.Check) bool { return c.Name == "payment" })]
}

// An address is paid, and a block shown, as far as that can be said without the network.
func TestChainPayments(t *testing.T) {
	for name, c := range map[string]struct {
		story
		want string
	}{
		"in a block": {story{rail: "address"}, ":1 pays the address in the provider's quote; confirmed by block 00"},
		"in none":    {story{rail: "address", chain: unconfirmed}, ":1 pays the address in the provider's quote; no block shown"},
		"first of its block": {story{rail: "address", chain: func(c *chained) {
			c.block = func(tx bitcoin.Transaction) bitcoin.Inclusion {
				return mined(bitcoin.Inclusion{Branch: []string{}}, tx)
			}
		}}, "confirmed by block 00"},
		"short, in none": {story{rail: "address", chain: func(c *chained) {
			c.uri, c.block = "bitcoin:"+shortAddress+"?amount=0.00000002", nil
			c.outputs = []bitcoin.Output{pays(t, shortAddress, 2)}
		}}, ":0 pays the address"},
		"in test coins": {story{rail: "address", chain: func(c *chained) {
			const address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"
			c.uri, c.outputs[1] = "bitcoin:"+address+"?amount=0.00000002", pays(t, address, 2)
		}}, "needs the network (in the test coins of the network regtest)"},
		"to nobody known": {story{rail: "address", chain: func(c *chained) { c.uri = "" }}, "whom it pays is not known here; confirmed by block 00"},
	} {
		got := paymentLine(t, c.export(t))
		if got.State != verify.Absent || !strings.Contains(got.Detail, c.want) {
			t.Errorf("%s: %+v, want …%s…", name, got, c.want)
		}
	}
}

// A file that shows a block is strict, and needs its transaction.
func TestInclusionFiles(t *testing.T) {
	good := story{rail: "address"}.export(t)
	var in bitcoin.Inclusion
	ok(t, json.Unmarshal(good[verify.FileInclusion], &in))
	for name, file := range map[string]string{
		"empty": "", "a list": "[]", "null": "null", "no branch": fmt.Sprintf(`{"header":%q,"index":0,"branch":null}`, in.Header),
		"a field more":  string(good[verify.FileInclusion][:1]) + `"x":1,` + string(good[verify.FileInclusion][1:]),
		"a field twice": string(good[verify.FileInclusion][:1]) + `"index":2,` + string(good[verify.FileInclusion][1:]),
		"in capitals":   string(bytes.ToUpper(good[verify.FileInclusion])),
	} {
		f := story{rail: "address"}.export(t)
		f[verify.FileInclusion] = []byte(file)
		if got := paymentLine(t, f); got.State != verify.Failed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	lightning := story{rail: "lightning"}.export(t)
	lightning[verify.FileInclusion] = good[verify.FileInclusion]
	unpaid := story{}.export(t)
	unpaid[verify.FileInclusion] = good[verify.FileInclusion]
	alone := story{rail: "address"}.export(t)
	delete(alone, verify.FileTransaction)
	for name, f := range map[string]files{"of a Lightning payment": lightning, "of no payment": unpaid, "of no transaction": alone} {
		if got := failures(verify.Export(dir(f))); !slices.Equal(got, []string{"payment"}) {
			t.Errorf("%s: failed %q", name, got)
		}
	}
	sat := story{rail: "address", receipt: func(r *receipt.Receipt) { r.AmountMsats++ }}.export(t)
	if got := failures(verify.Export(dir(sat))); !slices.Equal(got, []string{"payment"}) {
		t.Errorf("a part of a satoshi more: failed %q", got)
	}
}
