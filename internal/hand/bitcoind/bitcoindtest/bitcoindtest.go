// Package bitcoindtest has a chain in memory and wallets on it which answer like a bitcoind's or a btcwallet, for tests.
package bitcoindtest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/btcsuite/btcd/btcutil/base58"
	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/bitcoin"
)

// Chain is a chain, and the wallets of bitcoind's on it. Nothing is signed: whose an output is, its script says.
type Chain struct {
	mu      sync.Mutex
	blocks  [][]string                     // ids of transactions
	headers []string                       // in hex
	raw     map[string]string              // all transactions by id, in hex
	txs     map[string]bitcoin.Transaction // by id
	pool    []string                       // ids
	made    int                            // addresses
	forks   int
	others  int // transactions of others
}

// Purse is a wallet on the chain. It serves JSON-RPC.
type Purse struct {
	*Chain
	old        bool              // answers like a btcwallet
	addresses  map[string]string // by script
	locked     map[bitcoin.Outpoint]bool
	passphrase bool // is needed, and was not given
}

// New returns a chain without blocks.
func New() *Chain {
	return &Chain{raw: map[string]string{}, txs: map[string]bitcoin.Transaction{}}
}

// Fund gives a wallet a number of coins of 1,000,000 sat, in a block each.
func (f *Chain) Fund(p *Purse, coins int) {
	for range coins {
		f.Pay(p.Address(), 1_000_000)
		f.Mine(1)
	}
}

// Pay has somebody pay amounts to an address with one transaction, in sat, and returns its id. No block has it yet.
func (f *Chain) Pay(address string, satoshis ...int64) (id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others++
	id = f.add(coins(1<<24+f.others, address, satoshis...))
	f.pool = append(f.pool, id)
	return id
}

// Height returns the number of blocks.
func (f *Chain) Height() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.blocks)
}

// Waiting returns the ids of the transactions that no block has.
func (f *Chain) Waiting() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pool)
}

// Reorganise replaces the blocks from a height on by some other ones, which do not have their transactions: those wait again.
func (f *Chain) Reorganise(height, blocks int) {
	f.mu.Lock()
	for _, block := range f.blocks[height:] {
		f.pool = append(f.pool, block[1:]...)
	}
	f.blocks, f.headers, f.forks = f.blocks[:height], f.headers[:height], f.forks+1
	kept := f.pool
	f.pool = nil
	f.mu.Unlock()
	f.Mine(blocks)
	f.mu.Lock()
	f.pool = kept
	f.mu.Unlock()
}

// Conflict spends the first input of a transaction otherwise, in a block, so that the transaction can come into none.
func (f *Chain) Conflict(raw string) {
	f.mu.Lock()
	b, _ := hex.DecodeString(raw)
	t, err := bitcoin.ParseTransaction(b)
	if err != nil {
		panic(err)
	}
	script, _, _ := bitcoin.Script(nobody)
	other, _ := bitcoin.Unsigned(t.Inputs[:1], []bitcoin.Output{{Satoshis: 1, Script: script}})
	f.pool = append(slices.DeleteFunc(f.pool, func(id string) bool { return id == t.ID }), f.add(hex.EncodeToString(other)))
	f.mu.Unlock()
	f.Mine(1)
}

// nobody is an address whose coins no wallet has.
const nobody = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"

// Purse returns a new wallet on the chain.
func (f *Chain) Purse() *Purse {
	return &Purse{Chain: f, addresses: map[string]string{}, locked: map[bitcoin.Outpoint]bool{}}
}

// Lock locks the wallet, which signs nothing then, or unlocks it.
func (p *Purse) Lock(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passphrase = on
}

// Btcwallet returns a new wallet on the chain that answers like a btcwallet.
func (f *Chain) Btcwallet() *Purse {
	p := f.Purse()
	p.old = true
	return p
}

// Address makes an address of the kind that is usual in the wallet.
func (p *Purse) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address(p.old)
}

// address makes an address of version 0, or an old one to a key.
func (p *Purse) address(old bool) string {
	p.made++
	program := binary.BigEndian.AppendUint64(make([]byte, 12), uint64(p.made))
	groups, _ := bech32.ConvertBits(program, 8, 5, true)
	text, _ := bech32.Encode("bcrt", append([]byte{0}, groups...))
	if old {
		text = base58.CheckEncode(program, 0x6f)
	}
	script, _ := bitcoin.ChangeScript(text)
	p.addresses[string(script)] = text
	return text
}

