package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// refresh is how often an announcement is repeated, so that it never looks stale.
const refresh = 7 * 24 * time.Hour / 2

// Announce publishes who we are (kind 0), where we read (10002) and what we offer (31990), again and again
// until ctx ends, and then takes the offer back. It returns once that is done.
func (w *Work) Announce(ctx context.Context, ready func(error)) error {
	if len(w.services) == 0 {
		ready(nil)
		<-ctx.Done()
		return nil
	}
	wait, announced := time.Duration(0), nostr.Timestamp(0)
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return w.retract(announced)
		case <-time.After(wait):
		}
		at := nostr.Timestamp(w.c.Now().Unix())
		err := w.announce(ctx, at)
		wait = refresh
		if err == nil {
			announced, failures = at, 0
		} else if ctx.Err() == nil {
			w.c.Log.Warn("the announcement was not published and will be tried again", "err", err)
			wait = min(time.Second<<failures, 10*time.Second) // soon: a second later the time is another, too
			failures = min(failures+1, 4)
		}
		ready(err)
	}
}

func (w *Work) announce(ctx context.Context, at nostr.Timestamp) error {
	profile, err := json.Marshal(map[string]string{"name": w.c.Node, "about": "a guild node"})
	if err != nil {
		return err
	}
	events := []nostr.Event{
		{Kind: 0, Content: string(profile)},
		{Kind: 10002, Tags: readsAt(w.c.Relays())},
	}
	for _, s := range w.services {
		events = append(events, w.handler(s).Event())
	}
	for _, e := range events {
		e.CreatedAt = at
		if err := w.broadcast(ctx, e); err != nil {
			return fmt.Errorf("kind %d: %w", e.Kind, err)
		}
	}
	return nil
}

func readsAt(relays []string) nostr.Tags {
	tags := nostr.Tags{}
	for _, url := range relays {
		tags = append(tags, nostr.Tag{"r", url})
	}
	return tags
}

func (w *Work) handler(s Service) nip89.Handler {
	return nip89.Handler{
		PubKey: w.c.PubKey, D: s.D, Name: cmp.Or(s.Name, w.c.Node), About: s.About,
		Kinds: []int{s.Kind}, Tasks: []string{s.Task}, Relays: w.c.Relays(), Encryption: []string{"nip44"}, AgeRecipient: w.c.Recipient,
		Price: s.Price, SupplyClass: "SingleNode", MaxConcurrent: s.Slots,
	}
}

func (w *Work) broadcast(ctx context.Context, e nostr.Event) error {
	v, err := guild.Sign(ctx, w.c.Keyer, e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return w.c.Publish(ctx, v, w.c.Relays())
}

// retract deletes the announcements made at that time (NIP-09). A later one is not touched by it, so a node
// that comes back at once is seen at once.
func (w *Work) retract(announced nostr.Timestamp) error {
	if announced == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	for _, s := range w.services {
		address := fmt.Sprintf("%d:%s:%s", nip89.Kind, w.c.PubKey.Hex(), s.D)
		errs = append(errs, w.broadcast(ctx, nostr.Event{
			Kind: 5, CreatedAt: announced, Content: "closed",
			Tags: nostr.Tags{{"a", address}, {"k", fmt.Sprint(int(nip89.Kind))}},
		}))
	}
	return errors.Join(errs...)
}
