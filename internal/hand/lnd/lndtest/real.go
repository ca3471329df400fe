package lndtest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The variables that name the programs of lnd and btcd; `make stand` builds them and sets these.
const (
	lndProgram  = "GUILD_LND"
	btcdProgram = "GUILD_BTCD"
)

// Available reports whether there are programs for Real.
func Available() bool { return os.Getenv(lndProgram) != "" && os.Getenv(btcdProgram) != "" }

// chain is a btcd that is alone on a chain of its own (regtest).
type chain struct {
	dir         string
	rpc, listen string
	http        *http.Client
	stop        func()
}

const rpcUser, rpcPassword = "guild", "guild"

// Real starts two nodes of lnd's on a chain of their own, with a channel between them in which both have money. It takes about half a
// minute.
func Real(t *testing.T) (payer, payee *Node) {
	t.Helper()
	const nobody = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080" // gets the first block, without which lnd waits for the chain
	c := &chain{dir: t.TempDir(), rpc: free(t), listen: free(t)}
	c.start(t, nobody)
	c.mine(t, 1)
	dir := t.TempDir()
	payer, stop := c.lnd(t, dir)
	var miner struct {
		Address string `json:"address"`
	}
	payer.Call(t, "GET", "/v1/newaddress", nil, &miner)
	stop()
	c.stop() // btcd is told only at its start where new coins go
	c.start(t, miner.Address)
	c.mine(t, 450) // segregated witness is active after 432 blocks
	payer, _ = c.lnd(t, dir)
	payee, _ = c.lnd(t, t.TempDir())
	open(t, c, payer, payee)
	return payer, payee
}

// free returns an address at which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run starts a program with a home directory, and returns what ends it.
func run(t *testing.T, home, program string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(os.Interrupt)
			late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			late.Stop()
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(program), said.Bytes()[max(0, said.Len()-4000):])
		}
	})
	return stop
}

// start starts btcd, which gives the coins of new blocks to an address.
func (c *chain) start(t *testing.T, miner string) {
	t.Helper()
	cert := filepath.Join(c.dir, "rpc.cert")
	c.stop = run(t, c.dir, os.Getenv(btcdProgram), "--regtest", "--datadir="+c.dir, "--logdir="+c.dir, "--listen="+c.listen, "--rpclisten="+c.rpc,
		"--rpcuser="+rpcUser, "--rpcpass="+rpcPassword, "--rpccert="+cert, "--rpckey="+filepath.Join(c.dir, "rpc.key"), "--txindex", "--nodnsseed",
		"--debuglevel=warn", "--miningaddr="+miner)
	until(t, "btcd answers", func() error {
		if c.http == nil {
			parsed, err := readCert(cert)
			if err != nil {
				return err
			}
			roots := x509.NewCertPool()
			roots.AddCert(parsed)
			c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
		}
		return c.call("getblockcount")
	})
}

func readCert(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no certificate yet")
	}
	return x509.ParseCertificate(block.Bytes)
}

// call makes a request to btcd.
func (c *chain) call(method string, params ...any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "1.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, "https://"+c.rpc, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.SetBasicAuth(rpcUser, rpcPassword)
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("btcd: %s: %d %s", method, answer.StatusCode, raw)
	}
	return err
}

func (c *chain) mine(t *testing.T, blocks int) {
	t.Helper()
	if err := c.call("generate", blocks); err != nil {
		t.Fatal(err)
	}
}

// lnd starts a node on the chain, with its files in dir.
func (c *chain) lnd(t *testing.T, dir string) (n *Node, stop func()) {
	t.Helper()
	rest, peer := free(t), free(t)
	stop = run(t, dir, os.Getenv(lndProgram), "--lnddir="+dir, "--noseedbackup", "--bitcoin.regtest", "--bitcoin.node=btcd", "--btcd.rpchost="+c.rpc,
		"--btcd.rpcuser="+rpcUser, "--btcd.rpcpass="+rpcPassword, "--btcd.rpccert="+filepath.Join(c.dir, "rpc.cert"), "--restlisten="+rest,
		"--rpclisten="+free(t), "--listen="+peer, "--nobootstrap", "--debuglevel=warn", "--trickledelay=50")
	until(t, "lnd answers", func() error {
		if n == nil {
			cert, err := readCert(filepath.Join(dir, "tls.cert"))
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
func open(t *testing.T, c *chain, from, to *Node) {
	t.Helper()
	from.Call(t, "POST", "/v1/peers", map[string]any{"addr": map[string]string{"pubkey": to.Key, "host": to.peer}}, nil)
	key, err := hex.DecodeString(to.Key)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the channel is opened", func() error { // the peer must be connected, and the coins must be seen
		return from.try(t.Context(), "POST", "/v1/channels", map[string]any{
			"node_pubkey": base64.StdEncoding.EncodeToString(key), "local_funding_amount": "5000000", "push_sat": "1000000",
		}, nil)
	})
	c.mine(t, 6)
	for payer, payee := range map[*Node]*Node{from: to, to: from} {
		until(t, "a payment finds its way", func() error {
			return payer.try(t.Context(), "GET", "/v1/graph/routes/"+payee.Key+"/500", nil, nil)
		})
	}
}
