package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"guild/internal/journal/fact"
)

// The streams, and the first word of their subjects.
const (
	factsStream    = "FACTS"
	seenStream     = "SEEN"
	rejectedStream = "REJECTED"

	factsPrefix    = "fact."
	seenPrefix     = "seen."
	rejectedPrefix = "rejected."
)

// linger is the time that the server's writers of streams without fsync may still need after it has shut down: it does not
// wait for them (nats-server 2.15: 8 ms).
const linger = 10 * time.Millisecond

const (
	startTimeout = time.Minute      // for the server to recover its streams, and to answer; a busy machine is slow, not broken
	storeLimit   = 1 << 50          // bytes; the disk is the real limit, and space watches that
	memoryLimit  = 16 << 20         // bytes; no stream is kept in memory
	seldom       = 30 * time.Minute // between syncs of all streams if Options.NoSync
)

// store is a running server and the connection to it.
type store struct {
	srv   *server.Server
	conn  *nats.Conn
	js    jetstream.JetStream
	facts jetstream.Stream
	keys  *keys // that decrypt entries; nil if they stay encrypted
}

// startStore starts the server on a directory.
func startStore(ctx context.Context, o Options, dir string) (*store, error) {
	srv, err := server.NewServer(serverOptions(o, dir))
	if err != nil {
		return nil, fmt.Errorf("journal server: %w", err)
	}
	srv.SetLoggerV2(serverLog{o.Log.With("part", "journal server")}, false, false, false)
	srv.Start()
	s := &store{srv: srv}
	if err := s.connect(ctx); err != nil {
		s.stop()
		return nil, fmt.Errorf("journal server: %w", err)
	}
	return s, nil
}

// serverOptions lets the server open no port: whoever reached it could append, delete and purge.
func serverOptions(o Options, dir string) *server.Options {
	opts := &server.Options{
		ServerName:             "guild",
		DontListen:             true,
		JetStream:              true,
		StoreDir:               dir,
		SyncAlways:             !o.NoSync,
		JetStreamMaxStore:      storeLimit,
		JetStreamMaxMemory:     memoryLimit,
		DisableJetStreamBanner: true,
		NoSigs:                 true,
		MaxPayload:             1 << 20,
	}
	if o.NoSync {
		opts.SyncInterval = seldom
	}
	return opts
}

// connect connects to the server inside the process.
func (s *store) connect(ctx context.Context) error {
	if !s.srv.ReadyForConnections(startTimeout) {
		return errors.New("did not start")
	}
	if !s.srv.JetStreamEnabled() {
		return errors.New("cannot use its directory")
	}
	conn, err := nats.Connect("", nats.InProcessServer(s.srv), nats.NoReconnect(), nats.Timeout(startTimeout))
	if err != nil {
		return err
	}
	s.conn = conn
	s.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(startTimeout))
	if err != nil {
		return err
	}
	return ctx.Err()
}

// stop ends the connection and the server, and waits until nothing writes any more.
func (s *store) stop() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	time.Sleep(linger)
}

// bind finds the streams. It makes FACTS only if made is false, with first as the first sequence. The side streams it makes
// whenever they are missing.
func (s *store) bind(ctx context.Context, made bool, first uint64) (err error) {
	if made {
		s.facts, err = s.existing(ctx)
	} else {
		s.facts, err = s.js.CreateStream(ctx, factsConfig(first))
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return damaged("its stream of facts is gone")
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", factsStream, err)
	}
	for _, cfg := range sideStreams() {
		if err := s.ensure(ctx, cfg); err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	return nil
}

// existing finds the stream of facts. An older program has made it for smaller entries; on a full disk that stays so.
func (s *store) existing(ctx context.Context) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, factsStream)
	if err != nil {
		return nil, err
	}
	if cfg := stream.CachedInfo().Config; cfg.MaxMsgSize < maxStored {
		cfg.MaxMsgSize = maxStored
		if larger, err := s.js.UpdateStream(ctx, cfg); err == nil {
			return larger, nil
		}
	}
	return stream, nil
}

// ensure makes a stream if it is not there, and gives it new limits if these changed. On a full disk that is
// not touched which can stay.
func (s *store) ensure(ctx context.Context, cfg jetstream.StreamConfig) error {
	stream, err := s.js.Stream(ctx, cfg.Name)
	if err == nil {
		is := stream.CachedInfo().Config
		if is.MaxBytes == cfg.MaxBytes && (is.MaxMsgs == cfg.MaxMsgs || cfg.MaxMsgs == 0) {
			return nil
		}
	}
	if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = s.js.CreateOrUpdateStream(ctx, cfg)
	}
	return err
}

// factsConfig returns the configuration of the stream of decisions. No entry is ever deleted from it. Archived ones are
// purged, so DenyPurge is not set: the server never lifts it again.
func factsConfig(first uint64) jetstream.StreamConfig {
	if first == 1 {
		first = 0 // 1 would make the server purge the empty stream
	}
	return jetstream.StreamConfig{
		Name:              factsStream,
		Subjects:          []string{factsPrefix + ">"},
		Storage:           jetstream.FileStorage,
		DenyDelete:        true,
		AllowDirect:       true,
		FirstSeq:          first,
		MaxMsgSize:        maxStored,
		MaxMsgsPerSubject: -1,
	}
}

// maxStored is the size limit of a message with an entry: in base64 an encrypted one is larger by a third.
const maxStored = fact.MaxEntry*4/3 + 4<<10

// sideStreams returns the configurations of the streams that others can fill: each has a limit, and no fsync.
func sideStreams() []jetstream.StreamConfig {
	limited := func(name, prefix string, size int64) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name:        name,
			Subjects:    []string{prefix + ">"},
			Storage:     jetstream.FileStorage,
			Discard:     jetstream.DiscardOld,
			MaxBytes:    size,
			AllowDirect: true,
			PersistMode: jetstream.AsyncPersistMode,
		}
	}
	seen := limited(seenStream, seenPrefix, 512<<20)
	seen.MaxMsgsPerSubject = 1
	rejected := limited(rejectedStream, rejectedPrefix, 8<<20)
	rejected.MaxMsgs = 1000
	return []jetstream.StreamConfig{seen, rejected}
}

// serverLog passes on the server's log, at lower levels. Its warnings are no concern of a user: it says, for instance, that a
// file of state is outdated after a crash, and makes it again.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l serverLog) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l serverLog) Tracef(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l serverLog) Warnf(format string, v ...any)   { l.write(slog.LevelInfo, format, v) }
func (l serverLog) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l serverLog) Fatalf(format string, v ...any)  { l.write(slog.LevelError, format, v) }

func (l serverLog) write(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, strings.TrimSpace(fmt.Sprintf(format, v...)))
	}
}
