package relayd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip70"
	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"guild"
)

const (
	maxSubscriptions = 64

	// messagesPerSecond bounds the messages of one connection; twice as many may come at once. Above it the relay reads
	// more slowly, and refuses nothing. Twenty jobs with feedback for every line of their workers are far below it.
	messagesPerSecond = 2000

	writePatience = 10 * time.Second // for one batch of messages
	closePatience = 500 * time.Millisecond
	proofAge      = 10 * time.Minute // NIP-42
)

var errTooSlow = errors.New("the client reads too slowly")

// session is one websocket. Its messages are handled one after the other, in order.
type session struct {
	relay     *Relay
	conn      *websocket.Conn
	out       *outbox
	cut       func() // closes the connection under the websocket
	rate      *rate.Limiter
	fail      context.CancelCauseFunc // ends the session
	challenge string
	proved    map[nostr.PubKey]bool
	open      map[string]*subscription
}

func (r *Relay) serveSession(w http.ResponseWriter, req *http.Request) {
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the front has checked
	if err != nil {
		r.config.Log.Debug("websocket refused", "err", err)
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(int64(r.maxMessage()))
	ctx, fail := context.WithCancelCause(req.Context())
	s := &session{
		relay: r, conn: conn, out: newOutbox(), cut: cutter(req.Context()), fail: fail,
		rate:      rate.NewLimiter(messagesPerSecond, 2*messagesPerSecond),
		challenge: rand.Text(),
		proved:    make(map[nostr.PubKey]bool),
		open:      make(map[string]*subscription),
	}
	err = s.run(ctx)
	r.config.Log.LogAttrs(ctx, slog.LevelDebug, "session ended", slog.Any("why", err))
}

// connKey is the key of the connection in a request's context.
type connKey struct{}

func keepConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// cutter returns a function that closes the connection of a request at once. The websocket's CloseNow would wait for a Close
// under way.
func cutter(ctx context.Context) func() {
	conn, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return func() {}
	}
	return func() { conn.Close() }
}

// run serves the session. It reads in the goroutine of the request, where net/http catches a panic.
func (s *session) run(ctx context.Context) error {
	var others errgroup.Group
	others.Go(func() error { s.fail(s.write(ctx)); return nil })
	others.Go(func() error { s.sayGoodbye(ctx); return nil })
	defer others.Wait()
	defer s.closeAll()
	defer s.fail(nil)
	return s.read(ctx)
}

// sayGoodbye closes the connection when the session ends. It waits half a second for the client's answer.
func (s *session) sayGoodbye(ctx context.Context) {
	<-ctx.Done()
	defer time.AfterFunc(closePatience, s.cut).Stop()
	if errors.Is(context.Cause(ctx), errTooSlow) {
		s.conn.Close(websocket.StatusPolicyViolation, errTooSlow.Error())
		return
	}
	s.conn.Close(websocket.StatusGoingAway, "")
}

// read handles messages until the connection closes. It reads without the context, since a cancelled one would close the
// connection before the goodbye.
func (s *session) read(ctx context.Context) error {
	if s.relay.config.RequireAuth {
		s.say(ctx, sayChallenge(s.challenge))
	}
	for {
		kind, b, err := s.conn.Read(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		if kind != websocket.MessageText {
			return errors.New("a binary message")
		}
		if err := s.rate.Wait(ctx); err != nil {
			return err
		}
		if err := s.handle(ctx, b); err != nil {
			return err
		}
	}
}

func (s *session) write(ctx context.Context) error {
	for {
		batch, err := s.out.take(ctx)
		if err != nil {
			return err
		}
		if err := s.writeBatch(batch); err != nil {
			return err
		}
	}
}

func (s *session) writeBatch(batch [][]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), writePatience)
	defer cancel()
	for _, b := range batch {
		if err := s.conn.Write(ctx, websocket.MessageText, b); err != nil {
			return err
		}
	}
	return nil
}

// say queues an answer. It fails only if the session has ended.
func (s *session) say(ctx context.Context, b []byte) error { return s.out.put(ctx, b) }