// coins returns a transaction that makes new coins for an address, with a number of its own.
func coins(number int, to string, satoshis ...int64) string {
	script, _ := bitcoin.ChangeScript(to)
	var outputs []bitcoin.Output
	for _, n := range satoshis {
		outputs = append(outputs, bitcoin.Output{Satoshis: n, Script: script})
	}
	raw, _ := bitcoin.Unsigned([]bitcoin.Outpoint{{ID: strings.Repeat("0", 64), N: uint32(number)}}, outputs)
	return hex.EncodeToString(raw)
}

// add notes a transaction, and returns its id.
func (f *Chain) add(raw string) string {
	b, _ := hex.DecodeString(raw)
	t, err := bitcoin.ParseTransaction(b)
	if err != nil {
		panic(err)
	}
	f.raw[t.ID], f.txs[t.ID] = raw, t
	return t.ID
}

// Mine makes blocks, the first one with all that waits.
func (f *Chain) Mine(blocks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range blocks {
		coinbase := f.add(coins(len(f.blocks)<<8+f.forks, nobody, 1))
		ids := append([]string{coinbase}, f.pool...)
		f.pool = nil
		f.blocks, f.headers = append(f.blocks, ids), append(f.headers, headerOf(ids))
	}
}

// headerOf returns a header with the root of some ids, and work by easy bits.
func headerOf(ids []string) string {
	header := make([]byte, 80)
	copy(header[72:], []byte{0xff, 0xff, 0x7f, 0x20})
	copy(header[36:], rootOf(ids))
	var in bitcoin.Inclusion
	for n := range 256 {
		header[76] = byte(n)
		in.Header = hex.EncodeToString(header)
		if _, err := in.Block(); err == nil {
			break
		}
	}
	return in.Header
}

// rootOf returns the root of the tree of some ids.
func rootOf(ids []string) []byte {
	level := make([][]byte, len(ids))
	for i, id := range ids {
		level[i], _ = hex.DecodeString(id)
		slices.Reverse(level[i])
	}
	for len(level) > 1 {
		var above [][]byte
		for i := 0; i < len(level); i += 2 {
			once := sha256.Sum256(slices.Concat(level[i], level[min(i+1, len(level)-1)]))
			twice := sha256.Sum256(once[:])
			above = append(above, twice[:])
		}
		level = above
	}
	return level[0]
}

// place returns the block that has a transaction.
func (f *Chain) place(id string) (block, confirmations int) {
	for i, ids := range f.blocks {
		if slices.Contains(ids, id) {
			return i, len(f.blocks) - i
		}
	}
	return -1, 0
}

func (f *Chain) hash(block int) string {
	hash, _ := bitcoin.Inclusion{Header: f.headers[block]}.Block()
	return hash
}

// known returns the ids of the transactions that wait or that a block has.
func (f *Chain) known() []string { return slices.Concat(append(slices.Clone(f.blocks), f.pool)...) }

// unspent calls with each output of the wallet's that no transaction spends.
func (p *Purse) unspent(with func(at bitcoin.Outpoint, o bitcoin.Output)) {
	known := p.known()
	spent := map[bitcoin.Outpoint]bool{}
	for _, id := range known {
		for _, in := range p.txs[id].Inputs {
			spent[in] = true
		}
	}
	for _, id := range known {
		for n, o := range p.txs[id].Outputs {
			at := bitcoin.Outpoint{ID: id, N: uint32(n)}
			if p.addresses[string(o.Script)] != "" && !spent[at] && !p.locked[at] {
				with(at, o)
			}
		}
	}
}

// spent reports whether another transaction spends an input of one.
func (f *Chain) spent(t bitcoin.Transaction) bool {
	return slices.ContainsFunc(f.known(), func(id string) bool {
		return id != t.ID && slices.ContainsFunc(f.txs[id].Inputs, func(in bitcoin.Outpoint) bool { return slices.Contains(t.Inputs, in) })
	})
}

// ServeHTTP answers as bitcoind does.
func (p *Purse) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var call struct {
		Method string           `json:"method"`
		Params []jsontext.Value `json:"params"`
	}
	if user, password, _ := r.BasicAuth(); user != "user" || password != "password" {
		rw.WriteHeader(http.StatusUnauthorized)
		return
	}
	if err := json.UnmarshalRead(r.Body, &call); err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	result, code := p.answer(call.Method, call.Params)
	p.mu.Unlock()
	answer := map[string]any{"result": result, "error": nil, "id": 1}
	if code != 0 {
		answer = map[string]any{"result": nil, "error": map[string]any{"code": code, "message": "no"}, "id": 1}
		rw.WriteHeader(http.StatusInternalServerError)
	}
	_ = json.MarshalWrite(rw, answer)
}

