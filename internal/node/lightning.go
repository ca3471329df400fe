package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"guild/internal/durable"
	"guild/internal/hand/nwc"
	"guild/internal/hand/relay"
	"guild/internal/step/pay"
)

// lightning keeps the connection to the owner's Lightning wallet in a file, with its secret.
type lightning struct {
	path string
	pool *relay.Pool
	now  func() time.Time

	mu     sync.Mutex
	wallet *nwc.Wallet // nil without one
}

// openLightning reads the connection, if the owner has made one.
func (n *Node) openLightning() *lightning {
	l := &lightning{path: filepath.Join(n.c.Dir, "wallet.nwc"), pool: n.pool, now: n.c.Now}
	text, err := os.ReadFile(l.path)
	if err == nil {
		l.wallet, err = l.connect(string(text))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // escrows need no Lightning
		n.c.Log.Error("no Lightning wallet is used: make a connection again with guild wallet add nwc", "file", l.path, "err", err)
	}
	return l
}

func (l *lightning) connect(text string) (*nwc.Wallet, error) {
	c, err := nwc.Parse(text)
	if err != nil {
		return nil, err
	}
	return nwc.New(nwc.Config{Pool: l.pool, Connection: c, Now: l.now}), nil
}

// Wallet returns the owner's wallet, or nil.
func (l *lightning) Wallet() *nwc.Wallet {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wallet
}

// payer returns the owner's wallet for the step that pays, or nil.
func (l *lightning) payer() pay.Lightning {
	if w := l.Wallet(); w != nil {
		return w
	}
	return nil
}

// Connect uses another wallet from now on, once it has answered.
func (l *lightning) Connect(ctx context.Context, connection string) (*nwc.Wallet, error) {
	w, err := l.connect(connection)
	if err != nil {
		return nil, err
	}
	info, err := w.Info(ctx)
	if err == nil {
		err = sufficient(info)
	}
	if err == nil {
		err = durable.WriteBytes(l.path, []byte(connection)) // mode 0600
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	l.replace(w)
	return w, nil
}

// sufficient returns an error if a wallet cannot do what paying and being paid need.
func sufficient(info nwc.Info) error {
	for _, method := range []string{"pay_invoice", "make_invoice", "lookup_invoice"} {
		if !slices.Contains(info.Methods, method) {
			return fmt.Errorf("the wallet does not allow this connection to call %s", method)
		}
	}
	return nil
}

// Disconnect forgets the wallet and its secret.
func (l *lightning) Disconnect() error {
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.replace(nil)
	return nil
}

func (l *lightning) replace(w *nwc.Wallet) {
	l.mu.Lock()
	old := l.wallet
	l.wallet = w
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
}
