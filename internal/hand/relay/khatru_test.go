//go:build !race

// These tests use a relay that we did not write: a client and a relay by the same authors may share an error. They do not
// run under the race detector, because khatru has data races, and its library verifies events with code that crashes there.

package relay_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"log"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/eventstore/slicestore"
	"fiatjaf.com/nostr/khatru"

	"guild/internal/hand/relay"
)

// locked makes the library's store in memory safe for several connections.
type locked struct {
	mu sync.Mutex
	slicestore.SliceStore
}

func (l *locked) QueryEvents(f nostr.Filter, limit int) iter.Seq[nostr.Event] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Values(slices.Collect(l.SliceStore.QueryEvents(f, limit)))
}

func (l *locked) SaveEvent(e nostr.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.SliceStore.SaveEvent(e)
}

// foreign starts a khatru relay that answers a filter with at most limit events.
func foreign(t *testing.T, limit int) (*khatru.Relay, *httptest.Server) {
	t.Helper()
	store := &locked{}
	if err := store.Init(); err != nil {
		t.Fatal(err)
	}
	r := khatru.NewRelay()
	r.Log = log.New(io.Discard, "", 0)
	r.UseEventstore(store, limit)
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	return r, srv
}

func websocketURL(srv *httptest.Server) string { return "ws" + strings.TrimPrefix(srv.URL, "http") }

func TestForeignRelay(t *testing.T) {
	_, srv := foreign(t, 150)
	url := websocketURL(srv)
	live := newInbox()
	early, _ := run(t, config(live, url))
	early.Subscribe("notes", notes())
	writer, _ := run(t, config(newInbox(), url))
	all := signed(t, 400)
	for _, e := range append(all, all[0]) { // the last one is a duplicate
		if _, err := writer.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	stored := newInbox()
	late, _ := run(t, config(stored, url))
	late.Subscribe("notes", notes())
	for name, box := range map[string]*inbox{"live": live, "stored": stored} {
		got := contents(box.take(t, len(all)))
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != len(all) {
			t.Errorf("%s: %d distinct events of %d", name, n, len(all))
		}
	}
	found, err := late.Query(t.Context(), notes())
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	if !slices.Equal(contents(found), contents(all[:150])) {
		t.Errorf("a query found %d events, or not the newest first", len(found))
	}
}

func TestForeignRelayCutsSecond(t *testing.T) {
	_, srv := foreign(t, 150)
	url := websocketURL(srv)
	writer, _ := run(t, config(newInbox(), url))
	all := crowd(t, 20, 200, 30)
	for _, e := range all {
		if _, err := writer.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	box := newInbox()
	reader, _ := run(t, config(box, url))
	if _, err := reader.Listen(t.Context(), "notes", notes(), box.receive); err != nil {
		t.Fatal(err)
	}
	got := contents(box.take(t, len(box.events)))
	for i, e := range all {
		if one := e.Event().Content; (i < 20 || i >= 220) && !slices.Contains(got, one) {
			t.Errorf("%s is missing", one)
		}
	}
	if len(got) != 20+150+30 {
		t.Errorf("%d events", len(got))
	}
	if reason := await(t, box.rejects); reason != relay.Unread || reader.Status()[0].Rejected == 0 {
		t.Errorf("counted as %q", reason)
	}
}

func TestForeignRelayReconnect(t *testing.T) {
	_, srv := foreign(t, 500)
	url := websocketURL(srv)
	box := newInbox()
	reader, _ := run(t, config(box, url))
	reader.Subscribe("notes", notes())
	for _, content := range []string{"before", "after"} {
		writer, stop := run(t, config(newInbox(), url))
		if _, err := writer.Publish(t.Context(), sign(t, 1, nostr.Now(), content)); err != nil {
			t.Fatal(err)
		}
		if got := box.take(t, 1)[0].Event().Content; got != content {
			t.Errorf("got %q, want %q", got, content)
		}
		stop()
		srv.CloseClientConnections()
	}
}

func TestForeignRelayAuthentication(t *testing.T) {
	r, srv := foreign(t, 500)
	stranger := func(ctx context.Context) (bool, string) {
		_, known := khatru.GetAuthed(ctx)
		return !known, "auth-required: who are you?"
	}
	r.OnRequest = func(ctx context.Context, _ nostr.Filter) (bool, string) { return stranger(ctx) }
	r.OnEvent = func(ctx context.Context, _ nostr.Event) (bool, string) { return stranger(ctx) }
	url := websocketURL(srv)
	box := newInbox()
	c := config(box, url)
	c.Signer = bob
	member, _ := run(t, c)
	member.Subscribe("notes", notes())
	if _, err := member.Publish(t.Context(), sign(t, 1, nostr.Now(), "for members")); err != nil {
		t.Fatal(err)
	}
	box.take(t, 1)
	without, _ := run(t, config(newInbox(), url))
	_, err := without.Publish(t.Context(), sign(t, 1, nostr.Now(), "stranger"))
	if refused, ok := errors.AsType[*relay.RefusedError](err); !ok || !strings.HasPrefix(refused.Acks[0].Message, "auth-required:") {
		t.Errorf("a stranger: %v", err)
	}
}
