package activity

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/nook"
)

func secret(n byte) nostr.SecretKey { return nostr.SecretKey{31: n} }

func npub(n byte) string { return nip19.EncodeNpub(secret(n).Public()) }

// signed returns an event of a key that names others.
func signed(t *testing.T, by nostr.SecretKey, kind nostr.Kind, at time.Time, tags nostr.Tags, named ...nostr.SecretKey) nostr.Event {
	t.Helper()
	for _, other := range named {
		tags = append(tags, nostr.Tag{"p", other.Public().Hex()})
	}
	e := nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(at.Unix()), Tags: tags}
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(by)), e)
	if err != nil {
		t.Fatal(err)
	}
	return v.Event()
}

// The keys of these tests.
var owner, ada, bob, rival = secret(1), secret(2), secret(3), secret(4)

func TestAgentOfAnotherKeyNeedsBothClaims(t *testing.T) {
	f, now := NewFold(), time.Now()
	s := at(journaltest.Open(t, f), f, now)
	root := npub(1)
	if _, err := s.Root(root); !errors.Is(err, ErrRoot) {
		t.Fatalf("a key without a claim: %v", err)
	}
	report := func(root, agent string) error {
		name, err := s.Root(root)
		if err == nil {
			_, err = s.Report(t.Context(), name, []nook.Event{completed(agent, "unit", 1000)})
		}
		return err
	}
	claim := func(events ...nostr.Event) {
		t.Helper()
		if done, err := s.Claim(t.Context(), events); err != nil || done.Accepted != len(events) {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	refused := func(name, root, agent string) {
		t.Helper()
		if field, ok := errors.AsType[*nook.FieldError](report(root, agent)); !ok || field.Field != "agentId" {
			t.Errorf("%s: %v", name, field)
		}
	}
	claim(signed(t, owner, ownerClaim, now, nil, ada))
	refused("the owner alone names the agent", root, npub(2))
	claim(signed(t, ada, agentProfile, now, nil, owner), signed(t, bob, agentProfile, now, nil, owner))
	for _, name := range []string{npub(2), secret(2).Public().Hex()} {
		if err := report(owner.Public().Hex(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("another agent, which names the owner", root, npub(3))
	refused("a name", root, "ada")
	claim(signed(t, rival, ownerClaim, now, nil, bob))
	refused("another root, which the agent does not name", npub(4), npub(2))
	refused("another root that claims an agent of ours", npub(4), npub(3))
	if p := s.Profile(root); len(p.Agents) != 1 || p.Agents[0].ID != npub(2) || p.RootIdentity != root || p.Sparks == 0 || !IsProven(root) || IsProven("team") {
		t.Errorf("%+v", p.AgentProfile)
	}
	claim(signed(t, owner, ownerClaim, now.Add(time.Second), nil, bob))
	refused("an agent that the owner has disowned", root, npub(2))
}

func TestForgedExpiredOrReplayedClaim(t *testing.T) {
	f, now := NewFold(), time.Now()
	j := journaltest.Open(t, f)
	s := at(j, f, now)
	s.c.Now = func() time.Time { return now }
	until := func(at time.Time) nostr.Tags { return nostr.Tags{{"expiration", fmt.Sprint(at.Unix())}} }
	old := signed(t, owner, ownerClaim, now.Add(-time.Hour), nil, ada, bob)
	present := signed(t, owner, ownerClaim, now, until(now.Add(time.Hour)), bob)
	for _, e := range []nostr.Event{old, present, signed(t, bob, agentProfile, now, nil, owner), signed(t, ada, agentProfile, now, nil, owner)} {
		if _, err := s.Claim(t.Context(), []nostr.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	forged := present
	forged.Tags = append(nostr.Tags{{"p", ada.Public().Hex()}}, present.Tags...)
	forgedWhole := forged
	forgedWhole.ID = guild.EventID(forged)
	stolen := forgedWhole
	stolen.PubKey = rival.Public()
	entries := j.Last()
	for name, e := range map[string]nostr.Event{
		"replayed, with an agent that was disowned": old,
		"forged, with the id of another":            forged,
		"forged, with the signature of another":     forgedWhole,
		"of another root":                           stolen,
		"expired":                                   signed(t, rival, ownerClaim, now, until(now), ada),
		"with an expiration that is no time":        signed(t, rival, ownerClaim, now, nostr.Tags{{"expiration", "never"}}, ada),
		"from the future":                           signed(t, rival, ownerClaim, now.Add(2*time.Minute), nil, ada),
		"of another kind":                           signed(t, rival, 1, now, nil, ada),
		"too large":                                 signed(t, rival, ownerClaim, now, nostr.Tags{{"x", strings.Repeat("x", MaxClaim)}}, ada),
	} {
		if _, err := s.Claim(t.Context(), []nostr.Event{e}); !errors.Is(err, ErrClaim) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if again, err := s.Claim(t.Context(), []nostr.Event{present}); err != nil || again != (Counted{Duplicates: 1}) || j.Last() != entries {
		t.Errorf("again: %+v, %v, %d more entries", again, err, j.Last()-entries)
	}
	for agent, want := range map[string]bool{npub(2): false, npub(3): true} {
		if _, err := s.Report(t.Context(), npub(1), []nook.Event{completed(agent, "1", 1)}); (err == nil) != want {
			t.Errorf("%s: %v", agent, err)
		}
	}
	now = now.Add(2 * time.Hour)
	if _, err := s.Report(t.Context(), npub(1), []nook.Event{completed(npub(3), "2", 1)}); err == nil {
		t.Error("a claim counts after it has expired")
	}
}

func TestRootIsNoSecretAndNoLookalike(t *testing.T) {
	s := at(nil, NewFold(), time.Now())
	s.c.Key = npub(1)
	for _, name := range []string{npub(1), strings.ToUpper(npub(1)), secret(1).Public().Hex()} {
		if got, err := s.Root(name); got != Own || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	nsec := nip19.EncodeNsec(secret(1))
	for _, name := range []string{strings.ToUpper(npub(2)), nsec, strings.ToUpper(nsec), strings.Repeat("ff", 32)} {
		if _, err := s.Root(name); !errors.Is(err, ErrRoot) || strings.Contains(err.Error(), nsec[5:20]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAgentsAndRootsAreBounded(t *testing.T) {
	f, now := NewFold(), time.Now()
	s := at(journaltest.Open(t, f), f, now)
	before := allocated()
	for root := range MaxRoots {
		for page := range 10 {
			var facts []fact.Fact
			for i := range MaxAgents / 10 {
				e := completed(fmt.Sprintf("%d-%s", page*MaxAgents/10+i, strings.Repeat("x", 100)), "u", 1000)
				e.Timestamp = now.UnixMilli()
				facts = append(facts, fact.ActivityReported{Root: fmt.Sprint(root), Event: e})
			}
			f.Apply(fact.Entry{Subject: fact.ActivitySubject, At: now.UnixMilli(), Facts: facts})
		}
	}
	used := (allocated() - before) >> 20
	t.Logf("%d roots with %d agents each: %d MiB", MaxRoots, MaxAgents, used)
	if used > 64 {
		t.Errorf("%d MiB", used)
	}
	for name, c := range map[string]struct{ root, agent, field string }{
		"one agent more": {"0", "new", "agentId"}, "one root more": {"new", "a", "rootIdentity"}, "a known agent": {"0", "7-" + strings.Repeat("x", 100), ""}, "our own": {Own, "a", ""},
	} {
		_, err := s.Report(t.Context(), c.root, []nook.Event{completed(c.agent, "u2", 1)})
		field, _ := errors.AsType[*nook.FieldError](err)
		if c.field == "" && err != nil || c.field != "" && (field == nil || field.Field != c.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range 2 * MaxAgents {
		beat := nook.Event{Type: nook.TypeHeartbeat, AgentID: fmt.Sprint("nobody", i), Timestamp: now.UnixMilli()}
		if _, err := s.Report(t.Context(), "0", []nook.Event{beat}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.pulses) != 0 {
		t.Errorf("%d agents without events are remembered", len(s.pulses))
	}
	for n := range MaxClaims + 1 {
		key := nostr.SecretKey{30: byte(n>>8) + 1, 31: byte(n)}
		_, err := s.fold.follows(nostr.Event{Kind: agentProfile, PubKey: key.Public()})
		if n == MaxClaims && err == nil || n < MaxClaims && err != nil {
			t.Fatalf("claim %d: %v", n, err)
		}
		f.Apply(fact.Entry{Subject: fact.ActivitySubject, Facts: []fact.Fact{fact.AgentClaimed{Event: nostr.Event{PubKey: key.Public()}}}})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
