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

	"guild"
	"guild/nip89"
)

// How often what everybody may read of us is looked after.
const (
	refresh = 7 * 24 * time.Hour / 2 // a new announcement that says the same, so that it never looks stale
	look    = 5 * time.Minute        // our figures are looked at, and relays that were down get what they missed
)

// Claims is what an announcement says of a service beside what this node knows itself: its owner's word.
type Claims struct {
	SupplyClass string // SingleNode if empty
	Models      []string
	Hardware    nip89.Hardware
	MaxContext  int // tokens
}

// Announce publishes what we offer (kind 31990), where we read (10002, and private messages 10050) and who we are (0)
// until ctx ends, and then takes the offer back. What an announcement says is never older than the service: one that is
// paused is taken back at once. ready hears of every round that failed, and of the first that did not. Who offers nothing
// says only where it reads private messages: providers object to its verdicts in them.
func (w *Work) Announce(ctx context.Context, ready func(error)) error {
	if len(w.services) == 0 {
		ready(nil)
		w.hangLetterbox(ctx)
		<-ctx.Done()
		return nil
	}
	p := &notice{w: w, said: map[string]saying{}, figures: map[string]nip89.Stability{}}
	for failures, told := 0, false; ; {
		err := p.tell(ctx)
		wait := look
		if err != nil && ctx.Err() == nil {
			w.c.Log.Warn("the announcement was not published and will be tried again", "err", err)
			wait = min(time.Second<<failures, 10*time.Second) // soon: a second later the time is another, too
			failures = min(failures+1, 4)
		} else {
			failures = 0
		}
		if err != nil || !told {
			ready(err)
		}
		told = told || err == nil
		select {
		case <-ctx.Done():
			return p.retract()
		case <-w.reopened():
		case <-time.After(wait):
		}
	}
}

// notice is what we have told everybody since we began.
type notice struct {
	w       *Work
	said    map[string]saying // by the d of a service
	last    nostr.Timestamp   // of our latest event: the next one is later, or relays would keep the wrong one
	figures map[string]nip89.Stability

	looked     time.Time // when the figures are from
	introduced time.Time // when we last said who we are and where we read
}

// saying is the state of one announcement.
type saying struct {
	event guild.Verified
	text  string // what it says, apart from when
	at    time.Time
	back  bool // it was taken back
}

// tell publishes what has changed, and repeats the rest now and then.
func (p *notice) tell(ctx context.Context) error {
	now := p.w.c.Now()
	again := now.Sub(p.looked) >= look
	if again {
		p.looked = now
		for _, d := range p.w.order {
			p.figures[d] = stability(p.w.fold.counts(d).Figures)
		}
	}
	at := max(nostr.Timestamp(now.Unix()), p.last+1)
	var errs []error
	for _, d := range p.w.order {
		if err := p.service(ctx, p.w.services[d], at, again); err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", d, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if now.Sub(p.introduced) >= refresh && again {
		if err := p.introduce(ctx, at); err != nil {
			p.w.c.Log.Warn("who we are and where we read was not published", "err", err)
			return nil // who looks for a provider reads announcements
		}
		p.introduced = now
	}
	return nil
}

// service announces a service that is open, and takes back the announcement of one that is not.
func (p *notice) service(ctx context.Context, s Service, at nostr.Timestamp, again bool) error {
	before, announced := p.said[s.D]
	if !p.w.open(s.D) {
		if announced && before.back {
			return nil
		}
		dated := at // what an earlier run of ours announced goes, too
		if announced {
			dated = before.event.Event().CreatedAt
		}
		if err := p.deletion(ctx, s.D, dated); err != nil {
			return err
		}
		before.back = true
		p.said[s.D] = before
		p.last = max(p.last, dated)
		return nil
	}
	template := p.w.handler(s, p.figures[s.D]).Event()
	text := template.Content + fmt.Sprint(template.Tags)
	now := p.w.c.Now()
	switch {
	case !announced || before.back || before.text != text || now.Sub(before.at) >= refresh:
		template.CreatedAt = at
		p.last = at
		v, err := p.w.broadcast(ctx, template)
		if err != nil {
			return err
		}
		p.said[s.D] = saying{event: v, text: text, at: now}
	case again:
		return p.w.repeat(ctx, before.event)
	}
	return nil
}

