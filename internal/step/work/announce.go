package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild/nip89"
	"guild/nip90"
)

// How often our public events are looked at.
const (
	refresh = 7 * 24 * time.Hour / 2 // for a new announcement with the same content, so that it never looks stale
	look    = 5 * time.Minute        // for new figures, and for relays that were down, which get what they missed
)

// Claims are statements of an announcement that the node does not know itself: its owner makes them.
type Claims struct {
	SupplyClass string // SingleNode if empty
	Models      []string
	Hardware    nip89.Hardware
	MaxContext  int // tokens
}

// Announce publishes what we offer (kind 31990), where we read requests (10002) and private messages (10050), and who we
// are (0) until ctx ends. Then it deletes the offers. A service that is paused is deleted at once. ready is called after
// every round that failed and after the first one that did not. A node without services publishes only where it reads
// private messages, because providers object to its verdicts there.
func (w *Work) Announce(ctx context.Context, ready func(error)) error {
	if len(w.services) == 0 {
		ready(nil)
		w.announceInbox(ctx)
		<-ctx.Done()
		return nil
	}
	a := &announcer{Work: w, said: map[string]announcement{}, figures: map[string]nip89.Stability{}}
	failures, succeeded := 0, false
	for {
		err := a.round(ctx)
		wait := look
		if err != nil && ctx.Err() == nil {
			w.c.Log.Warn("the announcement was not published and will be tried again", "err", err)
			wait = min(time.Second<<failures, 10*time.Second) // a second or more, so that the next event has a later time
			failures = min(failures+1, 4)
		} else {
			failures = 0
		}
		if err != nil || !succeeded {
			ready(err)
		}
		succeeded = succeeded || err == nil
		select {
		case <-ctx.Done():
			return a.retract()
		case <-w.turned:
		case <-time.After(wait):
		}
	}
}

// announcer knows what was published since the process began.
type announcer struct {
	*Work
	said    map[string]announcement // by the d of a service
	last    nostr.Timestamp         // of our latest event; the next one is later, or relays would keep the older one
	figures map[string]nip89.Stability

	looked     time.Time // when the figures were computed
	introduced time.Time // when introduce last succeeded
}

// announcement is the one of a service that was published last.
type announcement struct {
	event   nostr.Event
	text    string // its content and tags
	at      time.Time
	deleted bool
}

// round publishes what has changed. Every look it publishes the rest again.
func (a *announcer) round(ctx context.Context) error {
	now := a.c.Now()
	again := now.Sub(a.looked) >= look
	if again {
		a.looked = now
		for _, d := range a.order {
			a.figures[d] = stability(a.fold.counts(d).Figures)
		}
	}
	at := max(nostr.Timestamp(now.Unix()), a.last+1)
	var errs []error
	for _, d := range a.order {
		if err := a.announce(ctx, a.services[d], at, again); err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", d, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if now.Sub(a.introduced) >= refresh && again {
		if err := a.introduce(ctx, at); err != nil {
			a.c.Log.Warn("who we are and where we read was not published", "err", err)
			return nil // the announcements suffice to find us
		}
		a.introduced = now
	}
	return nil
}

// announce publishes the announcement of a service that is open, and deletes that of one that is not.
func (a *announcer) announce(ctx context.Context, s Service, at nostr.Timestamp, again bool) error {
	before, announced := a.said[s.D]
	if !a.open(s.D) {
		if announced && before.deleted {
			return nil
		}
		dated := at // also deletes what an earlier process announced
		if announced {
			dated = before.event.CreatedAt
		}
		if err := a.deletion(ctx, s.D, dated); err != nil {
			return err
		}
		before.deleted = true
		a.said[s.D] = before
		a.last = max(a.last, dated)
		return nil
	}
	template := a.handler(ctx, s, a.figures[s.D]).Event()
	text := template.Content + fmt.Sprint(template.Tags)
	now := a.c.Now()
	switch {
	case !announced || before.deleted || before.text != text || now.Sub(before.at) >= refresh:
		template.CreatedAt = at
		a.last = at
		e, err := a.broadcast(ctx, template)
		if err != nil {
			return err
		}
		a.said[s.D] = announcement{event: e, text: text, at: now}
	case again:
		return a.publish(ctx, before.event, a.c.Relays.Ours(), broadcasting)
	}
	return nil
}

// introduce publishes who we are and where we read. It keeps what the owner of the key published with other programs, so
// it needs to know that first.
func (a *announcer) introduce(ctx context.Context, at nostr.Timestamp) error {
	const patience = 5 * time.Second
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := a.replaceable(asking, 0, 10002, nostr.KindDMRelayList)
	if err != nil {
		return fmt.Errorf("what is published already: %w", err)
	}
	var errs []error
	for _, e := range []*nostr.Event{a.profile(before[0]), a.relayList(before[10002]), a.inboxList(before[nostr.KindDMRelayList])} {
		if err := a.replace(ctx, e, before, at); err != nil {
			errs = append(errs, fmt.Errorf("kind %d: %w", e.Kind, err))
		}
	}
	return errors.Join(errs...)
}

