package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip42"

	"guild"
)

var errTimeout = errors.New("no answer in time")

const unreachablePrefix = "unreachable: "

func unreachable(url string, err error) Ack {
	return Ack{URL: url, Message: printable(unreachablePrefix + err.Error())}
}

// Unreachable reports whether the relay could not be asked.
func (a Ack) Unreachable() bool { return !a.OK && strings.HasPrefix(a.Message, unreachablePrefix) }

func isAuth(text string) bool { return strings.HasPrefix(text, "auth-required:") }

// Publish sends an event to the given relays, or without any to all that are held, and waits for their answers. It connects
// to relays that are not in the pool, and authenticates if a relay asks for it. The error is nil if at least one relay has
// the event, a *RefusedError if some were reached and none has it, and matches ErrNoRelay if none was reached.
func (p *Pool) Publish(ctx context.Context, e guild.Verified, urls ...string) ([]Ack, error) {
	id := e.Event().ID
	frame, err := eventFrame(e.Event())
	if err != nil {
		return nil, fmt.Errorf("publish %.8s: %w", id.Hex(), err)
	}
	p.seen.add(e)
	links, acks := p.visit(urls)
	said := each(p, links, func(l *link) Ack { return l.publish(ctx, id, frame) })
	acks = append(acks, said...)
	if err := verdict(acks); err != nil {
		return acks, fmt.Errorf("publish %.8s: %w", id.Hex(), err)
	}
	return acks, nil
}

// verdict returns the error of a publication, given the answers of all relays.
func verdict(acks []Ack) error {
	var errs []error
	for _, a := range acks {
		if a.OK {
			return nil
		}
		if a.Unreachable() {
			errs = append(errs, fmt.Errorf("%s: %s", a.URL, a.Message))
		}
	}
	if len(errs) == len(acks) {
		return errors.Join(append([]error{ErrNoRelay}, errs...)...)
	}
	return &RefusedError{acks}
}

// each runs f for all links at the same time, and leaves them.
func each[T any](p *Pool, links []*link, f func(*link) T) []T {
	results := make([]T, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		run := func() {
			defer p.leave(l)
			results[i] = f(l)
		}
		if i == len(links)-1 {
			run()
			break
		}
		wg.Go(run)
	}
	wg.Wait()
	return results
}

func (l *link) publish(ctx context.Context, id nostr.ID, frame []byte) Ack {
	ctx, cancel := context.WithTimeoutCause(ctx, reply, errTimeout)
	defer cancel()
	s, err := l.connected(ctx)
	if err != nil {
		return unreachable(l.url, err)
	}
	ack := s.publish(ctx, id, frame)
	if isAuth(ack.Message) && s.authenticate(ctx) == nil {
		ack = s.publish(ctx, id, frame)
	}
	ack.OK = ack.OK || strings.HasPrefix(ack.Message, "duplicate:")
	return ack
}

