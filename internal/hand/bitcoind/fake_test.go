package bitcoind

import (
	"testing"

	"guild/internal/hand/bitcoind/bitcoindtest"
)

func TestConformance(t *testing.T) {
	chain := bitcoindtest.New()
	payer, payee := chain.Purse(), chain.Purse()
	chain.Fund(payer, 4)
	at, to := payer.Serve(t), payee.Serve(t)
	open := func(connection string) *Wallet {
		c, err := Parse(connection)
		if err != nil {
			t.Fatal(err)
		}
		return New(c)
	}
	height := 0
	rig{
		payer: open(at), payee: open(to), network: "regtest", again: func() *Wallet { return open(at) },
		mine:   func(_ *testing.T, blocks int) { chain.Mine(blocks) },
		before: func(*testing.T) { height = chain.Height() },
		reorg:  func(*testing.T) { chain.Reorganise(height, 2) },
	}.conforms(t)
}
