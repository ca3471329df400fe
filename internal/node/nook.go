package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"fiatjaf.com/nostr/nip19"
	"golang.org/x/sync/errgroup"

	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/hand/door"
	"guild/internal/hand/hooks"
	"guild/internal/journal/fold"
	"guild/internal/step/activity"
	"guild/nook"
)

// activityPart makes the step that records what agents do. Their events come over the control socket, the listener for
// local programs and the spool.
func (n *Node) activityPart() part {
	f := activity.NewFold()
	var step *activity.Step
	open := func(context.Context) (active, error) {
		step = activity.New(activity.Config{Journal: n.journal, Now: n.c.Now, Owner: n.name(), Key: nip19.EncodeNpub(n.pubkey)}, f)
		if n.c.NookDir == "" {
			return active{}, nil
		}
		run := func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return n.listenForActivity(ctx, step) })
			group.Go(func() error { return n.drainSpool(ctx, step) })
			return group.Wait()
		}
		return active{run: run}, nil
	}
	return part{
		name: "activity", folds: []fold.Fold{f}, open: open,
		inspect: func(context.Context, bool) error {
			step = activity.New(activity.Config{Journal: n.journal, Now: n.c.Now, Owner: n.name(), Key: nip19.EncodeNpub(n.pubkey)}, f)
			return nil
		},
		show: func(s *control.Parts) { s.Activity = step },
	}
}

// listenForActivity serves the listener of local programs, and leaves its URL and the token in the directory of Nook. It
// also takes over what hooks have spooled there.
func (n *Node) listenForActivity(ctx context.Context, step *activity.Step) error {
	if err := os.MkdirAll(n.c.NookDir, 0o700); err != nil {
		return fmt.Errorf("nook: %w", err)
	}
	token, err := n.nookToken()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("nook: %w", err)
	}
	at := filepath.Join(n.c.NookDir, "url")
	if err := durable.WriteBytes(at, []byte("http://"+listener.Addr().String()+"\n")); err != nil {
		listener.Close()
		return fmt.Errorf("nook: %w", err)
	}
	defer os.Remove(at)
	server := &http.Server{
		Handler:           activity.Handler(step, token, door.New(listener.Addr(), nil, nil)),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("nook: %w", err)
	}
	return nil
}

// drainSpool takes over what hooks have spooled, every second.
func (n *Node) drainSpool(ctx context.Context, step *activity.Step) error {
	spool := hooks.Spool{Dir: filepath.Join(n.c.NookDir, "spool")}
	record := func(name string, e nook.Event) error {
		root, err := step.Root(name)
		if err != nil {
			return &nook.FieldError{Field: "rootIdentity", Problem: err.Error()}
		}
		_, err = step.Report(ctx, root, []nook.Event{e})
		return err
	}
	refused := func(file string, why error) { n.c.Log.Warn("a spooled event is refused", "file", file, "err", why) }
	for tick := time.NewTicker(time.Second); ; {
		if _, err := spool.Drain(n.c.Now(), record, refused); err != nil && ctx.Err() == nil {
			n.c.Log.Warn("the spool of hooks cannot be read", "err", err)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// nookToken returns the token of local programs, which is made once.
func (n *Node) nookToken() (string, error) {
	path := filepath.Join(n.c.NookDir, "token")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		b = []byte(rand.Text() + "\n")
		err = durable.WriteBytes(path, b)
	}
	if err != nil {
		return "", fmt.Errorf("nook: the token: %w", err)
	}
	return string(b[:max(0, len(b)-1)]), nil
}
