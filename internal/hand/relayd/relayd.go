package relayd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild/internal/hand/blossom"
	"guild/internal/hand/dial"
	"guild/internal/hand/door"
)

// Config says where a relay stores and listens, and which clients it allows.
type Config struct {
	Dir  string           // for the events and the blobs
	Addr string           // "127.0.0.1:7447"; port 0 takes a free one
	Now  func() time.Time // for expirations, and to stamp blobs

	Name        string                         // in the NIP-11 document; "guild" if empty
	Hosts       []string                       // values of Host that are allowed beside those of loopback
	Origins     []string                       // browser origins that may use the relay, as "https://example.com"
	MaxEvent    int                            // bytes of one event; 512 KiB if zero
	MaxBlob     int64                          // bytes of one blob; 64 MiB if zero
	MaxStore    int64                          // bytes of all events, and the same of all blobs; 4 GiB if zero
	Upload      func(pubkey nostr.PubKey) bool // which keys may upload blobs; all if nil; called concurrently
	RequireAuth bool                           // only clients that have proved a key (NIP-42) may publish and read
	AllowRemote bool                           // listen on an address that is not loopback; requires TLS
	TLS         *tls.Config                    // serve wss and https
	SyncAlways  bool                           // fsync before every OK instead of once a second
	Log         *slog.Logger                   // slog.Default() if nil
}

// Relay is one relay with its store open and its port bound.
type Relay struct {
	config      Config
	listener    net.Listener
	store       *store
	blobs       *blossom.Server
	feed        feed
	front       door.Door
	connections connections
}

// Open opens the store and binds the port, so that URL is known. Run serves. After Open, Run must be called, even with a
// context that has ended, because it closes the store and the port.
func Open(c Config) (*Relay, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	store, err := openStore(filepath.Join(c.Dir, "events.db"), c)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("relay: %w", err), store.Close())
	}
	r := &Relay{config: c, listener: listener, store: store}
	r.front = door.New(listener.Addr(), c.Hosts, c.Origins)
	r.blobs, err = blossom.Open(blossom.Config{
		Dir: filepath.Join(c.Dir, "blobs"), URL: r.HTTP(), Now: c.Now,
		MaxBlob: c.MaxBlob, MaxStore: c.MaxStore, Upload: c.Upload, Log: c.Log,
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close(), store.Close())
	}
	return r, nil
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "guild")
	c.MaxEvent = cmp.Or(c.MaxEvent, 512<<10)
	c.MaxBlob = cmp.Or(c.MaxBlob, 64<<20)
	c.MaxStore = cmp.Or(c.MaxStore, 4<<30)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// check refuses a configuration that would open the relay to the network by mistake.
func (c Config) check() error {
	if c.Now == nil {
		return errors.New("relay: Config.Now is not set")
	}
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("relay: address: %w", err)
	}
	if !dial.IsLoopback(host) && (!c.AllowRemote || c.TLS == nil) {
		return fmt.Errorf("relay: %q is not a loopback address: listening for others must be allowed and needs TLS", c.Addr)
	}
	return nil
}

// URL returns the relay's address, as "ws://127.0.0.1:7447".
func (r *Relay) URL() string { return r.scheme("ws") + "://" + r.host() }

// HTTP returns the base URL of the blob server, as "http://127.0.0.1:7447".
func (r *Relay) HTTP() string { return r.scheme("http") + "://" + r.host() }

func (r *Relay) scheme(plain string) string {
	if r.config.TLS != nil {
		return plain + "s"
	}
	return plain
}

// host returns the first configured name if the relay listens for others, else its loopback address.
func (r *Relay) host() string {
	if r.config.AllowRemote && len(r.config.Hosts) > 0 {
		return r.config.Hosts[0]
	}
	return r.listener.Addr().String()
}

// Run serves until ctx ends, then closes all connections and, last, the store. It may be called once. The error is nil after
// an orderly end.
func (r *Relay) Run(ctx context.Context) error {
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler:           r.handler(),
		BaseContext:       func(net.Listener) context.Context { return live },
		ConnContext:       keepConn,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(r.config.Log.Handler(), slog.LevelDebug),
	}
	group, groupCtx := errgroup.WithContext(live)
	group.Go(func() error { return r.serve(server) })
	group.Go(func() error { return r.store.keep(groupCtx) })
	group.Go(func() error {
		<-groupCtx.Done()
		cancel() // ends the sessions; Shutdown does not wait for hijacked connections
		return r.stop(server)
	})
	err := group.Wait()
	r.connections.close()
	return errors.Join(err, r.store.Close(), r.blobs.Close())
}

func (r *Relay) serve(server *http.Server) error {
	listener := r.listener
	if r.config.TLS != nil {
		listener = tls.NewListener(listener, r.config.TLS)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("relay: %w", err)
	}
	return nil
}

// stop waits a second for requests under way, then closes their connections.
func (r *Relay) stop(server *http.Server) error {
	patience, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(patience) == nil {
		return nil
	}
	return server.Close()
}