// introduce publishes who we are and where we read, and leaves what the owner published elsewhere as it is.
func (p *notice) introduce(ctx context.Context, at nostr.Timestamp) error {
	const patience = 5 * time.Second
	theirs := map[nostr.Kind]*nostr.Event{}
	if p.w.c.Published != nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		found, err := p.w.c.Published(ctx, 0, 10002, nostr.KindDMRelayList)
		if err != nil {
			return fmt.Errorf("what is published already: %w", err)
		}
		for _, v := range found {
			if e := v.Event(); e.PubKey == p.w.c.PubKey && newest(theirs[e.Kind], e) {
				theirs[e.Kind] = &e
			}
		}
	}
	var errs []error
	for _, e := range []*nostr.Event{p.w.profile(theirs[0]), p.w.relayList(theirs[10002]), p.w.letterbox(theirs[nostr.KindDMRelayList])} {
		if e == nil {
			continue
		}
		if e.CreatedAt = at; theirs[e.Kind] != nil {
			e.CreatedAt = max(at, theirs[e.Kind].CreatedAt+1)
		}
		if _, err := p.w.broadcast(ctx, *e); err != nil {
			errs = append(errs, fmt.Errorf("kind %d: %w", e.Kind, err))
		}
	}
	return errors.Join(errs...)
}

// newest reports whether e replaces before: the later, and of two of a second the one with the lower id (NIP-01).
func newest(before *nostr.Event, e nostr.Event) bool {
	return before == nil || e.CreatedAt > before.CreatedAt || e.CreatedAt == before.CreatedAt && slices.Compare(e.ID[:], before.ID[:]) < 0
}

// about is how we call ourselves in a profile, by which we know it as ours.
const about = "a guild node"

// profile is the profile (kind 0) to publish, nil for none. One that somebody else made for this key stays: a key
// may be a person's, too. Ours is one that says no more than a name and what a node says of itself.
func (w *Work) profile(before *nostr.Event) *nostr.Event {
	ours := map[string]any{"name": w.c.Node, "about": about}
	if before != nil {
		var said map[string]any
		if json.Unmarshal([]byte(before.Content), &said) != nil || len(said) != len(ours) || said["about"] != about || said["name"] == ours["name"] {
			return nil
		}
	}
	content, err := json.Marshal(ours)
	if err != nil {
		return nil
	}
	return &nostr.Event{Kind: 0, Content: string(content)}
}

// handler is the announcement of a service.
func (w *Work) handler(s Service, measured nip89.Stability) nip89.Handler {
	h := nip89.Handler{
		PubKey: w.c.PubKey, D: s.D, Name: cmp.Or(s.Name, w.c.Node), About: s.About,
		Kinds: s.Kinds, Tasks: s.Tasks, Relays: w.c.Relays(), Encryption: []string{"nip44"}, AgeRecipient: w.c.Recipient,
		Price: s.Price, SupplyClass: cmp.Or(s.Claims.SupplyClass, "SingleNode"), Models: s.Claims.Models, Hardware: s.Claims.Hardware,
		MaxConcurrent: s.Slots, MaxContext: s.Claims.MaxContext, Stability: measured,
	}
	if s.Schema != "" {
		schema := json.RawMessage(s.Schema)
		if !json.Valid(schema) {
			schema, _ = json.Marshal(s.Schema) // a text can be written
		}
		h.Extra = map[string]json.RawMessage{"schema": schema}
	}
	return h
}

// stability is what we say of our past: measured, and so rounded that not every job is news.
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

// broadcast signs an event and publishes it to our relays.
func (w *Work) broadcast(ctx context.Context, e nostr.Event) (guild.Verified, error) {
	v, err := guild.Sign(ctx, w.c.Keyer, e)
	if err != nil {
		return v, err
	}
	return v, w.repeat(ctx, v)
}

// repeat publishes what we signed before: who has it already loses nothing.
func (w *Work) repeat(ctx context.Context, v guild.Verified) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return w.c.Publish(ctx, v, w.c.Relays())
}

// deletion takes back the announcements of a service up to a time (NIP-09). A later one is not touched by it, so a
// service that comes back at once is seen at once.
func (p *notice) deletion(ctx context.Context, d string, upTo nostr.Timestamp) error {
	address := fmt.Sprintf("%d:%s:%s", nip89.Kind, p.w.c.PubKey.Hex(), d)
	_, err := p.w.broadcast(ctx, nostr.Event{
		Kind: 5, CreatedAt: upTo, Content: "closed", Tags: nostr.Tags{{"a", address}, {"k", fmt.Sprint(int(nip89.Kind))}},
	})
	return err
}

// retract takes back what is announced.
func (p *notice) retract() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	for _, d := range slices.Sorted(maps.Keys(p.said)) {
		if s := p.said[d]; !s.back {
			errs = append(errs, p.deletion(ctx, d, s.event.Event().CreatedAt))
		}
	}
	return errors.Join(errs...)
}
