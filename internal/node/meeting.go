package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/journal/due"
	"guild/internal/journal/fold"
	"guild/internal/step/jobs"
	"guild/internal/step/meet"
)

// Meeting configures how the node gets to know providers.
type Meeting struct {
	Auto    bool          // meet providers without a command
	Daily   guild.Msat    // limit on the sum of the bids of automatic meetings in a UTC day; 100,000 if zero
	Count   int           // meetings per day; the policy's limit if zero
	AtOnce  int           // concurrent meetings; 2 if zero
	Timeout time.Duration // per run; 10 minutes if zero
}

// meetingKeyFile stores the secret from which benchmarks are generated, so that providers cannot predict them.
const meetingKeyFile = "meeting.key"

// meetingKeySize is the length of the secret, in bytes.
const meetingKeySize = 32

// meetPart makes the step that benchmarks providers.
func (n *Node) meetPart() part {
	f := meet.NewFold()
	return part{
		name: "meet", folds: []fold.Fold{f},
		open: func(context.Context) (active, error) {
			secret, err := meetingKey(filepath.Join(n.c.Dir, meetingKeyFile))
			if err != nil {
				return active{}, fmt.Errorf("the key for benchmarks: %w", err)
			}
			n.meet = meet.New(meet.Config{
				Journal: n.journal, Self: n.pubkey, Now: n.c.Now, Secret: secret,
				Offers: n.registry.Offers, OffersOf: n.registry.OffersOf, Kind: n.Kind, Run: n.benchmark, Checkups: n.partners.Checkups, Newcomers: n.c.Policy.Lifecycle.Newcomers, Said: n.reputation,
				Auto: n.c.Meeting.Auto, Daily: n.c.Meeting.Daily, Count: cmp.Or(n.c.Meeting.Count, n.c.Policy.Lifecycle.Meetings),
				AtOnce: n.c.Meeting.AtOnce, Enough: n.c.Policy.Lifecycle.Enough,
			}, f)
			return active{due: []due.Source{n.meet.Due}}, nil
		},
		show: func(s *control.Parts) { s.Meet, s.Meetings = n.meet, f },
	}
}

// reputation returns the reputation of a service by others' reviews; one half if the reviews are not loaded yet.
func (n *Node) reputation(s guild.Service) guild.Trust {
	if n.review == nil {
		return guild.Micro / 2
	}
	return n.review.Order(s)
}

// meetingKey reads the secret, or creates it. If it is lost, only benchmarks of the future change.
func meetingKey(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret = make([]byte, meetingKeySize)
		rand.Read(secret)
		err = durable.WriteBytes(path, secret)
	}
	if err == nil && len(secret) != meetingKeySize {
		err = fmt.Errorf("%s: %d bytes, want %d; without the file a new key is made", path, len(secret), meetingKeySize)
	}
	return secret, err
}

// benchmark opens the job for one run of a benchmark.
func (n *Node) benchmark(ctx context.Context, r meet.Run) error {
	_, err := n.jobs.Open(ctx, jobs.Order{
		ID: r.Job, Task: r.Task, Kind: r.Kind, Title: r.Title, Bundle: r.Bundle, Hidden: r.Hidden, Bid: r.Bid, Tries: 1,
		Providers: []nostr.PubKey{r.Service.PubKey}, Meeting: &r.Meeting, Timeout: cmp.Or(n.c.Meeting.Timeout, 10*time.Minute),
	})
	return err
}
