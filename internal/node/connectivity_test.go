package node

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"guild/internal/hand/relay"
)

func TestSilentRelayIsReported(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // connects, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	url := "ws://" + l.Addr().String()
	pool := relay.New(relay.Config{URLs: []string{url}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	defer runPool(t.Context(), pool)()
	c := &connectivity{pool: pool, urls: []string{url, url}, now: time.Now}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var log bytes.Buffer
	c.warnUnconnected(ctx, slog.New(slog.NewTextHandler(&log, nil)))
	if want := "relay=" + url + ` err="it has not answered yet"`; strings.Count(log.String(), want) != 1 {
		t.Errorf("logged %q, want %s once", log.String(), want)
	}
	if why := c.whyOffline(); !strings.HasSuffix(why, url+": it has not answered yet") {
		t.Errorf("offline: %q", why)
	}
}

func TestConnectedSince(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	tests := []struct {
		name  string
		looks []bool // whether offline, for each second
		jump  time.Duration
		want  time.Time
	}{
		{"before the first update", nil, 0, time.Time{}},
		{"no relay is connected", []bool{true, true}, 0, time.Time{}},
		{"first connection", []bool{true, false, false, false}, 0, at(1)},
		{"connection lost", []bool{false, false, true}, 0, time.Time{}},
		{"connection after an outage", []bool{false, true, true, false, false}, 0, at(3)},
		{"slow update", []bool{false, false}, 20 * time.Second, at(0)},
		{"machine woke up", []bool{false, false}, time.Hour, at(2).Add(time.Hour)},
		{"machine woke up without a relay", []bool{true, true}, time.Hour, time.Time{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			now, woken := noon, 0
			c := &connectivity{now: func() time.Time { return now }, wake: func() { woken++ }}
			for _, offline := range test.looks {
				c.update(now, offline)
				now = now.Add(time.Second)
			}
			now = now.Add(test.jump)
			if got := c.since(); !got.Equal(test.want) {
				t.Errorf("connected since %s, want %s", got, test.want)
			}
			if !test.want.IsZero() && woken == 0 {
				t.Error("wake was not called")
			}
		})
	}
}
