package node

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/bitcoind/bitcoindtest"
	"guild/internal/hand/bitcoind/btcdtest"
	"guild/internal/journal/fact"
	"guild/internal/step/work"
	"guild/internal/wallet"
)

// TestPaidOnchain hires a provider that is paid by a transaction, which a block has only after a while.
func TestPaidOnchain(t *testing.T) {
	t.Parallel()
	chain := bitcoindtest.New()
	payer, payee := chain.Purse(), chain.Purse()
	chain.Fund(payer, 2)
	left := paidOnchain(t, "regtest", payer.Serve(t)+"?confirmations=2", payee.Serve(t)+"?confirmations=2",
		func() int { return len(chain.Waiting()) }, chain.Mine)
	if left >= 1_995_000_000 {
		t.Errorf("%d msat are left", left)
	}
}

// TestPaidOnRealChain pays between two btcwallets on a btcd.
func TestPaidOnRealChain(t *testing.T) {
	if !btcdtest.Available() {
		t.Skip("make stand PART=onchain builds btcd and btcwallet")
	}
	chain, _, payer, payee := btcdtest.Funded(t)
	paidOnchain(t, "simnet", payer.Connection(t, "&confirmations=2"), payee.Connection(t, "&confirmations=2"),
		func() int { return chain.Waiting(t) }, func(blocks int) { chain.Mine(t, blocks) })
}

// paidOnchain hires a provider with two wallets, given by their connections, on a chain where some transactions wait until a block is made.
// It returns what the payer can spend after that, in msat.
func paidOnchain(t *testing.T, network, payer, payee string, waiting func() int, mine func(blocks int)) (left int64) {
	t.Helper()
	tape, url := newTape(), startRelay(t)
	customer := startNode(t, url, func(n *Config) {
		n.Examine, n.Appended, n.Socket = found(guild.Success, guild.Strong), tape.take, socket(t)
	})
	var unpaid atomic.Bool // the provider's owner is told that it waits for the payment
	provider := startNode(t, url, func(n *Config) {
		n.Watch = func(u work.Update) {
			if u.Stage == work.Waiting && u.Text == "its payment has not arrived yet" {
				unpaid.Store(true)
			}
		}
		n.Socket, n.Workers = socket(t), []Worker{{Task: "echo", Do: echo, Price: 5_000_000, Unit: "sat"}}
	})
	client, other := control.Dial(customer.c.Socket), control.Dial(provider.c.Socket)
	for c, connection := range map[*control.Client]string{client: payer, other: payee} {
		shown, err := control.ConnectBitcoin.Call(t.Context(), c, control.BitcoinConnection{Connection: connection})
		if err != nil || shown.Network != network || shown.Confirmations != 2 {
			t.Fatalf("%+v, %v", shown, err)
		}
	}
	mined := make(chan bool)
	go func() {
		defer close(mined)
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for waiting() == 0 && t.Context().Err() == nil {
			<-look.C
		}
		if _, err := control.ConnectBitcoin.Call(t.Context(), client, control.BitcoinConnection{}); err == nil {
			t.Error("the wallet is forgotten while it pays")
		}
		if _, err := control.ConnectBitcoin.Call(t.Context(), client, control.BitcoinConnection{Connection: payee}); err == nil {
			t.Error("another wallet is connected while one pays")
		}
		if _, err := control.ConnectBitcoin.Call(t.Context(), client, control.BitcoinConnection{Connection: payer}); err != nil {
			t.Error("the same wallet is not connected again:", err)
		}
		mine(2)
	}()
	t.Cleanup(func() { <-mined })
	job := hire(t, client, control.Hire{
		Tries: 1, Timeout: (2 * time.Hour).Milliseconds(), Settle: &control.Settlement{How: "onchain", Unit: "sat", Most: 6000},
	})
	until(t, tape, func(r fact.AttemptRecorded) bool { return r.Receipt != "" })
	if job.Ending != guild.JobAccepted {
		t.Fatalf("%s: %s", job.Ending, job.Reason)
	}
	if !unpaid.Load() {
		t.Error("it is not told that the payment has not arrived")
	}
	for n, want := range map[*Node][2]int64{customer: {5000, 0}, provider: {0, -5000}} {
		for _, a := range n.wallet.Fold().Balances() {
			if a.Asset == wallet.Chain && (a.Accounts[wallet.Paid] != want[0] || a.Accounts[wallet.Earned] != want[1] || a.Accounts[wallet.Held] != 0) {
				t.Errorf("the ledger: %v, want %v", a.Accounts, want)
			}
		}
	}
	m, err := control.Wallet.Call(t.Context(), client)
	if err != nil || m.Bitcoin == nil || m.Bitcoin.Reason != "" {
		t.Fatalf("%+v, %v", m.Bitcoin, err)
	}
	return m.Bitcoin.Balance
}

// TestBitcoinConnectionKept keeps a connection in one file, and forgets it.
func TestBitcoinConnectionKept(t *testing.T) {
	text := bitcoindtest.New().Purse().Serve(t)
	n := startNode(t, startRelay(t), func(c *Config) { c.Socket = socket(t) })
	kept := filepath.Join(n.c.Dir, "wallet.bitcoin")
	b := n.openBitcoin()
	if b.pays() != nil {
		t.Error("a wallet of nobody's")
	}
	if _, err := b.Connect(t.Context(), "bitcoind://user:wrong@127.0.0.1:1"); err == nil || b.pays() != nil {
		t.Error("a wallet that does not answer is taken:", err)
	}
	if _, err := b.Connect(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if b = n.openBitcoin(); b.pays() == nil {
		t.Error("it is not kept")
	}
	if err := b.Disconnect(); err != nil || b.pays() != nil || n.openBitcoin().pays() != nil {
		t.Error("it is not forgotten:", err)
	}
	given := control.BitcoinConnection{Connection: text + "?confirmation=6"}
	_, err := control.ConnectBitcoin.Call(t.Context(), control.Dial(n.c.Socket), given)
	if problem, ok := errors.AsType[*control.ProblemError](err); !ok || problem.Problem.Code != "usage" {
		t.Error("a connection with an unknown setting:", err)
	}
}
