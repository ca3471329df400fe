package lndtest

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"guild/internal/hand/bitcoind/btcdtest"
)

// lndProgram is the variable that names the program of lnd; `make stand` builds it and sets this.
const lndProgram = "GUILD_LND"

// Available reports whether there are programs for Real.
func Available() bool { return os.Getenv(lndProgram) != "" && os.Getenv(btcdtest.Program) != "" }

// Real starts two nodes of lnd's on a chain of their own, with a channel between them in which both have money. It takes about half a
// minute.
func Real(t *testing.T) (payer, payee *Node) {
	t.Helper()
	const nobody = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080" // gets the first block, without which lnd waits for the chain
	c := btcdtest.New(t, "regtest")
	c.Start(t, btcdtest.MineTo(nobody))
	c.Mine(t, 1)
	dir := t.TempDir()
	payer, stop := start(t, c, dir)
	var miner struct {
		Address string `json:"address"`
	}
	payer.Call(t, "GET", "/v1/newaddress", nil, &miner)
	stop()
	c.Stop()
	c.Start(t, btcdtest.MineTo(miner.Address))
	c.Mine(t, 450) // segregated witness is active after 432 blocks
	payer, _ = start(t, c, dir)
	payee, _ = start(t, c, t.TempDir())
	open(t, c, payer, payee)
	return payer, payee
}

// start starts a node of lnd's on the chain, with its files in dir.
func start(t *testing.T, c *btcdtest.Node, dir string) (n *Node, stop func()) {
	t.Helper()
	rest, peer := btcdtest.Free(t), btcdtest.Free(t)
	stop = btcdtest.Run(t, dir, os.Getenv(lndProgram), "--lnddir="+dir, "--noseedbackup", "--bitcoin.regtest", "--bitcoin.node=btcd", "--btcd.rpchost="+c.Address,
		"--btcd.rpcuser="+btcdtest.User, "--btcd.rpcpass="+btcdtest.User, "--btcd.rpccert="+c.Cert, "--restlisten="+rest,
		"--rpclisten="+btcdtest.Free(t), "--listen="+peer, "--nobootstrap", "--debuglevel=warn", "--trickledelay=50")
	btcdtest.Until(t, "lnd answers", func() error {
		if n == nil {
			cert, err := btcdtest.Certificate(filepath.Join(dir, "tls.cert"))
			if err != nil {
				return err
			}
			macaroon, err := os.ReadFile(filepath.Join(dir, "data", "chain", "bitcoin", "regtest", "admin.macaroon"))
			if err != nil {
				return err
			}
			n = newNode(rest, cert, hex.EncodeToString(macaroon))
		}
		var info struct {
			Key    string `json:"identity_pubkey"`
			Synced bool   `json:"synced_to_chain"`
		}
		if err := n.try(t.Context(), "GET", "/v1/getinfo", nil, &info); err != nil {
			return err
		}
		if !info.Synced {
			return errors.New("not synced to the chain")
		}
		n.Key, n.peer = info.Key, peer
		return nil
	})
	return n, stop
}

// open opens a channel, in which both nodes have money.
func open(t *testing.T, c *btcdtest.Node, from, to *Node) {
	t.Helper()
	from.Call(t, "POST", "/v1/peers", map[string]any{"addr": map[string]string{"pubkey": to.Key, "host": to.peer}}, nil)
	key, err := hex.DecodeString(to.Key)
	if err != nil {
		t.Fatal(err)
	}
	btcdtest.Until(t, "the channel is opened", func() error { // the peer must be connected, and the coins must be seen
		return from.try(t.Context(), "POST", "/v1/channels", map[string]any{
			"node_pubkey": base64.StdEncoding.EncodeToString(key), "local_funding_amount": "5000000", "push_sat": "1000000",
		}, nil)
	})
	c.Mine(t, 6)
	for payer, payee := range map[*Node]*Node{from: to, to: from} {
		btcdtest.Until(t, "a payment finds its way", func() error {
			return payer.try(t.Context(), "GET", "/v1/graph/routes/"+payee.Key+"/500", nil, nil)
		})
	}
}
