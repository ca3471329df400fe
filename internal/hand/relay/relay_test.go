package relay_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
)

func TestPublishAndSubscribe(t *testing.T) {
	url := honest(t)
	box := newInbox()
	reader, _ := run(t, config(box, url))
	reader.Subscribe("notes", notes())
	writer, _ := run(t, config(newInbox(), url))
	e := sign(t, 1, nostr.Now(), "hello")
	acks, err := writer.Publish(t.Context(), e)
	if err != nil || len(acks) != 1 || !acks[0].OK || acks[0].URL != url {
		t.Fatalf("acks %v, err %v", acks, err)
	}
	if got := box.take(t, 1)[0].Event().ID; got != e.Event().ID {
		t.Errorf("received %v", got)
	}
}

func TestDuplicateIsOK(t *testing.T) {
	url := honest(t)
	p, _ := run(t, config(newInbox(), url))
	e := sign(t, 1, nostr.Now(), "twice")
	for range 2 {
		if _, err := p.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func TestQueryNewestFirst(t *testing.T) {
	url := honest(t)
	p, _ := run(t, config(newInbox(), url))
	all := signed(t, 20)
	for _, e := range all {
		if _, err := p.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := p.Query(t.Context(), notes())
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	if !slices.Equal(contents(got), contents(all)) {
		t.Errorf("got %v", contents(got))
	}
}

func TestQueriedEventIsDelivered(t *testing.T) {
	url := honest(t)
	box := newInbox()
	p, _ := run(t, config(box, url))
	e := sign(t, 1, nostr.Now(), "asked first")
	if _, err := p.Publish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Query(t.Context(), notes()); err != nil || len(got) != 1 {
		t.Fatalf("got %v, err %v", got, err)
	}
	p.Subscribe("notes", notes())
	box.take(t, 1)
	if got, err := p.Query(t.Context(), notes()); err != nil || len(got) != 1 {
		t.Errorf("after delivery: got %v, err %v", got, err)
	}
}

func TestManyPages(t *testing.T) {
	url := honest(t)
	writer, _ := run(t, config(newInbox(), url))
	all := signed(t, 700)
	for _, e := range all {
		if _, err := writer.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	box := newInbox()
	reader, _ := run(t, config(box, url))
	reader.Subscribe("notes", notes())
	got := contents(box.take(t, len(all)))
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != len(all) {
		t.Errorf("%d distinct events of %d", n, len(all))
	}
}

// crowd makes events, several for each second. The last second is now.
func crowd(t testing.TB, seconds ...int) (all []guild.Verified) {
	now := nostr.Now()
	for back, n := range seconds {
		for range n {
			all = append(all, sign(t, 1, now-nostr.Timestamp(len(seconds)-1-back), fmt.Sprint("note ", len(all))))
		}
	}
	return all
}

func TestCrowdedSeconds(t *testing.T) {
	url := honest(t)
	writer, _ := run(t, config(newInbox(), url))
	all := crowd(t, 3, 1200, 501, 1)
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
	if n := len(box.events); n != len(all) || len(box.rejects) != 0 {
		t.Errorf("%d events of %d, %d complaints", n, len(all), len(box.rejects))
	}
}

func TestLimitOverPages(t *testing.T) {
	url := honest(t)
	writer, _ := run(t, config(newInbox(), url))
	all := signed(t, 800)
	for _, e := range all {
		if _, err := writer.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	box := newInbox()
	reader, _ := run(t, config(box, url))
	const limit = 600
	if _, err := reader.Listen(t.Context(), "notes", []nostr.Filter{{Kinds: []nostr.Kind{1}, Limit: limit}}, box.receive); err != nil {
		t.Fatal(err)
	}
	if n := len(box.events); n < limit-2 || n > limit {
		t.Errorf("%d events, want the latest %d", n, limit)
	}
}

func TestEventOfTwoRelays(t *testing.T) {
	one := honest(t)
	two := honest(t)
	box := newInbox()
	reader, stop := run(t, config(box, one, two))
	reader.Subscribe("notes", notes())
	writer, _ := run(t, config(newInbox()))
	all := signed(t, 50)
	for _, e := range all {
		if acks, err := writer.Publish(t.Context(), e, one, two); err != nil || len(acks) != 2 {
			t.Fatalf("acks %v, err %v", acks, err)
		}
	}
	last := sign(t, 1, nostr.Now(), "last")
	if _, err := writer.Publish(t.Context(), last, one, two); err != nil {
		t.Fatal(err)
	}
	box.take(t, len(all)+1)
	stop()
	if len(box.events) != 0 {
		t.Errorf("%d events came twice", len(box.events))
	}
}

func TestReconnectReadsMissedEvents(t *testing.T) {
	c := relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0"}
	url, stop := honestAt(t, c)
	box := newInbox()
	var at atomic.Pointer[string] // where the reader finds the relay: its port may be another's when it is back
	at.Store(&url)
	subscriber := config(box, url)
	subscriber.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(*at.Load(), "ws://"))
	}
	reader, _ := run(t, subscriber)
	reader.Subscribe("notes", notes())
	writer, _ := run(t, config(newInbox()))
	publish := func(url, content string) {
		if _, err := writer.Publish(t.Context(), sign(t, 1, nostr.Now(), content), url); err != nil {
			t.Fatal(err)
		}
	}
	publish(url, "before")
	box.take(t, 1)
	stop()
	elsewhere, stop := honestAt(t, c) // the same relay, where the reader does not look for it
	publish(elsewhere, "between")
	stop()
	c.Hosts = []string{strings.TrimPrefix(url, "ws://")}
	back, _ := honestAt(t, c)
	at.Store(&back)
	if got := box.take(t, 1)[0].Event().Content; got != "between" {
		t.Errorf("got %q", got)
	}
}

// guarded starts a relay that demands authentication for reading and writing.
func guarded(t *testing.T) string {
	t.Helper()
	url, _ := honestAt(t, relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", RequireAuth: true})
	return url
}

func TestAuthenticationOnDemand(t *testing.T) {
	url := guarded(t)
	box := newInbox()
	c := config(box, url)
	c.Signer = bob
	reader, _ := run(t, c)
	reader.Subscribe("notes", notes())
	c = config(newInbox(), url)
	c.Signer = alice
	writer, _ := run(t, c)
	if _, err := writer.Publish(t.Context(), sign(t, 1, nostr.Now(), "for members")); err != nil {
		t.Fatal(err)
	}
	box.take(t, 1)
	if got, err := reader.Query(t.Context(), notes()); err != nil || len(got) != 1 {
		t.Errorf("query: %v, %v", got, err)
	}
}

// What a relay refuses until it knows who asks is no error of that relay.
func TestNoErrorAfterAuthentication(t *testing.T) {
	c := config(newInbox(), guarded(t))
	c.Signer = bob
	reader, _ := run(t, c)
	if _, err := reader.Listen(t.Context(), "notes", notes(), newInbox().receive); err != nil {
		t.Fatal(err)
	}
	if s := reader.Status()[0]; !s.Connected || s.LastError != "" {
		t.Errorf("%+v", s)
	}
}

func TestAuthenticationWithoutKey(t *testing.T) {
	url := guarded(t)
	p, _ := run(t, config(newInbox(), url))
	_, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "stranger"))
	refused, ok := errors.AsType[*relay.RefusedError](err)
	if !ok || len(refused.Acks) != 1 || !strings.HasPrefix(refused.Acks[0].Message, "auth-required:") {
		t.Errorf("got %v", err)
	}
	if _, err := p.Query(t.Context(), notes()); err == nil {
		t.Error("the query was answered")
	}
}

func TestPublishErrors(t *testing.T) {
	e := sign(t, 1, nostr.Now(), "hello?")
	p, stop := run(t, config(newInbox()))
	tests := []struct {
		name string
		urls []string
	}{
		{"no relay is known", nil},
		{"a closed port", []string{"ws://127.0.0.1:1"}},
		{"not a relay's URL", []string{"https://example.com"}},
		{"plain to another machine", []string{"ws://example.com"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			acks, err := p.Publish(t.Context(), e, test.urls...)
			if !errors.Is(err, relay.ErrNoRelay) || len(acks) != len(test.urls) {
				t.Errorf("acks %v, err %v", acks, err)
			}
		})
	}
	stop()
	if _, err := p.Publish(t.Context(), e, "ws://127.0.0.1:1"); !errors.Is(err, relay.ErrNoRelay) {
		t.Errorf("after the end: %v", err)
	}
}

func TestOneRelayIsEnough(t *testing.T) {
	good := honest(t)
	bad := hostile(t, func(p peer) {
		for m := p.next(); m != nil; m = p.next() {
			p.say(`["OK","` + eventID(m[1]) + `",false,"blocked: not here"]`)
		}
	})
	p, _ := run(t, config(newInbox(), good, bad))
	acks, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "hello"))
	if err != nil || len(acks) != 2 {
		t.Errorf("acks %v, err %v", acks, err)
	}
	_, err = p.Publish(t.Context(), sign(t, 1, nostr.Now(), "hello"), bad)
	if refused, ok := errors.AsType[*relay.RefusedError](err); !ok || refused.Acks[0].Message != "blocked: not here" {
		t.Errorf("got %v", err)
	}
}

