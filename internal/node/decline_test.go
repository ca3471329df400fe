package node

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/policy"
	"guild/internal/step/judge"
	"guild/internal/step/review"
	"guild/internal/step/work"
	"guild/nipreview"
)

// hasty returns the specification's policy without its waits: the first review is immediate, trust follows each verdict
// without a daily limit, and it is not restored to the mean, so that three failures subtract more than 0.3.
func hasty() policy.Policy {
	p := policy.Specification()
	p.Name = "hasty"
	p.Trust.Alpha, p.Trust.Daily, p.Trust.WrongWay = guild.Micro, guild.Micro, 0
	p.Review.Delay = 1
	return p
}

// strict judges a delivery by the output that echo must produce.
func strict(_ context.Context, c judge.Case) (guild.Verdict, judge.Evidence, error) {
	v := guild.Verdict{Outcome: guild.Failure, Strength: guild.Strong, Tier: "none", Expected: 1, Cause: "it says something else"}
	if b, err := os.ReadFile(filepath.Join(c.Delivery, "delivery", "artifacts", "out.txt")); err == nil && string(b) == "hello" {
		v = guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 1, Passed: 1}
	}
	return v, judge.Evidence("looked at"), nil
}

// declining has a customer that learns, its provider, and their relay.
type declining struct {
	*testing.T
	url      string
	identity key.Identity
	customer *control.Client
	provider nostr.PubKey
	failing  atomic.Bool // the provider's worker fails
	quit     chan struct{}
}

func newDeclining(t *testing.T) *declining {
	t.Helper()
	secret := key.NewSecret(nostr.Generate())
	m := &declining{T: t, url: startRelay(t), identity: key.Identity{Signer: key.NewSigner(secret), PubKey: secret.PubKey()}, quit: make(chan struct{})}
	_, m.provider = start(t, m.url, func(c *Config) {
		c.Name = "greta"
		c.Workers = []Worker{{Task: "echo", Do: m.work}}
	})
	m.customer, _ = start(t, m.url, func(c *Config) {
		c.Identity, c.Policy, c.Examine, c.Quit = m.identity, hasty(), strict, m.quit
		c.Hiring.Patience.Discover = time.Second
	})
	awaitProviders(t, m.customer, 1)
	return m
}

func (m *declining) work(ctx context.Context, a work.Assignment) error {
	if m.failing.Load() {
		return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), []byte("no idea"), 0o644)
	}
	return echo(ctx, a)
}

// wantState waits until the provider is in a state.
func (m *declining) wantState(want guild.ProviderState) {
	m.Helper()
	eventually(m.T, "it is "+string(want), func() bool {
		all, err := control.Standings.Call(m.Context(), m.customer, m.provider.Hex())
		return err == nil && len(all) == 1 && all[0].State == string(want)
	})
}

// wantTrust waits until the provider has this trust.
func (m *declining) wantTrust(want float64) {
	m.Helper()
	eventually(m.T, "its failures have been learned from", func() bool {
		all, err := control.Trust.Call(m.Context(), m.customer, "echo")
		return err == nil && len(all.Entries) == 1 && math.Abs(all.Entries[0].Trust-want) < 0.05
	})
}

// published waits until that many reviews are public, and returns them, the newest first.
func (m *declining) published(count int) (all []control.Review) {
	m.Helper()
	eventually(m.T, "reviews are public", func() bool {
		ours, err := control.Reviews.Call(m.Context(), m.customer, "echo")
		all = slices.DeleteFunc(ours, func(r control.Review) bool { return r.State != "published" })
		return err == nil && len(all) == count
	})
	return all
}

// decline lets the provider do two jobs well and three badly.
func (m *declining) decline() {
	m.Helper()
	for range 2 {
		if job := hire(m.T, m.customer, control.Hire{}); job.Ending != guild.JobAccepted {
			m.Fatalf("%s: %s", job.Ending, job.Reason)
		}
	}
	m.wantState(guild.Active)
	m.failing.Store(true)
	for _, state := range []guild.ProviderState{guild.Warned, guild.Reduced, guild.Suspended} {
		if job := hire(m.T, m.customer, control.Hire{}); job.Ending != guild.JobRejected {
			m.Fatalf("%s: %s", job.Ending, job.Reason)
		}
		m.wantState(state)
	}
}

// A provider that begins to fail is warned, reduced and suspended, one state for each failure (section 3.4.2). Then no
// provider is left, and hiring reports why.
func TestDecliningProvider(t *testing.T) {
	m := newDeclining(t)
	m.decline()
	job := hire(t, m.customer, control.Hire{Timeout: 60_000})
	if job.Ending != guild.JobUnclaimed || len(job.Attempts) != 0 || !strings.Contains(job.Reason, "greta") || !strings.Contains(job.Reason, "is suspended") {
		t.Errorf("%s: %s", job.Ending, job.Reason)
	}
	story, err := control.Story.Call(t.Context(), m.customer, m.provider.Hex())
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, c := range story {
		if c.State != "" {
			states = append(states, c.State)
		}
	}
	if want := []string{"active", "warned", "reduced", "suspended"}; !slices.Equal(states, want) {
		t.Errorf("its story is %q, want %q", states, want)
	}
}

