package node

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/internal/control"
	"guild/internal/hand/lnd"
	"guild/internal/hand/lnd/lndtest"
	"guild/internal/hand/nwc"
	"guild/verify"
)

// prepaidByLND hires with an lnd node for the customer and one for the provider.
func prepaidByLND(t *testing.T, payer, payee *lndtest.Node) {
	t.Helper()
	byLND(t, payer, payee, func(connect func(customer, provider *control.Client)) { prepaid(t, startRelay(t), connect) })
}

// heldByLND hires with a payment that the provider's lnd node holds until the verdict.
func heldByLND(t *testing.T, payer, payee *lndtest.Node) {
	t.Helper()
	byLND(t, payer, payee, func(connect func(customer, provider *control.Client)) {
		overLightning(t, startRelay(t), "escrow", verify.Absent, "the customer chose it", connect)
	})
}

// byLND checks that a hire moves its price from one node to the other.
func byLND(t *testing.T, payer, payee *lndtest.Node, hires func(connect func(customer, provider *control.Client))) {
	t.Helper()
	balances := map[*lndtest.Node]int64{}
	clients := map[*lndtest.Node]*control.Client{}
	hires(func(customer, provider *control.Client) {
		clients[payer], clients[payee] = customer, provider
		for n, c := range clients {
			given := control.LightningConnection{Connection: n.Connection(t, lndtest.Enough...)}
			shown, err := control.ConnectLightning.Call(t.Context(), c, given)
			if err != nil || shown.Alias == "" || shown.Network != "regtest" || shown.Balance < 500_000 {
				t.Fatalf("%+v, %v", shown, err)
			}
			balances[n] = int64(shown.Balance)
		}
	})
	for n, moved := range map[*lndtest.Node]int64{payer: -500_000, payee: 500_000} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for { // the channel may follow the payment
			m, err := control.Wallet.Call(ctx, clients[n])
			if err != nil || m.Lightning == nil {
				t.Fatalf("%+v, %v; there were %d msat", m.Lightning, err, balances[n])
			}
			if int64(m.Lightning.Balance)-balances[n] == moved {
				break
			}
		}
		cancel()
	}
}

func TestPrepaidByLND(t *testing.T) {
	t.Parallel()
	nodes := lndtest.NewFakes(t)
	prepaidByLND(t, nodes.Payer, nodes.Payee)
}

func TestHeldByLND(t *testing.T) {
	t.Parallel()
	nodes := lndtest.NewFakes(t)
	heldByLND(t, nodes.Payer, nodes.Payee)
}

// TestPrepaidByRealNodes pays between two nodes of lnd's on a chain of their own.
func TestPrepaidByRealNodes(t *testing.T) {
	if !lndtest.Available() {
		t.Skip("make stand PART=lnd builds lnd and btcd")
	}
	payer, payee := lndtest.Real(t)
	prepaidByLND(t, payer, payee)
	t.Run("held", func(t *testing.T) { heldByLND(t, payer, payee) })
}

// TestLightningConnectionKept keeps a connection in one file, whatever the wallet, and reads that of earlier versions.
func TestLightningConnectionKept(t *testing.T) {
	nodes := lndtest.NewFakes(t)
	text := nodes.Payer.Connection(t, lndtest.Enough...)
	earlier := "nostr+walletconnect://" + "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798" +
		"?relay=wss://relay.example&secret=" + strings.Repeat("01", 32)
	n := startNode(t, startRelay(t), func(*Config) {})
	open := n.openLightning
	if w := open().Wallet(); w != nil {
		t.Errorf("a wallet of nobody's: %T", w)
	}
	old, kept := filepath.Join(n.c.Dir, "wallet.nwc"), filepath.Join(n.c.Dir, "wallet.lightning")
	if err := os.WriteFile(old, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open()
	if _, ok := l.Wallet().(*nwc.Wallet); !ok {
		t.Fatalf("%T", l.Wallet())
	}
	if _, err := l.Connect(t.Context(), nodes.Payer.Connection(t, lndtest.Enough[1:]...)); err == nil || l.Wallet() == nil {
		t.Error("a macaroon that is not enough is taken:", err)
	}
	if _, err := l.Connect(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(kept)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error("the earlier connection is kept:", err)
	}
	l = open()
	if _, ok := l.Wallet().(*lnd.Wallet); !ok {
		t.Fatalf("%T", l.Wallet())
	}
	if err := l.Disconnect(); err != nil || l.Wallet() != nil {
		t.Error(err)
	}
	if files, _ := fs.Glob(os.DirFS(n.c.Dir), "wallet.[ln]*"); len(files) > 0 || open().Wallet() != nil {
		t.Error("left:", files)
	}
}
