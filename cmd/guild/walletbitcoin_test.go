package main

import (
	"strings"
	"testing"

	"guild/internal/control"
)

// TestBalanceOfBitcoinWallet shows coins in sat, and does not call a wallet empty that has some.
func TestBalanceOfBitcoinWallet(t *testing.T) {
	var out, said strings.Builder
	p := &program{out: &out, err: &said}
	if err := p.showMoney(control.Money{Bitcoin: &control.BitcoinWallet{Network: "main", Balance: 5_000_000, Confirmations: 3}}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "Bitcoin: main, with 5000 sat to spend\n\n" || said.String() != "nothing was paid or earned yet\n" {
		t.Errorf("%q, %q", out.String(), said.String())
	}
	said.Reset()
	if err := p.showMoney(control.Money{}); err != nil || said.String() != "nothing is in the wallet yet: guild wallet add --help\n" {
		t.Errorf("%q, %v", said.String(), err)
	}
}