func (p *Purse) answer(method string, params []jsontext.Value) (result any, code int) {
	text := func(n int) (s string) {
		if n < len(params) {
			_ = json.Unmarshal(params[n], &s)
		}
		return s
	}
	var outpoints []struct {
		ID string `json:"txid"`
		N  uint32 `json:"vout"`
	}
	switch method {
	case "getblockchaininfo":
		return map[string]any{"chain": "regtest"}, 0
	case "getnewaddress":
		if p.old && text(0) != "default" { // the name of an account
			return nil, -4
		}
		return p.address(p.old && text(1) != "bech32"), 0
	case "getrawchangeaddress":
		return p.address(p.old), 0
	case "listunspent":
		all := []any{}
		p.unspent(func(at bitcoin.Outpoint, o bitcoin.Output) {
			if _, n := p.place(at.ID); n > 0 {
				all = append(all, map[string]any{"txid": at.ID, "vout": at.N, "amount": float64(o.Satoshis) / 1e8, "scriptPubKey": hex.EncodeToString(o.Script), "spendable": true, "safe": true})
			}
		})
		return all, 0
	case "signrawtransactionwithwallet":
		switch {
		case p.old:
			return nil, -32601
		case p.passphrase:
			return nil, -13
		case text(0) == "":
			return nil, -22
		}
		return map[string]any{"hex": text(0), "complete": true}, 0
	case "signrawtransaction":
		if p.old {
			return map[string]any{"hex": text(0), "complete": !p.passphrase && p.spendsOld(text(0))}, 0
		}
	case "lockunspent":
		_ = json.Unmarshal(params[1], &outpoints)
		var unlock bool
		_ = json.Unmarshal(params[0], &unlock)
		for _, one := range outpoints {
			p.locked[bitcoin.Outpoint{ID: one.ID, N: one.N}] = !unlock
		}
		return true, 0
	case "sendrawtransaction":
		b, _ := hex.DecodeString(text(0))
		t, err := bitcoin.ParseTransaction(b)
		if err != nil {
			return nil, -22
		}
		if _, n := p.place(t.ID); n > 0 {
			return nil, -27
		}
		if slices.Contains(p.pool, t.ID) { // it is announced again
			return t.ID, 0
		}
		if p.spent(t) {
			return nil, -25
		}
		id := p.add(text(0))
		p.pool = append(p.pool, id)
		return id, 0
	case "getrawtransaction":
		if slices.Contains(p.pool, text(0)) {
			return p.raw[text(0)], 0
		}
	case "gettransaction":
		id := text(0)
		block, n := p.place(id)
		switch {
		case n > 0:
			return map[string]any{"hex": p.raw[id], "confirmations": n, "blockhash": p.hash(block)}, 0
		case slices.Contains(p.pool, id):
			return map[string]any{"hex": p.raw[id], "confirmations": 0}, 0
		case !p.old && p.raw[id] != "" && p.spent(p.txs[id]):
			return map[string]any{"hex": p.raw[id], "confirmations": -1}, 0
		}
		return nil, -5
	case "listreceivedbyaddress":
		if p.old && len(params) > 3 {
			return nil, -32600
		}
		all := []any{}
		for script, address := range p.addresses {
			if !p.old && address != text(3) {
				continue
			}
			ids := []string{}
			for _, id := range p.known() {
				if slices.ContainsFunc(p.txs[id].Outputs, func(o bitcoin.Output) bool { return string(o.Script) == script }) {
					ids = append(ids, id)
				}
			}
			all = append(all, map[string]any{"address": address, "txids": ids})
		}
		return all, 0
	case "getblock", "getblockheader":
		for i := range p.blocks {
			if p.hash(i) != text(0) {
				continue
			}
			if method == "getblock" {
				return map[string]any{"tx": p.blocks[i]}, 0
			}
			return p.headers[i], 0
		}
	}
	return nil, -32601
}

// spendsOld reports whether a transaction spends nothing but outputs to old addresses, for which alone a btcwallet signs.
func (f *Chain) spendsOld(raw string) bool {
	b, _ := hex.DecodeString(raw)
	t, err := bitcoin.ParseTransaction(b)
	return err == nil && !slices.ContainsFunc(t.Inputs, func(in bitcoin.Outpoint) bool {
		return f.txs[in.ID].Outputs[in.N].Script[0] != 0x76
	})
}

// Serve serves a wallet until the test ends, and returns the connection string for it.
func (p *Purse) Serve(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return "bitcoind://user:password@" + strings.TrimPrefix(s.URL, "http://")
}
