package bitcoind

import (
	"errors"
	"strings"
	"testing"

	"guild/internal/hand/bitcoind/bitcoindtest"
)

func TestConformance(t *testing.T) {
	for name, purse := range map[string]func(*bitcoindtest.Chain) *bitcoindtest.Purse{
		"bitcoind": (*bitcoindtest.Chain).Purse, "btcwallet": (*bitcoindtest.Chain).Btcwallet,
	} {
		t.Run(name, func(t *testing.T) {
			chain := bitcoindtest.New()
			payer, payee := purse(chain), purse(chain)
			chain.Fund(payer, 4)
			at, to := payer.Serve(t), payee.Serve(t)
			height := 0
			rig{
				payer: open(t, at), payee: open(t, to), network: "regtest", again: func() *Wallet { return open(t, at) },
				mine:   func(_ *testing.T, blocks int) { chain.Mine(blocks) },
				lock:   func(_ *testing.T, on bool) { payer.Lock(on) },
				before: func(*testing.T) { height = chain.Height() },
				reorg:  func(*testing.T) { chain.Reorganise(height, 2) },
			}.conforms(t)
		})
	}
}

// TestBtcwalletSignsForOldAddresses spends no coins of a btcwallet that it would not sign for, although they are the largest.
func TestBtcwalletSignsForOldAddresses(t *testing.T) {
	chain := bitcoindtest.New()
	payer, payee := chain.Btcwallet(), chain.Purse()
	chain.Fund(payer, 1)
	w := open(t, payer.Serve(t))
	chain.Pay(w.address(t), 5_000_000)
	chain.Mine(1)
	if n, err := w.Balance(t.Context()); err != nil || n != 1_000_000 {
		t.Errorf("it can spend %d: %v", n, err)
	}
	if _, err := w.Prepare(t.Context(), open(t, payee.Serve(t)).address(t), price, mostFee); err != nil {
		t.Error(err)
	}
}

// TestEmptyWalletNamesTheFee says what a wallet without coins needs.
func TestEmptyWalletNamesTheFee(t *testing.T) {
	w := open(t, bitcoindtest.New().Purse().Serve(t))
	_, err := w.Prepare(t.Context(), w.address(t), price, mostFee)
	if !errors.Is(err, ErrFunds) || !strings.HasSuffix(err.Error(), "0 sat, and 50000 and a fee of 2270 are needed") {
		t.Error(err)
	}
}

// TestReceivedAfterSpending lists what was paid to an address whose coins are spent, so that it does not look like a reorganisation.
func TestReceivedAfterSpending(t *testing.T) {
	chain := bitcoindtest.New()
	w := open(t, chain.Purse().Serve(t))
	address := w.address(t)
	chain.Pay(address, 50_000)
	chain.Mine(1)
	o, err := w.Prepare(t.Context(), w.address(t), 40_000, mostFee)
	if err == nil {
		err = w.Send(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	chain.Mine(1)
	if all, err := w.Received(t.Context(), address); err != nil || len(all) != 1 || all[0].Confirmations != 2 || all[0].Satoshis != 50_000 {
		t.Errorf("%+v, %v", all, err)
	}
}

// open returns the wallet of a connection string.
func open(t *testing.T, connection string) *Wallet {
	t.Helper()
	c, err := Parse(connection)
	if err != nil {
		t.Fatal(err)
	}
	return New(c)
}

// address makes an address.
func (w *Wallet) address(t *testing.T) string {
	t.Helper()
	address, err := w.Address(t.Context(), "guild request")
	if err != nil {
		t.Fatal(err)
	}
	return address
}
