package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"guild/internal/durable"
	"guild/internal/hand/bitcoind"
	"guild/internal/step/pay"
)

// bitcoinKeeper keeps the connection to the owner's Bitcoin wallet in a file, with its secret.
type bitcoinKeeper struct {
	path string

	mu     sync.Mutex
	wallet *bitcoind.Wallet // nil without one
}

// openBitcoin reads the connection, if the owner has made one.
func (n *Node) openBitcoin() *bitcoinKeeper {
	b := &bitcoinKeeper{path: filepath.Join(n.c.Dir, "wallet.bitcoin")}
	text, err := os.ReadFile(b.path)
	if err == nil {
		var c bitcoind.Connection
		if c, err = bitcoind.Parse(string(text)); err == nil {
			b.wallet = bitcoind.New(c)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.c.Log.Error("no Bitcoin wallet is used: connect it again with guild wallet add", "file", b.path, "err", err)
	}
	return b
}

// Wallet returns the owner's wallet, or nil.
func (b *bitcoinKeeper) Wallet() *bitcoind.Wallet {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wallet
}

// pays returns the owner's wallet as the step uses it, or nil.
func (b *bitcoinKeeper) pays() pay.Bitcoin {
	if w := b.Wallet(); w != nil {
		return w
	}
	return nil
}

// Connect uses another wallet from now on, once it has answered.
func (b *bitcoinKeeper) Connect(ctx context.Context, connection string) (*bitcoind.Wallet, error) {
	c, err := bitcoind.Parse(connection)
	if err != nil {
		return nil, err
	}
	w := bitcoind.New(c)
	err = w.Check(ctx)
	if err == nil {
		err = durable.WriteBytes(b.path, []byte(connection)) // mode 0600
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	b.replace(w)
	return w, nil
}

// Disconnect forgets the wallet and its secret.
func (b *bitcoinKeeper) Disconnect() error {
	if err := remove(b.path); err != nil {
		return err
	}
	b.replace(nil)
	return nil
}

func (b *bitcoinKeeper) replace(w *bitcoind.Wallet) {
	b.mu.Lock()
	old := b.wallet
	b.wallet = w
	b.mu.Unlock()
	if old != nil {
		old.Close()
	}
}
