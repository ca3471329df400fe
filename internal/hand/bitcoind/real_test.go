package bitcoind

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestRealConformance is for `make stand`, which builds btcd and btcwallet and names them in these variables.
func TestRealConformance(t *testing.T) {
	if os.Getenv("GUILD_BTCD") == "" || os.Getenv("GUILD_BTCWALLET") == "" {
		t.Skip("make stand PART=onchain builds btcd and btcwallet")
	}
	realRig(t).conforms(t)
}

// node is a btcd on a network of its own (simnet), asked through the client of the wallet.
type node struct {
	*Wallet
	dir, rpc, listen string
	stop             func()
}

func newNode(t *testing.T) *node {
	t.Helper()
	return &node{dir: t.TempDir(), rpc: free(t), listen: free(t)}
}

// start starts btcd, with its files of an earlier start.
func (n *node) start(t *testing.T, args ...string) {
	t.Helper()
	cert := filepath.Join(n.dir, "rpc.cert")
	n.stop = run(t, n.dir, os.Getenv("GUILD_BTCD"), append(args, "--simnet", "--datadir="+n.dir, "--logdir="+n.dir, "--listen="+n.listen,
		"--rpclisten="+n.rpc, "--rpcuser=guild", "--rpcpass=guild", "--rpccert="+cert, "--rpckey="+filepath.Join(n.dir, "rpc.key"), "--txindex",
		"--nodnsseed", "--debuglevel=warn")...)
	until(t, "btcd answers", func() (err error) {
		if n.Wallet, err = connect(n.rpc, cert); err != nil {
			return err
		}
		_, err = n.height(t)
		return err
	})
}

func (n *node) height(t *testing.T) (blocks int, err error) {
	return blocks, n.call(t.Context(), &blocks, "getblockcount")
}

func (n *node) mine(t *testing.T, blocks int) {
	t.Helper()
	var ids []string
	if err := n.call(t.Context(), &ids, "generate", blocks); err != nil {
		t.Fatal(err)
	}
}

// follows waits until a node has as many blocks as another one.
func (n *node) follows(t *testing.T, other *node) {
	t.Helper()
	until(t, "the blocks of the other node", func() error {
		want, err := other.height(t)
		if err != nil {
			return err
		}
		if got, err := n.height(t); err != nil || got != want {
			return fmt.Errorf("%d blocks of %d: %w", got, want, err)
		}
		return nil
	})
}

// wallet starts a btcwallet at a node, and returns what connects to it.
func (n *node) wallet(t *testing.T) func() *Wallet {
	t.Helper()
	dir, rpc := t.TempDir(), free(t)
	cert := filepath.Join(dir, "rpc.cert")
	run(t, dir, os.Getenv("GUILD_BTCWALLET"), "--simnet", "--createtemp", "--appdata="+dir, "--logdir="+dir, "--username=guild", "--password=guild",
		"--rpcconnect="+n.rpc, "--cafile="+filepath.Join(n.dir, "rpc.cert"), "--rpclisten="+rpc, "--rpccert="+cert,
		"--rpckey="+filepath.Join(dir, "rpc.key"))
	open := func() *Wallet {
		w, err := connect(rpc, cert)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	until(t, "btcwallet answers", func() error {
		w, err := connect(rpc, cert)
		if err != nil {
			return err
		}
		var nothing any
		return errors.Join(w.call(t.Context(), &nothing, "walletpassphrase", "password", 3600), w.Check(t.Context()))
	})
	return open
}

// realRig starts a btcd with two wallets, and one that mines other blocks for the reorg.
func realRig(t *testing.T) rig {
	t.Helper()
	miner, rival := newNode(t), newNode(t)
	miner.start(t)
	payer, payee := miner.wallet(t), miner.wallet(t)
	var address string
	if err := payer().call(t.Context(), &address, "getnewaddress"); err != nil {
		t.Fatal(err)
	}
	mining := "--miningaddr=" + address
	miner.stop() // btcd is told only at its start where new coins go
	miner.start(t, mining)
	miner.mine(t, 400) // segregated witness is active after 300, and coins can be spent after 100
	// While btcwallet reads blocks, coins become old enough to be spent, and what the tests lock does not show in the balance.
	last, still := int64(0), 0
	until(t, "the payer's balance stands still", func() error {
		n, err := payer().Balance(t.Context())
		if still++; n != last || n == 0 || err != nil {
			last, still = n, 0
		}
		if still < 6 {
			return fmt.Errorf("%d sat: %w", n, err)
		}
		return nil
	})
	return rig{
		payer: payer(), payee: payee(), network: "simnet", again: payer, mine: miner.mine,
		before: func(t *testing.T) {
			rival.start(t, "--connect="+miner.listen)
			rival.follows(t, miner)
			rival.stop()
		},
		reorg: func(t *testing.T) {
			rival.start(t, mining)
			rival.mine(t, 2)
			rival.stop()
			rival.start(t, "--connect="+miner.listen)
			miner.follows(t, rival)
		},
	}
}

func connect(address, cert string) (*Wallet, error) {
	text, err := os.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	c, err := Parse(Scheme + "guild:guild@" + address + "?cert=" + url.QueryEscape(base64.StdEncoding.EncodeToString(text)))
	if err != nil {
		return nil, err
	}
	return New(c), nil
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

// until waits for something, at most a minute.
func until(t *testing.T, what string, is func() error) {
	t.Helper()
	var err error
	for range 120 {
		if err = is(); err == nil {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatalf("%s: %v", what, err)
}