func TestSubscriptionIsReplaced(t *testing.T) {
	url := honest(t)
	box := newInbox()
	reader, _ := run(t, config(box, url))
	reader.Subscribe("mine", notes())
	writer, _ := run(t, config(newInbox(), url))
	publish := func(kind nostr.Kind, content string) {
		if _, err := writer.Publish(t.Context(), sign(t, kind, nostr.Now(), content)); err != nil {
			t.Fatal(err)
		}
	}
	publish(1, "first")
	box.take(t, 1)
	cancel := reader.Subscribe("mine", []nostr.Filter{{Kinds: []nostr.Kind{7}}})
	publish(7, "second")
	box.take(t, 1)
	publish(1, "third")
	publish(7, "fourth")
	if got := box.take(t, 1)[0].Event().Content; got != "fourth" {
		t.Errorf("got %q", got)
	}
	cancel()
	cancel()
}

func TestSubscriptionAtOneRelay(t *testing.T) {
	one := honest(t)
	two := honest(t)
	box := newInbox()
	reader, _ := run(t, config(box, one))
	cancel := reader.Subscribe("there", notes(), two)
	writer, _ := run(t, config(newInbox()))
	for url, content := range map[string]string{one: "here", two: "there"} {
		if _, err := writer.Publish(t.Context(), sign(t, 1, nostr.Now(), content), url); err != nil {
			t.Fatal(err)
		}
	}
	if got := box.take(t, 1)[0].Event().Content; got != "there" {
		t.Errorf("got %q", got)
	}
	if n := len(reader.Status()); n != 2 {
		t.Errorf("%d relays", n)
	}
	cancel()
}

