package scout

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"guild/internal/hand/dial"
	"guild/internal/hand/relay"
)

// TestPrivateAddress checks an announced relay on this machine that the configuration does not name.
func TestPrivateAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached := make(chan struct{})
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
			close(reached)
		}
	}()
	pool := relay.New(relay.Config{Now: time.Now, Log: slog.New(slog.DiscardHandler), Dial: dial.Except(nil)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = pool.Run(ctx) }()
	s, err := Open(Config{Pool: pool, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	url := "ws://" + l.Addr().String()
	s.welcome([]string{url}, time.Now())
	brief, end := context.WithTimeout(ctx, 500*time.Millisecond)
	defer end()
	if _, err := s.read(brief, recentAt(url), url, recent(time.Now())); err == nil {
		t.Error("the relay was read")
	}
	cancel()
	<-done
	select {
	case <-reached:
		t.Error("the relay was connected to")
	default:
	}
}