// publish sends a message with an event and waits for the relay's OK.
func (s *session) publish(ctx context.Context, id nostr.ID, frame []byte) Ack {
	answer := make(chan Ack, 1)
	s.mu.Lock()
	s.answers[id] = append(s.answers[id], answer)
	s.mu.Unlock()
	defer s.unawait(id, answer)
	began := s.pool.cfg.Now()
	if err := s.send(ctx, frame); err != nil {
		return unreachable(s.link.url, err)
	}
	var ack Ack
	var err error
	select {
	case ack = <-answer:
	case <-s.done:
		err = errLost
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.measure(began, err)
	if err != nil {
		return unreachable(s.link.url, err)
	}
	return ack
}

// answer passes an OK to all calls that wait for it.
func (s *session) answer(id nostr.ID, ack Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, answer := range s.answers[id] {
		answer <- ack // has room: each channel gets one answer
	}
	delete(s.answers, id)
}

func (s *session) unawait(id nostr.ID, answer chan<- Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(s.answers[id], func(other chan<- Ack) bool { return other == answer })
	if len(left) == 0 {
		delete(s.answers, id)
		return
	}
	s.answers[id] = left
}

// authenticate answers the relay's challenge (NIP-42).
//
// A relay may refuse many requests at the same time with "auth-required:". Each of their callers calls authenticate and then
// tries again. The first one answers the challenge while the others wait for s.auth; then they find it answered. A relay may
// send a new challenge at any time, so the answered one is remembered, not just that one was.
func (s *session) authenticate(ctx context.Context) error {
	signer := s.pool.cfg.Signer
	if signer == nil {
		return errors.New("the relay wants authentication and there is no key for it")
	}
	select {
	case s.auth <- struct{}{}:
		defer func() { <-s.auth }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	challenge := s.challenge
	s.mu.Unlock()
	switch challenge {
	case "":
		return errors.New("the relay wants authentication and has sent no challenge")
	case s.authed:
		return nil
	}
	if err := s.answerChallenge(ctx, signer, challenge); err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	s.authed = challenge
	return nil
}

func (s *session) answerChallenge(ctx context.Context, signer nostr.Signer, challenge string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reply, errTimeout)
	defer cancel()
	key, err := signer.GetPublicKey(ctx)
	if err != nil {
		return err
	}
	template := nip42.CreateUnsignedAuthEvent(challenge, key, s.link.url)
	template.CreatedAt = s.pool.now()
	signed, err := guild.Sign(ctx, signer, template)
	if err != nil {
		return err
	}
	frame, err := authFrame(signed.Event())
	if err != nil {
		return err
	}
	if ack := s.publish(ctx, signed.Event().ID, frame); !ack.OK {
		return errors.New(ack.Message)
	}
	return nil
}

// Query returns the stored events of the given relays, or without any of all that are held, each once, the newest first. A
// relay may stop at some number; ask for older events with Until then. The error is nil if at least one relay has answered
// in full. Events that came before an error are returned with it.
func (p *Pool) Query(ctx context.Context, filters []nostr.Filter, urls ...string) ([]guild.Verified, error) {
	links, failed := p.visit(urls)
	found := each(p, links, func(l *link) finding { return l.query(ctx, p.plain(filters)) })
	errs := make([]error, 0, len(failed)+1)
	for _, a := range failed {
		errs = append(errs, fmt.Errorf("%s: %s", a.URL, a.Message))
	}
	events := make(map[nostr.ID]guild.Verified)
	complete := false
	for i, f := range found {
		complete = complete || f.err == nil
		if f.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", links[i].url, f.err))
		}
		for _, v := range f.events {
			events[v.Event().ID] = v
		}
	}
	sorted := newestFirst(events)
	if complete {
		return sorted, nil
	}
	if len(errs) == 0 {
		errs = append(errs, ErrNoRelay)
	}
	return sorted, fmt.Errorf("query: %w", errors.Join(errs...))
}

func newestFirst(events map[nostr.ID]guild.Verified) []guild.Verified {
	sorted := make([]guild.Verified, 0, len(events))
	for _, v := range events {
		sorted = append(sorted, v)
	}
	slices.SortFunc(sorted, func(a, b guild.Verified) int {
		x, y := a.Event(), b.Event()
		if x.CreatedAt != y.CreatedAt {
			return int(min(max(y.CreatedAt-x.CreatedAt, -1), 1))
		}
		return strings.Compare(string(x.ID[:]), string(y.ID[:]))
	})
	return sorted
}

// finding is the answer of one relay to a query.
type finding struct {
	events []guild.Verified
	err    error
}

func (l *link) query(ctx context.Context, filters []nostr.Filter) finding {
	ctx, cancel := context.WithTimeoutCause(ctx, reply, errTimeout)
	defer cancel()
	s, err := l.connected(ctx)
	if err != nil {
		return finding{err: fmt.Errorf("%w: %w", ErrNoRelay, err)}
	}
	items, closed, err := s.query(ctx, filters)
	if isAuth(closed) && s.authenticate(ctx) == nil {
		items, closed, err = s.query(ctx, filters)
	}
	if err == nil && closed != "" {
		err = errors.New(closed)
	}
	return finding{s.verified(ctx, items), err}
}

func (s *session) query(ctx context.Context, filters []nostr.Filter) (items []*item, closed string, err error) {
	q := &query{over: make(chan struct{})}
	st := &stream{filters: filters, query: q}
	began := s.pool.cfg.Now()
	if err := s.open(ctx, st); err != nil {
		s.forget(st)
		return nil, "", err
	}
	defer s.close(context.WithoutCancel(ctx), st)
	select {
	case <-q.over:
	case <-s.done:
		err = errLost
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.measure(began, err)
	items, closed = q.found()
	return items, closed, err
}

func (s *session) verified(ctx context.Context, items []*item) []guild.Verified {
	var good []guild.Verified
	for _, it := range items {
		v, err := it.verify(s.pool.seen)
		if err != nil {
			s.rejectEvent(ctx, it.event, err)
			continue
		}
		s.link.events.Add(1)
		good = append(good, v)
	}
	return good
}
