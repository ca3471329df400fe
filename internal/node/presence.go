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

// kindPresence is the kind of the events by which processes with our key find each other. It is ephemeral (NIP-01), so
// relays forward it and do not store it. The events have no p tag, so that our subscription to events addressed to us
// does not match them.
const kindPresence nostr.Kind = 21990

const (
	reaching  = 3 * time.Second // maximum wait for a relay before we start without one
	second    = 1100 * time.Millisecond
	quietEnds = 2 // unanswered questions in a row after which an older process counts as stopped
)

// process describes a process with our key. It is the content of its events.
type process struct {
	Instance string `json:"instance"`
	Started  int64  `json:"started"` // Unix ms
	Node     string `json:"node"`
	Offers   bool   `json:"offers"` // it may have announced its services
}

// older reports whether p is older than another process. Two processes that compare each other get the same answer.
func (p process) older(than process) bool {
	return p.Started < than.Started || p.Started == than.Started && p.Instance < than.Instance
}

// AnotherError reports that an older process with our key offers services.
type AnotherError struct {
	PubKey  nostr.PubKey
	Node    string
	Started time.Time
}

func (e *AnotherError) Error() string {
	return fmt.Sprintf("another node with the key %s offers services already: %q, since %s",
		nip19.EncodeNpub(e.PubKey), guild.Cut(e.Node, 64), e.Started.UTC().Format(time.RFC3339))
}

// Hint returns what to do instead.
func (*AnotherError) Hint() string {
	return "stop that one, or give this node a key of its own; hiring with the same key is fine"
}

// presence ensures that only one of the processes with our key offers services (docs/adr/0015). They ask and answer
// each other over the relays. Only an answer to our own current question counts: a relay can replay old events, but
// cannot predict the id of a question.
//
// The oldest process wins, because every process can determine that from the same two numbers, without a lock anywhere.
// A younger one that starts refuses to; one that meets an older one later pauses, and resumes when that is gone.
type presence struct {
	pool   *relay.Pool
	keyer  nostr.Keyer
	pubkey nostr.PubKey
	urls   []string
	log    *slog.Logger
	now    func() time.Time

	hearing time.Duration // wait for answers
	recheck time.Duration // interval of questions while another process offers our services

	questions chan nostr.ID // received questions
	ask       chan struct{} // signals a reason to ask
	free      chan struct{} // signals that services may be offered again

	mu       sync.Mutex
	self     process
	asked    nostr.ID           // our latest question
	elder    *process           // the oldest process that answered it, if it is older than this one
	yields   *process           // the process that offers our services instead; nil if we do
	renewing bool               // our announcements must be published again
	retract  context.CancelFunc // stops announcing
}

// begin asks for other processes, and returns an *AnotherError if an older one answers. If no relay is reachable, it
// returns nil, and run asks as soon as one is. Questions of others are answered until stop is called.
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

// listen subscribes to the events of processes with our key until ctx ends. It closes ready when a relay has accepted
// the subscription.
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

// receive processes an event of a process with our key.
//
// An answer counts only if it names the question that is open now. An old event of an older process can therefore make
// this one ask, but not pause. The content is checked although our own key signed it, because a relay can replay events
// of any age.
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
		pulse(p.ask) // ask, because this event may be a replay
	}
	p.renewAfter(other)
	select {
	case p.questions <- e.ID:
	default: // too many questions
	}
}

// renewAfter makes us announce our services again if other is younger and has announced them: its announcements have
// the same addresses as ours and have replaced them. The caller must hold p.mu.
func (p *presence) renewAfter(other process) {
	if !p.self.older(other) || !other.Offers || p.yields != nil || p.retract == nil {
		return
	}
	p.renewing = true
	p.retract()
	p.retract = nil
}

// answer answers the questions of others until ctx ends. While an older process offers our services, that one answers
// instead.
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

// publish publishes a question or, if answers is set, an answer to that question.
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
	// The id must be known before the event is published, because an answer may arrive before Publish returns.
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

// askOthers publishes a question, and returns the oldest process that is older than this one, or nil. It returns an
// error if no relay accepted the question or ctx ended.
func (p *presence) askOthers(ctx context.Context) (*process, error) {
	if _, err := p.publish(ctx, nostr.ID{}); err != nil {
		return nil, err
	}
	select {
	case <-time.After(p.hearing):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return p.answered(), nil
}

// answered returns the oldest process that has answered our latest question, if it is older than this one.
func (p *presence) answered() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.elder
}

// run asks again when a relay was connected, when an older process sent something, and every recheck while another
// process offers our services. Without an answer it asks a second time after recheck, as relays lose ephemeral events.
func (p *presence) run(ctx context.Context) {
	connections := p.connections()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := time.Now()
	due := quietEnds - 1 // questions to ask; begin has asked one
	var counted time.Time
	for quiet := 0; ; {
		ask := false
		select {
		case <-ctx.Done():
			return
		case <-p.ask:
			due, ask = quietEnds, true
		case now := <-tick.C:
			if elder := p.answered(); elder != nil { // later than askOthers waits
				quiet = 0
				p.settle(elder, quiet)
			}
			before := connections
			connections = p.connections()
			// A new connection may lead to a process that could not be reached before.
			if slices.ContainsFunc(connections, func(c string) bool { return !slices.Contains(before, c) }) {
				due, ask = quietEnds, true
			}
			ask = ask || (due > 0 || p.yielding() != "") && now.Sub(last) >= p.recheck
		}
		if !ask {
			continue
		}
		elder, err := p.askOthers(ctx)
		last = time.Now()
		if err != nil {
			continue
		}
		due--
		switch {
		case elder != nil:
			due, quiet = 0, 0
		case last.Sub(counted) >= p.recheck: // of questions in between, a late answer to the first would not count
			quiet, counted = quiet+1, last
		}
		p.settle(elder, quiet)
	}
}

// connections returns identifiers of the current connections to our relays.
func (p *presence) connections() []string {
	var all []string
	for _, r := range p.pool.Status() {
		if r.Connected && slices.Contains(p.urls, r.URL) {
			all = append(all, fmt.Sprint(r.URL, r.Since.UnixNano()))
		}
	}
	return all
}

// settle leaves our services to an older process. It resumes them when that process is gone: after quiet unanswered
// questions in a row.
//
// One lost answer must not end a pause, because two nodes would then announce at once. So it takes quietEnds questions
// without an answer.
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
		pulse(p.ask) // another that was paused may have come back, too
	}
}

// yielding returns the reason why our services are paused, or "".
func (p *presence) yielding() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.yields == nil {
		return ""
	}
	return (&AnotherError{p.pubkey, p.yields.Node, time.UnixMilli(p.yields.Started)}).Error()
}

// keepsAnnouncements reports whether our announcements must not be deleted when announcing stops: another process
// offers the same services, or we announce them again immediately.
func (p *presence) keepsAnnouncements() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.yields != nil || p.renewing
}

// turn waits until services may be announced, and returns a context that ends when they must not be announced any more.
// Only one turn may be active.
//
// It first waits until the clock's second has changed if announcements were replaced or are published again: a relay
// may keep either of two replaceable events with the same time.
func (p *presence) turn(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.keepsAnnouncements() { // of two announcements with the same time, relays may keep either
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

// sayStopped tells an older process that we had announced our services and have stopped, so that it announces them
// again. The event refers to our own question, so that it is not taken for a question.
func (p *presence) sayStopped(ctx context.Context) {
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	if _, err := p.publish(ctx, asked); err != nil {
		return // turn calls it again
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
