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
	"guild/internal/hand/relay"
)

// kindPresence is an event from one process with our key to the others: ephemeral (NIP-01), so that relays pass it on and do
// not keep it. It has no p tag, so that the subscription to what is addressed to us does not match it.
const kindPresence nostr.Kind = 21990

const (
	reaching  = 3 * time.Second // how long a relay is waited for before we start without one
	second    = 1100 * time.Millisecond
	quietEnds = 2 // questions in a row without an answer, after which an older process counts as gone
)

// process describes a process with our key, in the content of its events.
type process struct {
	Instance string `json:"instance"`
	Started  int64  `json:"started"` // Unix ms
	Node     string `json:"node"`
	Offers   bool   `json:"offers"` // may have announced its services
}

// older reports whether p is older. Of two processes, both come to the same answer.
func (p process) older(than process) bool {
	return p.Started < than.Started || p.Started == than.Started && p.Instance < than.Instance
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

// presence makes sure that only one of the processes with our key offers services (docs/adr/0015). They ask and answer each
// other over the relays. Only an answer to a question of our own counts: a relay can repeat old events, but cannot predict
// the id of our question.
type presence struct {
	pool   *relay.Pool
	keyer  nostr.Keyer
	pubkey nostr.PubKey
	urls   []string
	log    *slog.Logger
	now    func() time.Time

	hearing time.Duration // how long answers are waited for
	recheck time.Duration // between two questions while another process offers our services

	questions chan nostr.ID // to be answered
	ask       chan struct{} // holds a value when we have a reason to ask
	free      chan struct{} // holds a value when services may be offered again

	mu       sync.Mutex
	self     process
	asked    nostr.ID           // our question
	elder    *process           // the oldest that answered it, if older than we are
	yields   *process           // to which our services are left
	renewing bool               // our announcements are to be published again
	retract  context.CancelFunc // ends the announcing
}

func (n *Node) openPresence() {
	n.presence = &presence{
		pool: n.pool, keyer: n.keyer, pubkey: n.pubkey, urls: normalized(n.urls), log: n.c.Log, now: n.c.Now, hearing: n.c.Hearing, recheck: 30 * time.Second,
		questions: make(chan nostr.ID, 16), ask: make(chan struct{}, 1), free: make(chan struct{}, 1),
		self: process{Instance: rand.Text(), Started: n.started.UnixMilli(), Node: n.name()},
	}
}

// begin asks for other processes, and returns an *AnotherError if an older one answers. If no relay can be reached, it
// returns nil and run asks once there is one. Until stop, the questions of others are answered.
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
		p.log.Warn("no relay can be reached yet to ask whether another node has our key")
	case <-ctx.Done():
	}
	if elder, _ := p.askOthers(ctx); elder != nil {
		stop()
		return nil, &AnotherError{p.pubkey, elder.Node, time.UnixMilli(elder.Started)}
	}
	tasks.Go(func() { p.run(live) })
	return stop, nil
}

// listen subscribes to the events of processes with our key until ctx ends. It closes ready once a relay is subscribed to.
func (p *presence) listen(ctx context.Context, ready chan<- struct{}) {
	name := "presence of " + p.self.Instance
	defer func() {
		for _, url := range p.urls {
			p.pool.Forget(name, url)
		}
	}()
	stop, err := p.pool.Listen(ctx, name, []nostr.Filter{{
		Kinds: []nostr.Kind{kindPresence}, Authors: []nostr.PubKey{p.pubkey}, Since: nostr.Timestamp(p.now().Add(-time.Hour).Unix()),
	}}, p.receive, p.urls...)
	if err != nil {
		return // ctx has ended
	}
	close(ready)
	<-ctx.Done()
	stop()
}

// receive takes one event of a process with our key.
func (p *presence) receive(_ context.Context, _ string, v guild.Verified) {
	const most = 1 << 10
	e := v.Event()
	var other process
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
		pulse(p.ask) // the event may be an old one, so we ask
	}
	p.renewAfter(other)
	select {
	case p.questions <- e.ID:
	default: // too many questions
	}
}