func TestSubscriptionWithoutValidRelay(t *testing.T) {
	url := honest(t)
	box := newInbox()
	p, stop := run(t, config(box, url))
	p.Subscribe("there", notes(), "https://example.com")
	p.Subscribe("here", []nostr.Filter{{Kinds: []nostr.Kind{7}}})
	for _, kind := range []nostr.Kind{1, 7} {
		if _, err := p.Publish(t.Context(), sign(t, kind, nostr.Now(), "hello")); err != nil {
			t.Fatal(err)
		}
	}
	if got := box.take(t, 1)[0].Event().Kind; got != 7 {
		t.Errorf("kind %d came through", got)
	}
	stop()
	if len(box.events) != 0 {
		t.Error("a second event came")
	}
}

func TestListenAndReceive(t *testing.T) {
	url := honest(t)
	box, own := newInbox(), newInbox()
	p, _ := run(t, config(box, url))
	for range 20 {
		cancel, err := p.Listen(t.Context(), "live", []nostr.Filter{{Kinds: []nostr.Kind{20001}}}, own.receive, url)
		if err != nil {
			t.Fatal(err)
		}
		e := sign(t, 20001, nostr.Now(), rand.Text()) // not stored: heard now or never
		if _, err := p.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if got := own.take(t, 1)[0].Event().ID; got != e.Event().ID {
			t.Errorf("received %v", got)
		}
		cancel()
	}
	if len(box.events) != 0 {
		t.Error("the pool's receiver got some")
	}
}

