package relay

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
)

func note(t *testing.T, content string) nostr.Event {
	t.Helper()
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.SecretKey{1})), nostr.Event{Kind: 1, Content: content})
	if err != nil {
		t.Fatal(err)
	}
	return v.Event()
}

func TestSignatureIsVerifiedOnce(t *testing.T) {
	s, genuine := newSeen(), note(t, "hello")
	forged := genuine
	forged.Sig[0] ^= 1
	if _, err := s.verify(forged); !errors.Is(err, guild.ErrBadSignature) {
		t.Fatalf("forged: %v", err)
	}
	if v, err := s.verify(genuine); err != nil || v.Event().Sig != genuine.Sig {
		t.Fatalf("genuine: %v", err)
	}
	// With the event known, another signature is not looked at any more: the known one is returned.
	if v, err := s.verify(forged); err != nil || v.Event().Sig != genuine.Sig {
		t.Errorf("known: %v", err)
	}
	other := genuine
	other.Content = "other"
	if _, err := s.verify(other); !errors.Is(err, guild.ErrWrongID) {
		t.Errorf("other content: %v", err)
	}
}

func TestConcurrentForgeries(t *testing.T) {
	s, genuine := newSeen(), note(t, "hello")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			e := genuine
			if i != 7 {
				e.Sig[i] ^= 1
			}
			v, err := s.verify(e)
			if i == 7 && err != nil || err == nil && v.Event().Sig != genuine.Sig {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if len(s.flights) != 0 || !s.deliver(genuine.ID) || s.deliver(genuine.ID) {
		t.Error("not delivered exactly once")
	}
}

func TestSeenIsBounded(t *testing.T) {
	s := newSeen()
	big := note(t, strings.Repeat("x", maxBodies/4))
	for i := range maxSeen + 10 {
		e := big
		e.ID = nostr.ID{byte(i), byte(i >> 8), byte(i >> 16), 1}
		s.mu.Lock()
		s.ring[s.place(e.ID)].delivered = true
		s.mu.Unlock()
	}
	if len(s.ring) != maxSeen || len(s.at) != maxSeen {
		t.Errorf("%d and %d ids", len(s.ring), len(s.at))
	}
	if s.delivered(nostr.ID{0, 0, 0, 1}) || !s.delivered(nostr.ID{11, 0, 0, 1}) {
		t.Error("not the oldest were forgotten")
	}
	for i := range 6 {
		if _, err := s.verify(note(t, fmt.Sprint(i, big.Content))); err != nil {
			t.Fatal(err)
		}
	}
	if s.bytes > maxBodies || len(s.bodies) > 4 {
		t.Errorf("%d bytes in %d events", s.bytes, len(s.bodies))
	}
}
