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
	"guild/internal/evidence"
	"guild/internal/hand/blob"
	"guild/internal/hand/lightning"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/activity"
	"guild/internal/step/agents"
	"guild/internal/step/audit"
	"guild/internal/step/backup"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/internal/step/meet"
	"guild/internal/step/partner"
	"guild/internal/step/pay"
	"guild/internal/step/record"
	"guild/internal/step/review"
	"guild/internal/step/trust"
	"guild/internal/step/trust/exchange"
	"guild/internal/step/trust/variables"
	"guild/internal/step/work"
	"guild/internal/wallet"
	"guild/nip89"
)

// ServerConfig configures a server.
type ServerConfig struct {
	Journal  *journal.Journal
	Blobs    *blob.Store
	Evidence *evidence.Collector
	Policy   policy.Policy // in force
	PubKey   string        // hex, of the person who rules if the criteria ask for one
	Now      func() time.Time

	Node  // knows what no step knows
	Parts // of the steps, as far as they are shown

	Log *slog.Logger // slog.Default() if nil
}

// Node is the node that the server belongs to. Only a running one is asked for Status, Pending, Sandbox, Judgeable, Recipient, Seek, Recommend
// and RestoreBackup.
type Node interface {
	Status() Status
	Offline() string                   // why none of our relays is connected; "" if one is
	Pending(guard fact.Subject) string // an effect that is due under a guard, now or later; "" without any
	Kind(task string) int              // NIP-90 kind of requests for a task
	Class(task string) string          // that the configuration gives a task; "" for none
	Matrix() (guild.Hash, error)       // hash of everything that was learned of providers
	Sandbox(ctx context.Context) error // why nothing can be judged here; nil if it can

	// Judgeable says why no delivery for a packed bundle could be judged here: its criteria, or a tool that is missing.
	Judgeable(ctx context.Context, packed []byte) error
	Recipient() (string, error) // age recipient of the node's own key for credentials

	// Seek asks our relays for the announcements of keys, before they are hired by name.
	Seek(ctx context.Context, keys []nostr.PubKey)
	// Recommend publishes that the owner recommends an announcement for a kind of request, beside others, which it counts.
	Recommend(ctx context.Context, kind int, r nip89.Recommended) (id nostr.ID, others int, err error)
	// RestoreBackup restores the matrix from the newest backup at our relays, and counts the messages that were read.
	RestoreBackup(ctx context.Context, force bool) (report backup.Report, read int, err error)
}

// Parts are the steps with their folds. A step, unlike its fold, is nil when no node runs, but for Registry, Partners,
// Review and Audit. Each part of the node sets its own.
type Parts struct {
	Jobs       *jobs.Jobs
	Fold       *jobs.Fold
	Registry   *registry.Registry
	Partners   *partner.Partners
	Observed   *partner.Observed
	Providers  *partner.Fold
	Judge      *judge.Step
	Judging    *judge.Fold
	Record     *record.Fold
	Learn      *trust.Trust
	Trust      *trust.Fold
	Variables  *variables.Fold
	Exchange   *exchange.Step
	Meet       *meet.Meet
	Meetings   *meet.Fold
	Work       *work.Work
	Customers  *work.Customers
	Judgements *work.Judgements
	Review     *review.Review
	Mail       *review.Mail
	Backup     *backup.Step
	Backups    *backup.Fold
	Audit      *audit.Step
	Activity   *activity.Step
	Agents     *agents.Step
	Wallet     *wallet.Wallet
	Pay        *pay.Pay
	Payments   *pay.Fold
	Lightning  Lightning
	Bitcoin    Bitcoin
}

// Lightning keeps the connection to the owner's Lightning wallet.
type Lightning interface {
	// Wallet returns it, or nil.
	Wallet() lightning.Wallet
	// Connect uses another one, once it has answered.
	Connect(ctx context.Context, connection string) (lightning.Wallet, error)
	// Disconnect forgets it.
	Disconnect() error
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
		fail(w, missing("guild help api lists the routes", fmt.Errorf("no route %s %.80q", r.Method, r.URL.Path)))
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

// Clients returns the number of requests under way.
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
	var uid int
	failed := raw.Control(func(fd uintptr) { uid, err = peerOf(int(fd)) })
	return failed == nil && err == nil && (uid == unix.Getuid() || uid == 0)
}
