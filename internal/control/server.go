package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/audit"
	"guild/internal/backup"
	"guild/internal/blob"
	"guild/internal/evidence"
	"guild/internal/jobs"
	"guild/internal/journal"
	"guild/internal/judge"
	"guild/internal/meet"
	"guild/internal/partner"
	"guild/internal/policy"
	"guild/internal/record"
	"guild/internal/registry"
	"guild/internal/review"
	"guild/internal/trust"
	"guild/internal/trust/exchange"
	"guild/internal/trust/variables"
	"guild/internal/work"
	"guild/nip89"
)

// ServerConfig says what the server shows.
type ServerConfig struct {
	Journal   *journal.Journal
	Blobs     *blob.Store
	Jobs      *jobs.Jobs // nil when no node runs and its records are only looked at
	Fold      *jobs.Fold
	Registry  *registry.Registry
	Partners  *partner.Partners
	Observed  *partner.Observed
	Trust     *trust.Fold
	Record    *record.Fold
	Evidence  *evidence.Collector
	Judge     *judge.Step // nil when no node runs
	Judging   *judge.Fold
	Meet      *meet.Meet // nil when no node runs
	Meetings  *meet.Fold
	Work      *work.Work // what it offers; nil when no node runs
	Customers *work.Customers

	Learn      *trust.Trust // nil when no node runs
	Variables  *variables.Fold
	Exchange   *exchange.Fold
	Providers  *partner.Fold
	Review     *review.Review // nil when no node runs
	Backup     *backup.Step   // nil when no node runs
	Backups    *backup.Fold
	Audit      *audit.Step
	Mail       *review.Mail // nil when no node runs
	Judgements *work.Judgements
	Policy     policy.Policy              // in force
	Matrix     func() (guild.Hash, error) // hash of what was learned of providers
	// RestoreBackup takes the matrix over from the newest backup at our relays, and counts the messages that were read.
	RestoreBackup func(ctx context.Context, force bool) (backup.Report, int, error)

	PubKey string // hex, of who rules where the criteria ask for a person
	Status func() Status
	Kind   func(task string) int    // NIP-90 kind of requests for a task
	Class  func(task string) string // that the configuration gives a task; none if nil
	Now    func() time.Time
	// Recipient is the age recipient of this node's own key for credentials.
	Recipient func() (string, error)
	Sandbox   func(ctx context.Context) error // why nothing could be judged here; nil when it could
	// Recommend publishes that the owner recommends an announcement for a kind of request beside others; nil when no node
	// runs.
	Recommend func(ctx context.Context, kind int, r nip89.Recommended) (id nostr.ID, others int, err error)

	// Seek asks our relays for what keys announce, before they are hired by name; nobody is asked if nil.
	Seek func(ctx context.Context, keys []nostr.PubKey)

	Log *slog.Logger // slog.Default() if nil
}

// Server answers on the control socket.
type Server struct {
	c       ServerConfig
	mux     *http.ServeMux
	clients atomic.Int64 // requests under way
}

// NewServer returns the handler.
func NewServer(c ServerConfig) *Server {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Server{c: c, mux: http.NewServeMux()}
	for _, e := range s.endpoints() {
		s.mux.HandleFunc(e.muxPattern(), func(w http.ResponseWriter, r *http.Request) { e.serve(s, w, r) })
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, missing("docs/API.md lists the routes", fmt.Errorf("no route %s %.80q", r.Method, r.URL.Path)))
	})
	return s
}

func (s *Server) getStatus(*http.Request) (Status, error) { return s.c.Status(), nil }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.clients.Add(1)
	defer s.clients.Add(-1)
	s.mux.ServeHTTP(w, r)
}

// Clients is the number of requests under way.
func (s *Server) Clients() int { return int(s.clients.Load()) }

// Serve answers on l until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.c.Log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(owners{l}); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return err
	}
	return nil
}

// Listen opens the control socket at path. Its directory exists and is the owner's alone. A socket that a dead
// node left behind is replaced: the caller holds the lock of the node's directory, so no node serves it.
func Listen(path string) (net.Listener, error) {
	if err := unix.Unlink(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &net.OpError{Op: "listen", Net: "unix", Addr: &net.UnixAddr{Name: path}, Err: err}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := unix.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// owners accepts connections of processes of the same user, or of root, and closes all others.
type owners struct{ net.Listener }

// Accept implements net.Listener.
func (o owners) Accept() (net.Conn, error) {
	for {
		conn, err := o.Listener.Accept()
		if err != nil || owns(conn) {
			return conn, err
		}
		conn.Close()
	}
}

func owns(conn net.Conn) bool {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return failed == nil && err == nil && (int(peer.Uid) == unix.Getuid() || peer.Uid == 0)
}