// send queues a live event, or ends the session if the client is too slow.
func (s *session) send(b []byte) {
	if !s.out.offer(b) {
		s.fail(errTooSlow)
	}
}

func (s *session) closeAll() {
	for _, sub := range s.open {
		s.relay.feed.remove(sub)
	}
}

func (s *session) handle(ctx context.Context, b []byte) error {
	m, err := parseMessage(b)
	if err != nil {
		return s.say(ctx, sayNotice("invalid: "+err.Error()))
	}
	switch m.label {
	case "EVENT":
		return s.handleEvent(ctx, m)
	case "REQ":
		return s.handleReq(ctx, m)
	case "COUNT":
		return s.handleCount(ctx, m)
	case "CLOSE":
		return s.handleClose(ctx, m)
	case "AUTH":
		return s.handleAuth(ctx, m)
	default:
		return s.say(ctx, sayNotice("invalid: unknown message"))
	}
}

// handleEvent stores an event, answers OK and then sends it to the subscribers.
func (s *session) handleEvent(ctx context.Context, m message) error {
	e, err := parseEvent(m)
	if err != nil {
		return s.say(ctx, sayNotice("invalid: "+err.Error()))
	}
	encoded, err := s.accept(e)
	if err != nil {
		return s.refuse(ctx, e.ID, err)
	}
	if err := s.say(ctx, sayOK(e.ID, true, "")); err != nil {
		return err
	}
	s.relay.feed.publish(e, encoded)
	return nil
}

// refuse answers with the reason. For an event that the relay has, or has in a newer version, the answer is true.
func (s *session) refuse(ctx context.Context, id nostr.ID, reason error) error {
	had := errors.Is(reason, errDuplicate) || errors.Is(reason, errSuperseded)
	if strings.HasPrefix(reason.Error(), "auth-required:") {
		if err := s.say(ctx, sayChallenge(s.challenge)); err != nil {
			return err
		}
	}
	return s.say(ctx, sayOK(id, had, reason.Error()))
}

// accept checks an event, stores it unless it is ephemeral, and returns it as it will be served.
func (s *session) accept(e nostr.Event) ([]byte, error) {
	if err := s.admissible(e); err != nil {
		return nil, err
	}
	encoded, err := e.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("invalid: %w", err)
	}
	if len(encoded) > s.relay.config.MaxEvent {
		return nil, fmt.Errorf("invalid: an event has at most %d bytes", s.relay.config.MaxEvent)
	}
	v, err := guild.Verify(e)
	if err != nil {
		return nil, fmt.Errorf("invalid: %w", err)
	}
	if e.Kind.IsEphemeral() {
		return encoded, nil
	}
	return encoded, s.relay.store.put(v, encoded)
}

// admissible checks everything but the signature.
func (s *session) admissible(e nostr.Event) error {
	switch {
	case s.relay.config.RequireAuth && len(s.proved) == 0:
		return errors.New("auth-required: prove a key before publishing")
	case e.CreatedAt < 0:
		return errors.New("invalid: created before 1970")
	case e.Kind == nostr.KindClientAuthentication:
		return errors.New("invalid: a proof of a key is not published")
	case expired(e, s.relay.store.stamp()):
		return errors.New("invalid: the event has expired")
	case nip70.IsProtected(e) && !s.proved[e.PubKey]:
		return errors.New("auth-required: only its author publishes a protected event")
	case nip70.HasEmbeddedProtected(e):
		return errors.New("blocked: a repost of a protected event")
	default:
		return nil
	}
}

func (s *session) handleClose(ctx context.Context, m message) error {
	id, err := m.subID()
	if err != nil {
		return s.say(ctx, sayNotice("invalid: "+err.Error()))
	}
	s.close(id)
	return nil
}

func (s *session) close(id string) {
	if sub, ok := s.open[id]; ok {
		s.relay.feed.remove(sub)
		delete(s.open, id)
	}
}

