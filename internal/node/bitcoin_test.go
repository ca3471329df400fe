package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/bitcoind/bitcoindtest"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
)

// TestPaidOnchain hires a provider that is paid by a transaction, which a block has only after a while.
func TestPaidOnchain(t *testing.T) {
	t.Parallel()
	chain, tape, url := bitcoindtest.New(), newTape(), startRelay(t)
	payer, payee := chain.Purse(), chain.Purse()
	chain.Fund(payer, 2)
	customer := startNode(t, url, func(n *Config) {
		n.Examine, n.Appended, n.Socket = found(guild.Success, guild.Strong), tape.take, socket(t)
	})
	height := make(chan int, 1) // when the transaction came
	provider := startNode(t, url, func(n *Config) {
		n.Socket, n.Workers = socket(t), []Worker{{Task: "echo", Do: echo, Price: 5_000_000, Unit: "sat"}}
	})
	client, other := control.Dial(customer.c.Socket), control.Dial(provider.c.Socket)
	for c, purse := range map[*control.Client]*bitcoindtest.Purse{client: payer, other: payee} {
		shown, err := control.ConnectBitcoin.Call(t.Context(), c, control.BitcoinConnection{Connection: purse.Serve(t) + "?confirmations=2"})
		if err != nil || shown.Network != "regtest" || shown.Confirmations != 2 {
			t.Fatalf("%+v, %v", shown, err)
		}
	}
	go func() {
		look := time.NewTicker(50 * time.Millisecond)
		defer look.Stop()
		for len(chain.Waiting()) == 0 && t.Context().Err() == nil {
			<-look.C
		}
		height <- chain.Height()
		chain.Mine(2)
	}()
	job := hire(t, client, control.Hire{
		Tries: 1, Timeout: (2 * time.Hour).Milliseconds(), Settle: &control.Settlement{How: "onchain", Unit: "sat", Most: 6000},
	})
	until(t, tape, func(r fact.AttemptRecorded) bool { return r.Receipt != "" })
	if job.Ending != guild.JobAccepted || <-height != 2 {
		t.Fatalf("%s: %s", job.Ending, job.Reason)
	}
	for n, want := range map[*Node][2]int64{customer: {5000, 0}, provider: {0, -5000}} {
		for _, a := range n.wallet.Fold().Balances() {
			if a.Asset == wallet.Chain && (a.Accounts[wallet.Paid] != want[0] || a.Accounts[wallet.Earned] != want[1] || a.Accounts[wallet.Held] != 0) {
				t.Errorf("the ledger: %v, want %v", a.Accounts, want)
			}
		}
	}
	m, err := control.Wallet.Call(t.Context(), client)
	if err != nil || m.Bitcoin == nil || m.Bitcoin.Balance >= 1_995_000_000 || m.Bitcoin.Reason != "" {
		t.Errorf("%+v, %v", m.Bitcoin, err)
	}
}

// TestBitcoinConnectionKept keeps a connection in one file, and forgets it.
func TestBitcoinConnectionKept(t *testing.T) {
	text := bitcoindtest.New().Purse().Serve(t)
	n := startNode(t, startRelay(t), func(*Config) {})
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
}
