package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/bunker"
	"guild/internal/hand/key"
)

// testInbox records what happened to the messages of an inbox, by their content.
type testInbox struct {
	*inbox
	mu      sync.Mutex
	silent  int // number of further calls that the signer does not answer
	read    []string
	dropped []string
}

func newTestInbox(silent int) *testInbox {
	m := &testInbox{silent: silent}
	m.inbox = &inbox{added: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler)}
	m.inbox.read = func(_ context.Context, v guild.Verified) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.silent > 0 {
			m.silent--
			return fmt.Errorf("open gift wrap: %w", bunker.ErrNoAnswer)
		}
		m.read = append(m.read, v.Event().Content)
		return nil
	}
	m.inbox.done = func(_ context.Context, _ string, v guild.Verified, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if drop, ok := errors.AsType[*guild.DropError](err); ok && drop.Reason == guild.Flood {
			m.dropped = append(m.dropped, v.Event().Content)
		}
	}
	return m
}

// contents returns the messages that were read, sorted, and those that were dropped.
func (m *testInbox) contents() (read, dropped []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.read)), slices.Clone(m.dropped)
}

func (m *testInbox) gets(t *testing.T, content string) {
	t.Helper()
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.Generate())), nostr.Event{Kind: nostr.KindGiftWrap, Content: content})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.put(t.Context(), "wss://relay.example.com", v); err != nil {
		t.Fatal(err)
	}
}

func TestMessagesWaitForTheSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestInbox(20) // about a quarter of an hour
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.run(ctx) }()
		for _, content := range []string{"one", "two", "three"} {
			m.gets(t, content)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if read, _ := m.contents(); len(read) != 0 {
			t.Errorf("%q were read while nobody could", read)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		m.gets(t, "four")
		synctest.Wait()
		read, dropped := m.contents()
		if !slices.Equal(read, []string{"four", "one", "three", "two"}) || len(dropped) != 0 {
			t.Errorf("%q were read, %q dropped", read, dropped)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFullInboxDropsOldest(t *testing.T) {
	m := newTestInbox(0)
	for n := range maxWaiting + 3 {
		m.gets(t, fmt.Sprint(n))
	}
	if !slices.Equal(m.dropped, []string{"0", "1", "2"}) || len(m.waiting) != maxWaiting {
		t.Errorf("%q were dropped, %d wait", m.dropped, len(m.waiting))
	}
}

func TestStrangersMessageLimit(t *testing.T) {
	m, now, read := newTestInbox(0), time.Unix(1_790_000_000, 0).Truncate(time.Minute), 0
	for n := range 300 { // within two minutes
		if m.admits(now.Add(time.Duration(n) * 400 * time.Millisecond)) {
			read++
		}
	}
	if read != 2*maxStrangers {
		t.Errorf("%d of 300 were read, want %d", read, 2*maxStrangers)
	}
}

// slowSigner is a remote signer that takes very long for messages that it cannot decrypt.
type slowSigner struct {
	*key.Signer
	asked chan struct{}
}

func (s slowSigner) Decrypt(ctx context.Context, text string, from nostr.PubKey) (string, error) {
	if text != "junk" {
		return s.Signer.Decrypt(ctx, text, from)
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return "", ctx.Err()
}

// A stranger sends undecryptable messages to a node with a slow signer. The result of a job arrives on the same
// connection behind them.
func TestSlowSignerDelaysNoEvents(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	asked := make(chan struct{}, 1)
	customer, _ := start(t, url, func(c *Config) {
		secret := key.NewSecret(nostr.Generate())
		c.Identity = key.Identity{Signer: slowSigner{key.NewSigner(secret), asked}, PubKey: secret.PubKey()}
	})
	awaitProviders(t, customer, 1)
	status, err := control.NodeStatus.Call(t.Context(), customer)
	if err != nil {
		t.Fatal(err)
	}
	newPeer(t, url).publish(nostr.Event{Kind: nostr.KindGiftWrap, Tags: nostr.Tags{{"p", status.PubKey}}, Content: "junk"})
	<-asked
	if job := hire(t, customer, control.Hire{}); job.Ending != guild.JobAccepted {
		t.Errorf("%s: %s", job.Ending, job.Reason)
	}
}