// handleReq opens a subscription, in place of another one with its id. It adds it to the feed, sends the stored events and
// EOSE, and then the events that came meanwhile.
func (s *session) handleReq(ctx context.Context, m message) error {
	req, ok, err := s.admit(ctx, m)
	if !ok {
		return err
	}
	s.close(req.id)
	if len(s.open) >= maxSubscriptions {
		return s.say(ctx, sayClosed(req.id, fmt.Sprintf("blocked: more than %d subscriptions", maxSubscriptions)))
	}
	sub := &subscription{
		filters: req.filters, prefix: eventPrefix(req.id), send: s.send, cut: func() { s.fail(errTooSlow) },
	}
	s.open[req.id] = sub
	s.relay.feed.add(sub)
	seen, err := s.sendStored(ctx, sub)
	if err != nil {
		s.close(req.id)
		return s.say(ctx, sayClosed(req.id, "error: "+err.Error()))
	}
	if err := s.say(ctx, sayEOSE(req.id)); err != nil {
		return err
	}
	sub.goLive(seen)
	return nil
}

// admit reads a REQ or COUNT. If ok is false it has answered the refusal.
func (s *session) admit(ctx context.Context, m message) (req request, ok bool, err error) {
	req, err = m.request()
	switch {
	case req.id == "":
		return req, false, s.say(ctx, sayNotice("invalid: "+err.Error()))
	case err != nil:
		return req, false, s.say(ctx, sayClosed(req.id, err.Error()))
	case s.relay.config.RequireAuth && len(s.proved) == 0:
		if err := s.say(ctx, sayChallenge(s.challenge)); err != nil {
			return req, false, err
		}
		return req, false, s.say(ctx, sayClosed(req.id, "auth-required: prove a key before reading"))
	default:
		return req, true, nil
	}
}

// sendStored sends the stored events for all filters, each event once, and returns their ids.
func (s *session) sendStored(ctx context.Context, sub *subscription) (map[nostr.ID]bool, error) {
	seen := make(map[nostr.ID]bool)
	for _, filter := range sub.filters {
		for found, err := range s.relay.store.query(ctx, filter) {
			if err != nil {
				return nil, err
			}
			if seen[found.id] {
				continue
			}
			seen[found.id] = true
			if err := s.say(ctx, sayEvent(sub.prefix, found.encoded)); err != nil {
				return nil, err
			}
		}
	}
	return seen, nil
}

func (s *session) handleCount(ctx context.Context, m message) error {
	req, ok, err := s.admit(ctx, m)
	if !ok {
		return err
	}
	n, err := s.relay.store.count(ctx, req.filters)
	if err != nil {
		return s.say(ctx, sayClosed(req.id, "error: "+err.Error()))
	}
	return s.say(ctx, sayCount(req.id, n))
}

// handleAuth takes a proof of a key (NIP-42).
func (s *session) handleAuth(ctx context.Context, m message) error {
	e, err := parseEvent(m)
	if err != nil {
		return s.say(ctx, sayNotice("invalid: "+err.Error()))
	}
	if err := s.checkProof(e); err != nil {
		return s.say(ctx, sayOK(e.ID, false, "restricted: "+err.Error()))
	}
	s.proved[e.PubKey] = true
	return s.say(ctx, sayOK(e.ID, true, ""))
}

func (s *session) checkProof(e nostr.Event) error {
	relay, challenge := e.Tags.Find("relay"), e.Tags.Find("challenge")
	age := s.relay.config.Now().Sub(e.CreatedAt.Time())
	switch {
	case e.Kind != nostr.KindClientAuthentication:
		return fmt.Errorf("kind %d is not a proof", e.Kind)
	case challenge == nil || challenge[1] != s.challenge:
		return errors.New("not our challenge")
	case relay == nil || !s.relay.isHere(relay[1]):
		return errors.New("a proof for another relay")
	case age.Abs() > proofAge:
		return errors.New("too old, or from the future")
	case len(s.proved) >= 64:
		return errors.New("too many keys on one connection")
	}
	_, err := guild.Verify(e)
	return err
}
