// Package btcdtest runs a real btcd and real btcwallets for tests, on a chain of their own, and other programs beside them. The money is
// not real.
package btcdtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// The variables that name the programs; `make stand` builds these and sets them.
const (
	Program       = "GUILD_BTCD"      // of btcd
	walletProgram = "GUILD_BTCWALLET" // of btcwallet
)

// Available reports whether there are programs for Funded.
func Available() bool { return os.Getenv(Program) != "" && os.Getenv(walletProgram) != "" }

// User is the user of all programs, and the password too.
const User = "guild"

// server is a program that is asked over JSON-RPC.
type server struct {
	Address string // host:port
	Cert    string // the file of its certificate
}

// call makes a request. The result may be nil.
func (s server) call(ctx context.Context, result any, method string, params ...any) error {
	cert, err := Certificate(s.Cert)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	body, err := json.Marshal(map[string]any{"jsonrpc": "1.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.Address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.SetBasicAuth(User, User)
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	wire := struct {
		Result any             `json:"result"`
		Error  json.RawMessage `json:"error"`
	}{Result: result}
	err = json.NewDecoder(answer.Body).Decode(&wire)
	if err == nil && len(wire.Error) > 0 && string(wire.Error) != "null" {
		err = fmt.Errorf("%s: %s", method, wire.Error)
	}
	return err
}

func (s server) height(ctx context.Context) (blocks int, err error) {
	return blocks, s.call(ctx, &blocks, "getblockcount")
}

// Follows waits until the program has as many blocks as a node.
func (s server) Follows(t *testing.T, n *Node) {
	t.Helper()
	Until(t, "the blocks of the node", func() error {
		want, err := n.height(t.Context())
		if err != nil {
			return err
		}
		if got, err := s.height(t.Context()); err != nil || got != want {
			return errors.Join(fmt.Errorf("%d blocks of %d", got, want), err)
		}
		return nil
	})
}

// Node is a btcd. Its address and its certificate are those of its RPC server.
type Node struct {
	server
	network, dir, listen string
	stop                 func()
}

// New returns a node on a network of its own, simnet or regtest, which is not started yet.
func New(t *testing.T, network string) *Node {
	t.Helper()
	dir := t.TempDir()
	return &Node{server: server{Free(t), filepath.Join(dir, "rpc.cert")}, network: network, dir: dir, listen: Free(t)}
}

// Start starts btcd, with its files of an earlier start, and waits until it answers.
func (n *Node) Start(t *testing.T, args ...string) {
	t.Helper()
	n.stop = Run(t, n.dir, os.Getenv(Program), append(args, "--"+n.network, "--datadir="+n.dir, "--logdir="+n.dir, "--listen="+n.listen,
		"--rpclisten="+n.Address, "--rpcuser="+User, "--rpcpass="+User, "--rpccert="+n.Cert, "--rpckey="+filepath.Join(n.dir, "rpc.key"), "--txindex",
		"--nodnsseed", "--debuglevel=warn")...)
	Until(t, "btcd answers", func() error {
		_, err := n.height(t.Context())
		return err
	})
}

// Stop ends btcd. It keeps its files.
func (n *Node) Stop() { n.stop() }

// Connect is the argument of another node which connects that one to this node.
func (n *Node) Connect() string { return "--connect=" + n.listen }

// MineTo is the argument by which btcd gives the coins of new blocks to an address. It is told only at its start.
func MineTo(address string) string { return "--miningaddr=" + address }

// Mine makes blocks. It may be called from any goroutine.
func (n *Node) Mine(t *testing.T, blocks int) {
	t.Helper()
	if err := n.call(t.Context(), nil, "generate", blocks); err != nil {
		t.Error(err)
	}
}

// Waiting returns the number of transactions that no block has, and -1 after an error. It may be called from any goroutine.
func (n *Node) Waiting(t *testing.T) int {
	t.Helper()
	var ids []string
	if err := n.call(t.Context(), &ids, "getrawmempool"); err != nil {
		t.Error(err)
		return -1
	}
	return len(ids)
}

// Wallet is a btcwallet.
type Wallet struct{ server }

// Connection returns the connection string of the package bitcoind, with a part of its query such as &confirmations=2.
func (w *Wallet) Connection(t *testing.T, settings string) string {
	t.Helper()
	text, err := os.ReadFile(w.Cert)
	if err != nil {
		t.Fatal(err)
	}
	return "bitcoind://" + User + ":" + User + "@" + w.Address + "?cert=" + url.QueryEscape(base64.StdEncoding.EncodeToString(text)) + settings
}

// Lock locks the wallet, which signs nothing then, or unlocks it.
func (w *Wallet) Lock(t *testing.T, on bool) {
	t.Helper()
	method, params := "walletlock", []any{}
	if !on {
		method, params = "walletpassphrase", []any{"password", 3600} // the password of --createtemp
	}
	Until(t, method, func() error { return w.call(t.Context(), nil, method, params...) })
}

// wallet starts a btcwallet at the node.
func (n *Node) wallet(t *testing.T) *Wallet {
	t.Helper()
	dir := t.TempDir()
	w := &Wallet{server{Free(t), filepath.Join(dir, "rpc.cert")}}
	Run(t, dir, os.Getenv(walletProgram), "--"+n.network, "--createtemp", "--appdata="+dir, "--logdir="+dir, "--username="+User, "--password="+User,
		"--rpcconnect="+n.Address, "--cafile="+n.Cert, "--rpclisten="+w.Address, "--rpccert="+w.Cert, "--rpckey="+filepath.Join(dir, "rpc.key"))
	w.Lock(t, false)
	return w
}

// Funded starts a node on a simnet with two wallets, of which the payer has coins. mining is the argument by which the coins of new blocks
// are the payer's. It takes about half a minute.
func Funded(t *testing.T) (n *Node, mining string, payer, payee *Wallet) {
	t.Helper()
	n = New(t, "simnet")
	n.Start(t)
	payer, payee = n.wallet(t), n.wallet(t)
	var address string
	if err := payer.call(t.Context(), &address, "getnewaddress"); err != nil {
		t.Fatal(err)
	}
	mining = MineTo(address)
	n.Stop()
	n.Start(t, mining)
	n.Mine(t, 400) // segregated witness is active after 300, and coins can be spent after 100
	// While btcwallet reads blocks, coins become old enough to be spent, and what the tests lock does not show in the balance.
	last, still := 0, 0
	Until(t, "the payer's coins stand still", func() error {
		var coins []json.RawMessage
		err := payer.call(t.Context(), &coins, "listunspent", 1)
		still++
		if len(coins) != last || last == 0 || err != nil {
			last, still = len(coins), 0
		}
		if still < 12 {
			return errors.Join(fmt.Errorf("%d coins", last), err)
		}
		return nil
	})
	return n, mining, payer, payee
}
