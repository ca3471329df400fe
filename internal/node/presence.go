package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/relay"
)

// kindPresence is an event of ours to ourselves: relays pass it on and keep none (NIP-01, ephemeral events). It
// has no p tag, or the inbox would get it.
const kindPresence nostr.Kind = 21990

const (
	reaching  = 3 * time.Second // for a relay, before we start without
	second    = 1100 * time.Millisecond
	quietEnds = 2 // questions without an answer, after which an older process is gone
)

// witness is what one process with our key says of itself.
type witness struct {
	Instance string `json:"instance"`
	Started  int64  `json:"started"` // Unix ms
	Node     string `json:"node"`
	Offers   bool   `json:"offers"` // may have announced its services
}

// older orders the processes: of two, both find the same one to be the older.
func (w witness) older(than witness) bool {
	return w.Started < than.Started || w.Started == than.Started && w.Instance < than.Instance
}

// AnotherError says that the services of our key are offered by an older process.
type AnotherError struct {
	PubKey  nostr.PubKey
	Node    string
	Started time.Time
}

func (e *AnotherError) Error() string {
	return fmt.Sprintf("another node with the key %s offers services already: %q, since %s",
		nip19.EncodeNpub(e.PubKey), guild.Cut(e.Node, 64), e.Started.UTC().Format(time.RFC3339))
}

// Hint says what to do instead.
func (*AnotherError) Hint() string {
	return "stop that one, or give this node a key of its own; hiring with the same key is fine"
}

// presence sees to it that of the processes with our key one offers services (docs/adr/0015). They ask and answer
// each other over the relays. Only an answer to a question of our own counts: a relay can repeat old events, and
// cannot know what we will ask.
type presence struct {
	pool   *relay.Pool
	keyer  nostr.Keyer
	pubkey nostr.PubKey
	urls   []string
	log    *slog.Logger
	now    func() time.Time

	hearing time.Duration // wait for answers
	recheck time.Duration // between two questions while another process offers our services

	questions chan nostr.ID // to be answered
	ask       chan struct{} // holds a value when we have a reason to ask
	free      chan struct{} // holds a value when services may be offered again

	mu       sync.Mutex
	self     witness
	asked    nostr.ID           // our question
	elder    *witness           // who answered it and is older
	yields   *witness           // to whom our services are left
	renewing bool               // what we announced is announced again
	silence  context.CancelFunc // ends the announcing
}

func (n *Node) openPresence() {
	n.presence = &presence{
		pool: n.pool, keyer: n.keyer, pubkey: n.pubkey, urls: normalized(n.urls), log: n.c.Log, now: n.c.Now, hearing: n.c.Hearing, recheck: 30 * time.Second,
		questions: make(chan nostr.ID, 16), ask: make(chan struct{}, 1), free: make(chan struct{}, 1),
		self: witness{Instance: rand.Text(), Started: n.started.UnixMilli(), Node: n.name()},
	}
}

// begin asks who else is here, and fails with an *AnotherError if an older process answers. Without a relay
// nobody can be asked: then we begin, and run asks as soon as there is one. Until stop, others get answers.
func (p *presence) begin(ctx context.Context) (stop func(), err error) {
	live, end := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	stop = func() {
		end()
		tasks.Wait()
	}
	ready := make(chan struct{})
	tasks.Go(func() { p.listen(live, ready) })
	tasks.Go(func() { p.answer(live) })
	select {
	case <-ready:
	case <-time.After(reaching):
		p.log.Warn("no relay can be reached yet: nobody was asked whether another node has our key")
	case <-ctx.Done():
	}
	if elder, _ := p.whoElse(ctx); elder != nil {
		stop()
		return nil, &AnotherError{p.pubkey, elder.Node, time.UnixMilli(elder.Started)}
	}
	tasks.Go(func() { p.run(live) })
	return stop, nil
}

// listen hears what processes with our key say, until ctx ends.
func (p *presence) listen(ctx context.Context, ready chan<- struct{}) {
	name := "presence of " + p.self.Instance
	defer func() {
		for _, url := range p.urls {
			p.pool.Forget(name, url)
		}
	}()
	stop, err := p.pool.Listen(ctx, name, []nostr.Filter{{
		Kinds: []nostr.Kind{kindPresence}, Authors: []nostr.PubKey{p.pubkey}, Since: nostr.Timestamp(p.now().Add(-time.Hour).Unix()),
	}}, p.hear, p.urls...)
	if err != nil {
		return // ctx has ended
	}
	close(ready)
	<-ctx.Done()
	stop()
}

// hear takes one event of a process with our key.
func (p *presence) hear(_ context.Context, _ string, v guild.Verified) {
	const most = 1 << 10
	e := v.Event()
	var other witness
	if len(e.Content) > most || json.Unmarshal([]byte(e.Content), &other) != nil || other.Instance == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other.Instance == p.self.Instance {
		return
	}
	if answers := e.Tags.Find("e"); answers != nil {
		if answers[1] == p.asked.Hex() && other.older(p.self) && (p.elder == nil || other.older(*p.elder)) {
			p.elder = &other
		}
		p.renewAfter(other)
		return
	}
	if other.older(p.self) {
		pulse(p.ask) // what it says may be a repetition: we ask it
	}
	p.renewAfter(other)
	select {
	case p.questions <- e.ID:
	default: // a flood of questions from ourselves
	}
}

