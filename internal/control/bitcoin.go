package control

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"guild/internal/hand/bitcoind"
)

// BitcoinWallet describes the owner's Bitcoin wallet, as it says: the answer to POST /v1/wallet/bitcoin.
type BitcoinWallet struct {
	Network       string `json:"network"`
	Balance       int64  `json:"balance_msat"`     // that is confirmed and can be spent
	Confirmations int    `json:"confirmations"`    // that a payment to us needs
	Reason        string `json:"reason,omitempty"` // why it does not answer
}

// BitcoinConnection is the body of POST /v1/wallet/bitcoin.
type BitcoinConnection struct {
	Connection string `json:"connection"` // bitcoind://…; the wallet is forgotten when absent
}

// Bitcoin keeps the connection to the owner's Bitcoin wallet.
type Bitcoin interface {
	// Wallet returns it, or nil.
	Wallet() *bitcoind.Wallet
	// Connect uses another one, once it has answered.
	Connect(ctx context.Context, connection string) (*bitcoind.Wallet, error)
	// Disconnect forgets it.
	Disconnect() error
}

// describeBitcoin asks a wallet about itself.
func describeBitcoin(ctx context.Context, w *bitcoind.Wallet) (shown BitcoinWallet, err error) {
	shown.Confirmations = w.Confirmations()
	if shown.Network, err = w.Network(ctx); err == nil {
		shown.Balance, err = w.Balance(ctx)
		shown.Balance *= 1000
	}
	return shown, err
}

// bitcoin describes the owner's wallet in the answer about money; nil without one.
func (s *Server) bitcoin(r *http.Request) *BitcoinWallet {
	w := s.c.Bitcoin.Wallet()
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), lightningWait)
	defer cancel()
	shown, err := describeBitcoin(ctx, w)
	if err != nil {
		shown.Reason = err.Error()
	}
	return &shown
}

func (s *Server) postBitcoin(r *http.Request, given BitcoinConnection) (BitcoinWallet, error) {
	given.Connection = strings.TrimSpace(given.Connection)
	var c bitcoind.Connection // none forgets the wallet
	if given.Connection != "" {
		var err error
		if c, err = bitcoind.Parse(given.Connection); err != nil {
			return BitcoinWallet{}, wrongUsage("guild wallet add bitcoind --help", err)
		}
	}
	if w := s.c.Bitcoin.Wallet(); w != nil && !w.Reaches(c) && s.c.Payments.OnChain() { // another one would not know what became of it
		return BitcoinWallet{}, refused("guild wallet balance and owed show it; an address that was quoted is watched until the deadline",
			errors.New("a payment is open with the wallet that is connected now"))
	}
	if given.Connection == "" {
		return BitcoinWallet{}, s.c.Bitcoin.Disconnect()
	}
	ctx, cancel := context.WithTimeout(r.Context(), mintWait)
	defer cancel()
	w, err := s.c.Bitcoin.Connect(ctx, given.Connection)
	if err != nil {
		return BitcoinWallet{}, &refusal{error: err, status: http.StatusBadGateway, code: "bitcoin", hint: "are the address and the password right, and has bitcoind loaded the wallet?"}
	}
	return describeBitcoin(ctx, w)
}
