package node

import (
	"cmp"
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
	begin := func() {
		step = activity.New(activity.Config{Journal: n.journal, Now: n.c.Now, Owner: n.name(), Key: nip19.EncodeNpub(n.pubkey)}, f)
	}
	open := func(ctx context.Context) (active, error) {
		begin()
		if n.c.NookDir == "" {
			return active{}, nil
		}
		files := activity.NewFiles(n.c.NookDir, step)
		lock, err := n.lockNook()
		if err != nil {
			return active{}, err
		}
		if lock == nil {
			n.c.Log.Warn("another node has the directory of Nook: this one takes no activity from there; set NOOK_HOME", "dir", n.c.NookDir)
		} else if count, err := files.Import(ctx); err != nil {
			n.c.Log.Warn("the history in the directory of Nook is not imported", "err", err)
		} else if count > 0 {
			n.c.Log.Info("imported the history in the directory of Nook", "events", count)
		}
		run := func(ctx context.Context) (err error) {
			every(ctx, lockAgain, func() bool {
				if lock == nil {
					lock, err = n.lockNook()
				}
				return lock == nil && err == nil
			})
			if lock == nil {
				return err
			}
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return n.listenForActivity(ctx, step) })
			group.Go(func() error { return n.drainSpool(ctx, step) })
			group.Go(func() error { n.exportActivity(ctx, files); return nil })
			return group.Wait()
		}
		last := func(ctx context.Context) error {
			if lock == nil {
				return nil
			}
			err := files.Write(ctx)
			if errors.Is(err, activity.ErrForeign) {
				err = nil // exportActivity has said so
			}
			return errors.Join(err, lock.Close())
		}
		return active{run: run, last: last}, nil
	}
	return part{
		name: "activity", folds: []fold.Fold{f}, open: open,
		inspect: func(context.Context, bool) error { begin(); return nil },
		show:    func(s *control.Parts) { s.Activity = step },
	}
}

// every calls what at once and then after each pause, until it returns false or ctx ends.
func every(ctx context.Context, pause time.Duration, what func() bool) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for what() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lockAgain is the time between two tries to take over the directory of Nook from another node.
const lockAgain = 10 * time.Second

// lockNook makes the directory of Nook and locks it: nodes that shared it would take each other's token, reports and files. It
// returns nil if another node has it.
func (n *Node) lockNook() (*os.File, error) {
	var lock *os.File
	err := os.MkdirAll(n.c.NookDir, 0o700)
	dir, missing := filepath.EvalSymlinks(n.c.NookDir)
	if err = cmp.Or(err, missing); err == nil {
		lock, err = durable.LockDir(dir)
	}
	if err != nil && !errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("nook: %w", err)
	}
	return lock, nil
}

// When the exports are written: after so long without a change, or so long after the first one; and at most a fiftieth of the
// time, since writing takes as long as the history.
const (
	exportQuiet  = 5 * time.Second
	exportLatest = time.Minute
	exportShare  = 50
)

// exportActivity writes the exports after changes.
func (n *Node) exportActivity(ctx context.Context, files *activity.Files) {
	seen, _ := files.Changes()
	latest := time.Now()
	var first, next time.Time
	every(ctx, time.Second, func() bool {
		now := time.Now()
		count, behind := files.Changes()
		if first.IsZero() {
			first = now
		}
		if count != seen {
			seen, latest = count, now
		}
		switch {
		case !behind:
			first = time.Time{}
		case now.Before(next) || now.Sub(latest) < exportQuiet && now.Sub(first) < exportLatest:
		default:
			if err := files.Write(ctx); err != nil && ctx.Err() == nil {
				n.c.Log.Warn("the files of Nook are not written; guild nook export writes them, and replaces what is there", "err", err)
				next = now.Add(time.Hour)
				break
			}
			next, first = now.Add(exportShare*time.Since(now)), time.Time{}
		}
		return true
	})
}

// listenForActivity serves the listener of local programs, and leaves its URL and the token in the directory of Nook.
func (n *Node) listenForActivity(ctx context.Context, step *activity.Step) error {
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
	every(ctx, time.Second, func() bool {
		if _, err := spool.Drain(n.c.Now(), record, refused); err != nil && ctx.Err() == nil {
			n.c.Log.Warn("the spool of hooks cannot be read", "err", err)
		}
		return true
	})
	return nil
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
