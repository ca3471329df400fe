package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/control"
	"guild/internal/hand/relay"
	"guild/internal/journal"
)

// once runs a node until it is stopped.
func once(t *testing.T, c Config) (client *control.Client, stop func()) {
	t.Helper()
	c.Socket = socket(t)
	ready := make(chan Ready, 1)
	c.Ready = func(r Ready) { ready <- r }
	stop = run(t, func(ctx context.Context) error { return Run(ctx, c) })
	select {
	case <-ready:
	case <-time.After(ample):
		t.Fatal("the node is not ready")
	}
	return control.Dial(c.Socket), stop
}

// rot changes a byte in the middle of the stream of seen events.
func rot(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "journal/stream/jetstream/$G/streams/SEEN/msgs/1.blk")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnnouncementsComeAgainAfterLoss(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	for range 3 {
		newPeer(t, url).announce()
	}
	var log notes
	c := Config{Dir: t.TempDir(), Identity: identity(), NoSync: true, Relays: []string{url}, Version: "test", Log: log.logger()}
	if err := journal.Init(filepath.Join(c.Dir, "journal")); err != nil {
		t.Fatal(err)
	}
	client, stop := once(t, c)
	awaitProviders(t, client, 3)
	before, err := control.NodeStatus.Call(t.Context(), client)
	if err != nil || before.Journal.Renewed != nil {
		t.Fatalf("got %v, %v, want nothing renewed", before.Journal.Renewed, err)
	}
	stop()
	rot(t, c.Dir)

	inspect, done, err := InspectJournal(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.OneEntry.Call(t.Context(), inspect, "1"); err != nil {
		t.Errorf("the journal of the stopped node: %v", err)
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}

	client, _ = once(t, c)
	awaitProviders(t, client, 3)
	after, err := control.NodeStatus.Call(t.Context(), client)
	if err != nil || len(after.Journal.Renewed) != 1 || !strings.HasSuffix(after.Journal.Renewed[0], "-SEEN") || after.Journal.Last < before.Journal.Last {
		t.Errorf("got %+v, %v, want SEEN renewed and the %d entries of before", after.Journal, err, before.Journal.Last)
	}
	if !strings.Contains(log.String(), "a stream was damaged and is begun anew") {
		t.Errorf("the log does not say it: %s", log.String())
	}
}

func TestWatermarksRewindAfterLoss(t *testing.T) {
	c := Config{Dir: t.TempDir(), Now: func() time.Time { return time.Unix(100*24*60*60, 0) }}
	const recently = 99 * 24 * 60 * 60
	marks, err := relay.OpenWatermarks(watermarksIn(c.Dir))
	if err != nil {
		t.Fatal(err)
	}
	subs := map[string]nostr.Timestamp{ // expected marks
		"inbox": recently, "letters": recently, "open requests": recently, "reviews": 0,
		"announcements at wss://a": 70 * 24 * 60 * 60, "all announcements at wss://a": 70 * 24 * 60 * 60,
	}
	for sub := range subs {
		marks.Set("wss://a", sub, recently)
	}
	marks.Set("wss://b", "announcements at wss://b", 1)
	if err := marks.Close(); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"REJECTED", journal.SeenStream} {
		if err := readAgain(c)(stream); err != nil {
			t.Fatal(err)
		}
		if marks, err = relay.OpenWatermarks(watermarksIn(c.Dir)); err != nil {
			t.Fatal(err)
		}
		for sub, want := range subs {
			if stream != journal.SeenStream {
				want = recently
			}
			if got := marks.Get("wss://a", sub); got != want {
				t.Errorf("after the loss of %s: the mark of %q is %d, want %d", stream, sub, got, want)
			}
		}
	}
	if got := marks.Get("wss://b", "announcements at wss://b"); got != 1 {
		t.Errorf("the older mark is %d, want 1", got)
	}
}
