package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"guild/internal/durable"
	"guild/internal/hand/lightning"
	"guild/internal/hand/lnd"
	"guild/internal/hand/nwc"
	"guild/internal/hand/relay"
)

// lightningKeeper keeps the connection to the owner's Lightning wallet in a file, with its secret.
type lightningKeeper struct {
	path    string
	earlier string // the file of earlier versions, which knew wallets of NIP-47 only
	pool    *relay.Pool
	now     func() time.Time

	mu     sync.Mutex
	wallet lightning.Wallet // nil without one
}

// openLightning reads the connection, if the owner has made one.
func (n *Node) openLightning() *lightningKeeper {
	l := &lightningKeeper{
		path: filepath.Join(n.c.Dir, "wallet.lightning"), earlier: filepath.Join(n.c.Dir, "wallet.nwc"), pool: n.pool, now: n.c.Now,
	}
	text, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(l.earlier)
	}
	if err == nil {
		l.wallet, err = l.connect(string(text))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // escrows need no Lightning
		n.c.Log.Error("no Lightning wallet is used: connect it again with guild wallet add", "file", l.path, "err", err)
	}
	return l
}

// connect returns the wallet of a connection, whose scheme says of which kind it is.
func (l *lightningKeeper) connect(text string) (lightning.Wallet, error) {
	if strings.HasPrefix(strings.TrimSpace(text), lnd.Scheme) {
		c, err := lnd.Parse(text)
		if err != nil {
			return nil, err
		}
		return lnd.New(lnd.Config{Connection: c, Now: l.now}), nil
	}
	c, err := nwc.Parse(text)
	if err != nil {
		return nil, err
	}
	return nwc.New(nwc.Config{Pool: l.pool, Connection: c, Now: l.now}), nil
}

// Wallet returns the owner's wallet, or nil.
func (l *lightningKeeper) Wallet() lightning.Wallet {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wallet
}

// Connect uses another wallet from now on, once it has answered.
func (l *lightningKeeper) Connect(ctx context.Context, connection string) (lightning.Wallet, error) {
	w, err := l.connect(connection)
	if err != nil {
		return nil, err
	}
	err = w.Check(ctx)
	if err == nil {
		err = durable.WriteBytes(l.path, []byte(connection)) // mode 0600
	}
	if err == nil {
		err = remove(l.earlier)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	l.replace(w)
	return w, nil
}

// Disconnect forgets the wallet and its secret.
func (l *lightningKeeper) Disconnect() error {
	if err := errors.Join(remove(l.path), remove(l.earlier)); err != nil {
		return err
	}
	l.replace(nil)
	return nil
}

// remove removes a file, if it is there.
func remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (l *lightningKeeper) replace(w lightning.Wallet) {
	l.mu.Lock()
	old := l.wallet
	l.wallet = w
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
}