// A review is published after the first verdicts, and again when trust has moved by more than 0.2 (section 4.3.3). A
// follower of the reviewer counts it; another node only knows of it.
func TestReviewReachesFollowers(t *testing.T) {
	m := newDeclining(t)
	reader := newPeer(t, m.url)
	hire(t, m.customer, control.Hire{})
	first := m.published(1)[0]
	m.decline()
	all := m.published(2)
	newest := all[slices.IndexFunc(all, func(r control.Review) bool { return r.ID != first.ID })]
	if fall := first.Rating - newest.Rating; fall <= 0.8 {
		t.Errorf("%.2f stars became %.2f: a fall of 0.2 of trust is 0.8 stars", first.Rating, newest.Rating)
	}
	checkStored(t, reader, m, newest)

	follower, _ := start(t, m.url, func(c *Config) { c.Hiring.Follow = []nostr.PubKey{m.identity.PubKey} })
	stranger, _ := start(t, m.url, func(*Config) {})
	for _, test := range []struct {
		who     string
		client  *control.Client
		counted int
	}{{"a follower", follower, 1}, {"a stranger", stranger, 0}} {
		var about control.Aggregate
		eventually(t, test.who+" has heard the review", func() bool {
			cards, err := control.ReviewCards.Call(t.Context(), test.client, m.provider.Hex(), "echo")
			if err != nil || len(cards) != 1 || len(cards[0].Others) != 1 {
				return false
			}
			about = cards[0].Others[0]
			return about.Count > 0 && (test.counted == 0 || about.Counted > 0 && about.Rating < first.Rating-0.8)
		})
		if about.Count != 1 || about.Counted != test.counted {
			t.Errorf("%s counts %d of %d reviews: one author has one opinion", test.who, about.Counted, about.Count)
		}
	}
}

// checkStored reads the reviews from the relay like any client: each as kind 2020, and the newest as kind 32020.
func checkStored(t *testing.T, reader *peer, m *declining, newest control.Review) {
	t.Helper()
	var single, sets []nostr.Event
	eventually(t, "the relay has all of them", func() bool {
		single, _ = reader.stored(review.Kind)
		sets, _ = reader.stored(review.KindSet)
		return len(single) == 2 && len(sets) == 1
	})
	for _, e := range slices.Concat(single, sets) {
		r, err := nipreview.Parse(e)
		if err != nil || e.PubKey != m.identity.PubKey || r.Subject != m.provider || r.Task != "echo" {
			t.Errorf("%v: %s", err, e)
		}
		if e.ID.Hex() == newest.ID || e.Kind == review.KindSet {
			if got := float64(r.Stars) / guild.Micro; got != newest.Rating {
				t.Errorf("kind %d says %v stars, want %v", e.Kind, got, newest.Rating)
			}
		}
	}
}

// The matrix is stored at the relay, encrypted in a private message to the node's own key. A new node with that key
// restores the same matrix.
func TestRestoreBackupFromRelay(t *testing.T) {
	m := newDeclining(t)
	reader := newPeer(t, m.url)
	m.decline()
	m.wantTrust(0.22)
	before, err := control.Trust.Call(t.Context(), m.customer)
	if err != nil {
		t.Fatal(err)
	}
	if made, err := control.MakeBackup.Call(t.Context(), m.customer); err != nil || made.Matrix != before.Hash || made.State != "sent" {
		t.Fatalf("%+v, %v; want %s", made, err, before.Hash)
	}
	wraps, text := reader.stored(nostr.KindGiftWrap)
	ours := slices.DeleteFunc(wraps, func(e nostr.Event) bool { return e.Tags.FindWithValue("p", m.identity.PubKey.Hex()) == nil })
	if len(ours) == 0 || strings.Contains(text, "echo") || strings.Contains(text, before.Hash) {
		t.Errorf("%d messages to ourselves, and they can be read: %.300s", len(ours), text)
	}
	close(m.quit)
	eventually(t, "the node is gone", func() bool {
		_, err := control.NodeStatus.Call(context.Background(), m.customer)
		return errors.Is(err, control.ErrNotRunning)
	})

	found, _ := start(t, m.url, func(c *Config) { c.Identity, c.Policy, c.Hiring.Patience.Discover = m.identity, hasty(), time.Second })
	awaitProviders(t, found, 1)
	restored, err := control.RestoreBackup.Call(t.Context(), found, control.Restore{Force: false})
	if err != nil || !restored.Exact || restored.Services != 1 || restored.Unclaimed != 0 || restored.Matrix != before.Hash {
		t.Errorf("%+v, %v", restored, err)
	}
	after, err := control.Trust.Call(t.Context(), found)
	if err != nil || after.Hash != before.Hash || len(after.Entries) != 1 || after.Entries[0].State != string(guild.Suspended) {
		t.Errorf("%+v, %v; want the matrix %s", after, err, before.Hash)
	}
	if job := hire(t, found, control.Hire{Timeout: 60_000}); job.Ending != guild.JobUnclaimed || !strings.Contains(job.Reason, "suspended") {
		t.Errorf("a provider that was suspended is hired after that: %s: %s", job.Ending, job.Reason)
	}
}
