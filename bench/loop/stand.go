package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"

	"guild/internal/hand/relayd"
)

const laps = 20 // warm-up laps of each contestant

// stand has the relay and all its users.
type stand struct {
	relay *relayd.Relay
	floor *floor
	pairs []*pair

	stop  context.CancelFunc
	parts sync.WaitGroup
	mu    sync.Mutex
	errs  []error
}

// openStand starts the relay and the two pairs of nodes in dir, for width requests at a time.
func openStand(ctx context.Context, dir string, width int) (*stand, error) {
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &stand{stop: stop}
	var err error
	s.relay, err = relayd.Open(relayd.Config{
		Dir: filepath.Join(dir, "relay"), Addr: "127.0.0.1:0", Now: time.Now, Log: quiet(),
	})
	if err != nil {
		return nil, s.close(err)
	}
	s.run(live, "relay", s.relay.Run)
	for _, noSync := range []bool{true, false} {
		p, err := s.openPair(ctx, live, dir, width, noSync)
		if err != nil {
			return nil, s.close(err)
		}
		s.pairs = append(s.pairs, p)
	}
	return s, nil
}

// run runs a part of the stand. Its label separates the parts in the CPU profile.
func (s *stand) run(ctx context.Context, part string, f func(context.Context) error) {
	s.parts.Go(func() {
		pprof.Do(ctx, pprof.Labels("part", part), func(ctx context.Context) {
			if err := f(ctx); err != nil {
				s.mu.Lock()
				s.errs = append(s.errs, fmt.Errorf("%s: %w", part, err))
				s.mu.Unlock()
			}
		})
	})
}

// close ends all parts and returns err joined with their errors.
func (s *stand) close(err error) error {
	s.stop()
	s.parts.Wait()
	return errors.Join(append([]error{err}, s.errs...)...)
}

// warmUp runs a few laps of each contestant. The floor comes last, because its events must be as large as the loop's.
func (s *stand) warmUp(ctx context.Context) error {
	for _, p := range s.pairs {
		for range laps {
			if _, err := p.lap(ctx); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	request, result := s.pairs[0].watch.sizes()
	floor, err := openFloor(ctx, s.relay.URL(), request, result)
	if err != nil {
		return err
	}
	s.floor = floor
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	end := s.stop
	s.stop = func() { stop(); end() }
	s.run(live, "floor", floor.run)
	for range laps {
		if _, err := floor.lap(ctx); err != nil {
			return err
		}
	}
	return nil
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1}))
}