func TestListenErrors(t *testing.T) {
	p, stop := run(t, config(newInbox()))
	listen := func(url string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := p.Listen(ctx, "live", notes(), newInbox().receive, url)
		return err
	}
	if err := listen("https://example.com"); err == nil {
		t.Error("not a relay's URL: no error")
	}
	for name, url := range map[string]string{
		"a closed port":    "ws://127.0.0.1:1",
		"it never answers": hostile(t, func(p peer) { p.drain() }),
	} {
		if err := listen(url); !errors.Is(err, relay.ErrNoRelay) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stop()
	if err := listen("ws://127.0.0.1:1"); !errors.Is(err, relay.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestReceiveMayPublishAndQuery(t *testing.T) {
	url := honest(t)
	var p *relay.Pool
	ready := make(chan struct{})
	answered := make(chan error, 1)
	c := config(newInbox(), url)
	c.Receive = func(ctx context.Context, from string, e guild.Verified) {
		<-ready
		_, err := p.Publish(ctx, sign(t, 7, nostr.Now(), "answer"), from)
		if err == nil {
			_, err = p.Query(ctx, notes(), from)
		}
		answered <- err
	}
	p, _ = run(t, c)
	close(ready)
	p.Subscribe("notes", notes())
	writer, _ := run(t, config(newInbox(), url))
	if _, err := writer.Publish(t.Context(), sign(t, 1, nostr.Now(), "question")); err != nil {
		t.Fatal(err)
	}
	if err := await(t, answered); err != nil {
		t.Error(err)
	}
}

func TestRunEndsAllGoroutines(t *testing.T) {
	url := honest(t)
	deaf := hostile(t, func(p peer) { p.drain() })
	p, stop := run(t, config(newInbox(), url, deaf, "ws://127.0.0.1:1"))
	p.Subscribe("notes", notes())
	p.Publish(t.Context(), sign(t, 1, nostr.Now(), "hello"), url)
	stop()
	buf := make([]byte, 1<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	for _, s := range stacks {
		if strings.Contains(s, "internal/hand/relay.(") {
			t.Errorf("still there:\n%s", s)
		}
	}
	if err := p.Run(t.Context()); err == nil {
		t.Error("ran twice")
	}
}

func TestStatusOfRelays(t *testing.T) {
	url := honest(t)
	box := newInbox()
	p, _ := run(t, config(box, url, "ws://127.0.0.1:1"))
	p.Subscribe("notes", notes())
	p.Publish(t.Context(), sign(t, 1, nostr.Now(), "hello"))
	box.take(t, 1)
	for _, s := range p.Status() {
		up := s.URL == url
		if s.Connected != up || (s.LastError == "") != up || s.Since.After(time.Now()) {
			t.Errorf("%+v", s)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	url := honest(t)
	srv := httptest.NewServer(http.RedirectHandler("http"+strings.TrimPrefix(url, "ws"), http.StatusFound))
	defer srv.Close()
	p, _ := run(t, config(newInbox()))
	_, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "hello"), "ws"+strings.TrimPrefix(srv.URL, "http"))
	if !errors.Is(err, relay.ErrNoRelay) {
		t.Errorf("got %v", err)
	}
}

func TestInvalidURL(t *testing.T) {
	p := relay.New(config(newInbox(), "http://example.com"))
	if err := p.Run(t.Context()); err == nil {
		t.Error("accepted")
	}
}

func TestUntrustedCertificate(t *testing.T) {
	srv := httptest.NewUnstartedServer(playing(func(p peer) { p.drain() }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	p, _ := run(t, config(newInbox()))
	acks, err := p.Publish(t.Context(), sign(t, 1, nostr.Now(), "hello"), "wss"+strings.TrimPrefix(srv.URL, "https"))
	if !errors.Is(err, relay.ErrNoRelay) || !strings.Contains(acks[0].Message, "certificate") {
		t.Errorf("acks %v, err %v", acks, err)
	}
}
