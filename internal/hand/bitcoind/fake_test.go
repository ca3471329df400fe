package bitcoind

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

	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/bitcoin"
)

// fake is a chain, and the wallets of bitcoind's on it. Nothing is signed: whose an output is, its script says.
type fake struct {
	mu      sync.Mutex
	blocks  [][]string                     // ids of transactions
	headers []string                       // in hex
	raw     map[string]string              // all transactions by id, in hex
	txs     map[string]bitcoin.Transaction // by id
	pool    []string                       // ids
	made    int                            // addresses
	forks   int
}

// wallets of the chain: the owner of each address.
type purse struct {
	*fake
	addresses map[string]string // by script
	locked    map[bitcoin.Outpoint]bool
}

func newFake(t *testing.T) (rig, *fake) {
	t.Helper()
	f := &fake{raw: map[string]string{}, txs: map[string]bitcoin.Transaction{}}
	payer, payee := f.purse(), f.purse()
	for n := range 4 {
		f.pool = append(f.pool, f.add(coins(1<<24+n, payer.address(), 1_000_000)))
		f.mine(1)
	}
	at := httptest.NewServer(payer)
	to := httptest.NewServer(payee)
	t.Cleanup(func() { at.Close(); to.Close() })
	open := func(s *httptest.Server) *Wallet {
		c, err := Parse(Scheme + "user:password@" + strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		return New(c)
	}
	height := 0
	return rig{
		payer: open(at), payee: open(to), network: "regtest", again: func() *Wallet { return open(at) },
		mine:   func(_ *testing.T, blocks int) { f.mine(blocks) },
		before: func(*testing.T) { height = len(f.blocks) },
		reorg: func(*testing.T) {
			f.mu.Lock()
			for _, block := range f.blocks[height:] {
				f.pool = append(f.pool, block[1:]...)
			}
			f.blocks, f.headers, f.forks = f.blocks[:height], f.headers[:height], f.forks+1
			kept := f.pool
			f.pool = nil
			f.mu.Unlock()
			f.mine(2)
			f.pool = kept
		},
	}, f
}

func (f *fake) purse() *purse {
	return &purse{fake: f, addresses: map[string]string{}, locked: map[bitcoin.Outpoint]bool{}}
}

// address makes an address of version 0.
func (p *purse) address() string {
	p.made++
	program := binary.BigEndian.AppendUint64(make([]byte, 12), uint64(p.made))
	groups, _ := bech32.ConvertBits(program, 8, 5, true)
	text, _ := bech32.Encode("bcrt", append([]byte{0}, groups...))
	script, _, _ := bitcoin.Script(text)
	p.addresses[string(script)] = text
	return text
}

// coins returns a transaction that makes new coins for an address, with a number of its own.
func coins(number int, to string, satoshis int64) string {
	script, _, _ := bitcoin.Script(to)
	raw, _ := bitcoin.Unsigned([]bitcoin.Outpoint{{ID: strings.Repeat("0", 64), N: uint32(number)}}, []bitcoin.Output{{Satoshis: satoshis, Script: script}})
	return hex.EncodeToString(raw)
}

// add notes a transaction, and returns its id.
func (f *fake) add(raw string) string {
	b, _ := hex.DecodeString(raw)
	t, err := bitcoin.ParseTransaction(b)
	if err != nil {
		panic(err)
	}
	f.raw[t.ID], f.txs[t.ID] = raw, t
	return t.ID
}

// mine makes blocks, the first one with all that waits.
func (f *fake) mine(blocks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range blocks {
		coinbase := f.add(coins(len(f.blocks)<<8+f.forks, "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", 1))
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
func (f *fake) place(id string) (block, confirmations int) {
	for i, ids := range f.blocks {
		if slices.Contains(ids, id) {
			return i, len(f.blocks) - i
		}
	}
	return -1, 0
}

func (f *fake) hash(block int) string {
	hash, _ := bitcoin.Inclusion{Header: f.headers[block]}.Block()
	return hash
}

// unspent calls with each output of the wallet's that no transaction spends.
func (p *purse) unspent(with func(at bitcoin.Outpoint, o bitcoin.Output)) {
	known := slices.Clone(p.pool)
	for _, ids := range p.blocks {
		known = append(known, ids...)
	}
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

// ServeHTTP answers as bitcoind does.
func (p *purse) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
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

func (p *purse) answer(method string, params []jsontext.Value) (result any, code int) {
	text := func(n int) (s string) { _ = json.Unmarshal(params[n], &s); return s }
	var outpoints []struct {
		ID string `json:"txid"`
		N  uint32 `json:"vout"`
	}
	switch method {
	case "getblockchaininfo":
		return map[string]any{"chain": "regtest"}, 0
	case "getnewaddress", "getrawchangeaddress":
		return p.address(), 0
	case "listunspent":
		all := []any{}
		p.unspent(func(at bitcoin.Outpoint, o bitcoin.Output) {
			if _, n := p.place(at.ID); n > 0 {
				all = append(all, map[string]any{"txid": at.ID, "vout": at.N, "amount": float64(o.Satoshis) / 1e8, "spendable": true, "safe": true})
			}
		})
		return all, 0
	case "signrawtransactionwithwallet":
		return map[string]any{"hex": text(0), "complete": true}, 0
	case "lockunspent":
		_ = json.Unmarshal(params[1], &outpoints)
		for _, one := range outpoints {
			p.locked[bitcoin.Outpoint{ID: one.ID, N: one.N}] = true
		}
		return true, 0
	case "sendrawtransaction":
		id := p.add(text(0))
		if _, n := p.place(id); n > 0 || slices.Contains(p.pool, id) {
			return nil, -27
		}
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
		}
	case "listreceivedbyaddress":
		script, _, _ := bitcoin.Script(text(3))
		ids := []string{}
		p.unspent(func(at bitcoin.Outpoint, o bitcoin.Output) {
			if string(o.Script) == string(script) {
				ids = append(ids, at.ID)
			}
		})
		return []any{map[string]any{"address": text(3), "txids": ids}}, 0
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

func TestConformance(t *testing.T) {
	r, _ := newFake(t)
	r.conforms(t)
}