// renewAfter has our services announced again if other is younger and has announced them: its announcements have replaced
// ours, which have the same address. The caller holds p.mu.
func (p *presence) renewAfter(other process) {
	if !p.self.older(other) || !other.Offers || p.yields != nil || p.retract == nil {
		return
	}
	p.renewing = true
	p.retract()
	p.retract = nil
}

// answer answers the questions of others until ctx ends, unless our services are left to an older process, which answers.
func (p *presence) answer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case question := <-p.questions:
			if p.yielding() != "" {
				continue
			}
			if _, err := p.publish(ctx, question); err != nil && ctx.Err() == nil {
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

// publish publishes a question, or an answer to the question answers.
func (p *presence) publish(ctx context.Context, answers nostr.ID) (nostr.ID, error) {
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

// askOthers asks, and returns the oldest process that is older than this one, or nil. It returns an error if no relay took
// the question, or ctx ended.
func (p *presence) askOthers(ctx context.Context) (*process, error) {
	if _, err := p.publish(ctx, nostr.ID{}); err != nil {
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

// run asks again when a relay is connected, and when an older process sent something.
func (p *presence) run(ctx context.Context) {
	connections := p.connections()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last time.Time
	for quiet := 0; ; {
		ask := false
		select {
		case <-ctx.Done():
			return
		case <-p.ask:
			ask = true
		case now := <-tick.C:
			before := connections
			connections = p.connections()
			ask = slices.ContainsFunc(connections, func(c string) bool { return !slices.Contains(before, c) }) ||
				p.yielding() != "" && now.Sub(last) >= p.recheck
			if ask {
				last = now
			}
		}
		if !ask {
			continue
		}
		elder, err := p.askOthers(ctx)
		if err != nil {
			continue
		}
		quiet++
		if elder != nil {
			quiet = 0
		}
		p.settle(elder, quiet)
	}
}

// connections identifies the present connections to our relays.
func (p *presence) connections() []string {
	var all []string
	for _, r := range p.pool.Status() {
		if r.Connected && slices.Contains(p.urls, r.URL) {
			all = append(all, fmt.Sprint(r.URL, r.Since.UnixNano()))
		}
	}
	return all
}

// settle leaves our services to an older process, or resumes them when it is gone: after quiet questions without an answer.
func (p *presence) settle(elder *process, quiet int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case elder != nil && p.yields == nil:
		p.yields = elder
		if p.retract != nil {
			p.retract()
			p.retract = nil
		}
		p.log.Warn("our services are paused: an older node with the same key offers them",
			"node", guild.Cut(elder.Node, 64), "since", time.UnixMilli(elder.Started).UTC())
	case elder == nil && p.yields != nil && quiet >= quietEnds:
		p.yields = nil
		p.log.Warn("our services are offered again: the other node with the same key is gone")
		pulse(p.free)
	}
}

// yielding returns why our services are paused, "" if they are not.
func (p *presence) yielding() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.yields == nil {
		return ""
	}
	return (&AnotherError{p.pubkey, p.yields.Node, time.UnixMilli(p.yields.Started)}).Error()
}

// keepsAnnouncements reports whether our announcements must not be deleted when we stop announcing: another process offers
// the same services, or we announce them again at once.
func (p *presence) keepsAnnouncements() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.yields != nil || p.renewing
}

// turn waits until services may be announced, and returns a context that ends when they must not be any more. The caller
// must not be announcing.
func (p *presence) turn(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.keepsAnnouncements() { // relays may keep either of two announcements with the same time
		select {
		case <-time.After(second):
		case <-ctx.Done():
		}
	}
	for {
		p.mu.Lock()
		if p.yields == nil {
			turn, end := context.WithCancel(ctx)
			p.retract, p.renewing, p.self.Offers = end, false, true
			p.mu.Unlock()
			return turn, end
		}
		announced := p.self.Offers
		p.mu.Unlock()
		if announced {
			p.sayStopped(ctx)
		}
		select {
		case <-p.free:
		case <-time.After(p.recheck):
		case <-ctx.Done():
			return ctx, func() {}
		}
	}
}

// sayStopped tells an older process that we had announced our services and do not any longer, so that it announces them
// again. The event is not a question, so it names ours.
func (p *presence) sayStopped(ctx context.Context) {
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	if _, err := p.publish(ctx, asked); err != nil {
		return // turn tries again
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