// renewAfter announces our services anew when a younger process had done so: its announcements have the address
// of ours, and have replaced them. The caller holds p.mu.
func (p *presence) renewAfter(other witness) {
	if !p.self.older(other) || !other.Offers || p.yields != nil || p.silence == nil {
		return
	}
	p.renewing = true
	p.silence()
	p.silence = nil
}

// answer answers the questions of others, unless our services are left to an older one: that one answers.
func (p *presence) answer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case question := <-p.questions:
			if p.yielding() != "" {
				continue
			}
			if _, err := p.say(ctx, question); err != nil && ctx.Err() == nil {
				p.log.Debug("a node with our key got no answer", "err", err)
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}
}

// say publishes a question, or the answer to one.
func (p *presence) say(ctx context.Context, answers nostr.ID) (nostr.ID, error) {
	p.mu.Lock()
	content, err := json.Marshal(p.self)
	p.mu.Unlock()
	if err != nil {
		return nostr.ID{}, err
	}
	e := nostr.Event{Kind: kindPresence, CreatedAt: nostr.Timestamp(p.now().Unix()), Content: string(content), Tags: nostr.Tags{{"n", rand.Text()}}}
	if answers != (nostr.ID{}) {
		e.Tags = append(e.Tags, nostr.Tag{"e", answers.Hex()})
	}
	v, err := guild.Sign(ctx, p.keyer, e)
	if err != nil {
		return nostr.ID{}, err
	}
	if answers == (nostr.ID{}) {
		p.mu.Lock()
		p.asked, p.elder = v.Event().ID, nil
		p.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = p.pool.Publish(ctx, v, p.urls...)
	return v.Event().ID, err
}

// whoElse asks, and returns the oldest process that is older than this one. The error is about a question that
// no relay took, or an end of ctx.
func (p *presence) whoElse(ctx context.Context) (*witness, error) {
	if _, err := p.say(ctx, nostr.ID{}); err != nil {
		return nil, err
	}
	select {
	case <-time.After(p.hearing):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.elder, nil
}

// run asks again whenever a relay is connected anew, and when somebody older was heard.
func (p *presence) run(ctx context.Context) {
	connections := p.connections()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last time.Time
	for quiet := 0; ; {
		why := false
		select {
		case <-ctx.Done():
			return
		case <-p.ask:
			why = true
		case now := <-tick.C:
			before := connections
			connections = p.connections()
			why = slices.ContainsFunc(connections, func(c string) bool { return !slices.Contains(before, c) }) ||
				p.yielding() != "" && now.Sub(last) >= p.recheck
			if why {
				last = now
			}
		}
		if !why {
			continue
		}
		elder, err := p.whoElse(ctx)
		if err != nil {
			continue
		}
		if quiet++; elder != nil {
			quiet = 0
		}
		p.settle(elder, quiet)
	}
}

// connections tells the connections to our relays apart.
func (p *presence) connections() []string {
	var all []string
	for _, r := range p.pool.Status() {
		if r.Connected && slices.Contains(p.urls, r.URL) {
			all = append(all, fmt.Sprint(r.URL, r.Since.UnixNano()))
		}
	}
	return all
}

// settle leaves our services to an older process, or takes them up again when it is gone.
func (p *presence) settle(elder *witness, quiet int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case elder != nil && p.yields == nil:
		p.yields = elder
		if p.silence != nil {
			p.silence()
			p.silence = nil
		}
		p.log.Warn("our services are paused: an older node with the same key offers them",
			"node", guild.Cut(elder.Node, 64), "since", time.UnixMilli(elder.Started).UTC())
	case elder == nil && p.yields != nil && quiet >= quietEnds:
		p.yields = nil
		p.log.Warn("our services are offered again: the other node with the same key is gone")
		pulse(p.free)
	}
}

// yielding says why our services are paused, or nothing.
func (p *presence) yielding() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.yields == nil {
		return ""
	}
	return (&AnotherError{p.pubkey, p.yields.Node, time.UnixMilli(p.yields.Started)}).Error()
}

// keepsCards reports whether what was announced under our key must not be taken back when we fall silent:
// because another process offers it, or because we announce it again at once.
func (p *presence) keepsCards() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.yields != nil || p.renewing
}

// turn waits until services may be announced, and returns a context that ends when they must not be any more. The
// caller has stopped announcing.
func (p *presence) turn(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.keepsCards() { // of two announcements of one second, chance would say which one counts
		select {
		case <-time.After(second):
		case <-ctx.Done():
		}
	}
	for {
		p.mu.Lock()
		if p.yields == nil {
			turn, end := context.WithCancel(ctx)
			p.silence, p.renewing, p.self.Offers = end, false, true
			p.mu.Unlock()
			return turn, end
		}
		announced := p.self.Offers
		p.mu.Unlock()
		if announced {
			p.leave(ctx)
		}
		select {
		case <-p.free:
		case <-time.After(p.recheck):
		case <-ctx.Done():
			return ctx, func() {}
		}
	}
}

// leave says once more that we had announced our services, now that we do not any longer: whoever is older
// announces them again then. It is no question, so it names the one that we asked.
func (p *presence) leave(ctx context.Context) {
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	if _, err := p.say(ctx, asked); err != nil {
		return // it is said again
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.self.Offers = p.yields == nil
}

func pulse(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
