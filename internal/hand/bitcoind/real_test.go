package bitcoind

import (
	"testing"

	"guild/internal/hand/bitcoind/btcdtest"
)

// TestRealConformance is for `make stand`, which builds btcd and btcwallet.
func TestRealConformance(t *testing.T) {
	if !btcdtest.Available() {
		t.Skip("make stand PART=onchain builds btcd and btcwallet")
	}
	miner, mining, payer, payee := btcdtest.Funded(t)
	rival := btcdtest.New(t, "simnet") // which mines other blocks for the reorg
	open := func(w *btcdtest.Wallet) *Wallet { return open(t, w.Connection(t, "")) }
	rig{
		payer: open(payer), payee: open(payee), network: "simnet", again: func() *Wallet { return open(payer) },
		lock: payer.Lock,
		mine: func(t *testing.T, blocks int) {
			miner.Mine(t, blocks)
			payer.Follows(t, miner)
			payee.Follows(t, miner)
		},
		before: func(t *testing.T) {
			rival.Start(t, miner.Connect())
			rival.Follows(t, miner)
			rival.Stop()
		},
		reorg: func(t *testing.T) {
			rival.Start(t, mining)
			rival.Mine(t, 2)
			rival.Stop()
			rival.Start(t, miner.Connect())
			miner.Follows(t, rival)
		},
	}.conforms(t)
	t.Run("counts no coins that btcwallet does not sign for", func(t *testing.T) {
		if n, err := open(payee).Balance(t.Context()); err != nil || n > 0 {
			t.Errorf("%d sat: %v", n, err)
		}
	})
}