// about is in every profile that we made, and tells us which are ours.
const about = "a guild node"

// profile returns the profile (kind 0) to publish in place of the one before it. It is nil if that is the same, or was
// made by somebody else: the key may be a person's too. Ours has nothing but a name and the text about.
func (w *Work) profile(before *nostr.Event) *nostr.Event {
	ours := map[string]any{"name": w.c.Node, "about": about}
	var tags nostr.Tags
	if len(w.c.Owners) > 0 {
		tags = nostr.Tags{{"bot"}}
		for _, owner := range w.c.Owners {
			tags = append(tags, nostr.Tag{"p", owner.Hex()})
		}
	}
	if before != nil {
		var theirs map[string]any
		same := fmt.Sprint(before.Tags) == fmt.Sprint(tags)
		if json.Unmarshal([]byte(before.Content), &theirs) != nil || len(theirs) != len(ours) || theirs["about"] != about || theirs["name"] == ours["name"] && same {
			return nil
		}
	}
	content, err := json.Marshal(ours)
	if err != nil {
		return nil
	}
	return &nostr.Event{Kind: 0, Content: string(content), Tags: tags}
}

// handler returns the announcement of a service.
func (w *Work) handler(ctx context.Context, s Service, measured nip89.Stability) nip89.Handler {
	h := nip89.Handler{
		PubKey: w.c.PubKey, D: s.D, Name: cmp.Or(s.Name, w.c.Node), About: s.About,
		Kinds: s.Kinds, Tasks: s.Tasks, Relays: w.c.Relays.Ours(), Encryption: []string{"nip44"}, AgeRecipient: w.c.Recipient, Bundles: true,
		SupplyClass: cmp.Or(s.Claims.SupplyClass, "SingleNode"), Models: s.Claims.Models, Hardware: s.Claims.Hardware,
		MaxConcurrent: s.Slots, MaxContext: s.Claims.MaxContext, Stability: measured,
	}
	if s.inBitcoin() {
		h.Price = s.Price
	}
	if s.Price > 0 && (s.Rates != nil || !s.inBitcoin()) {
		h.PriceText = s.amount()
	}
	b, err := s.behaviour(ctx, nip90.Request{})
	if err != nil {
		w.c.Log.Warn("the announcement names no behaviour", "service", s.D, "err", err)
	} else if b != nil {
		h.Behaviour = b.ID
	}
	if s.Schema != "" {
		schema := json.RawMessage(s.Schema)
		if !json.Valid(schema) {
			schema, _ = json.Marshal(s.Schema) // a string always can be
		}
		h.Extra = map[string]json.RawMessage{"schema": schema}
	}
	return h
}

// stability returns the measured figures of a service, so rounded that not every job changes the announcement.
func stability(f Figures) (s nip89.Stability) {
	success, any := f.Success()
	if !any {
		return s
	}
	const steps = 20 // of 0.05
	success = math.Round(success*steps) / steps
	completed := oneDigit(float64(f.Delivered), math.Floor)
	s.SuccessRate, s.JobsCompleted = &success, &completed
	if f.Delivered > 0 {
		latency := oneDigit(float64(f.Latency.Milliseconds()), math.Round)
		s.AvgLatencyMs = &latency
	}
	return s
}

// oneDigit rounds a number to its first digit: 247 is 200.
func oneDigit(x float64, round func(float64) float64) float64 {
	if x < 1 {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	return round(x/power) * power
}

// broadcasting bounds the time that our relays have to take a public event.
const broadcasting = 20 * time.Second

// broadcast signs an event and publishes it to our relays.
func (w *Work) broadcast(ctx context.Context, e nostr.Event) (nostr.Event, error) {
	e, err := w.outbox.SignDated(ctx, e)
	if err != nil {
		return e, err
	}
	return e, w.publish(ctx, e, w.c.Relays.Ours(), broadcasting)
}

// deletion deletes the announcements of a service that are dated up to a time (NIP-09). Later ones stay, so a service that
// is resumed at once is seen at once.
func (w *Work) deletion(ctx context.Context, d string, upTo nostr.Timestamp) error {
	address := fmt.Sprintf("%d:%s:%s", nip89.Kind, w.c.PubKey.Hex(), d)
	_, err := w.broadcast(ctx, nostr.Event{
		Kind: 5, CreatedAt: upTo, Content: "closed", Tags: nostr.Tags{{"a", address}, {"k", fmt.Sprint(int(nip89.Kind))}},
	})
	return err
}

// retract deletes all announcements.
func (a *announcer) retract() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	for _, d := range slices.Sorted(maps.Keys(a.said)) {
		if s := a.said[d]; !s.deleted {
			errs = append(errs, a.deletion(ctx, d, s.event.CreatedAt))
		}
	}
	return errors.Join(errs...)
}
