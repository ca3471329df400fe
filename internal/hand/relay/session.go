package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
)

const (
	pingEvery  = 30 * time.Second
	pongWithin = 10 * time.Second
	maxRaw     = 4 << 10 // bytes of a dropped message that are reported
	maxStreams = 512     // open at one relay at a time
	maxClosed  = 64      // ended streams that are remembered, since events for them may still come
)

var errLost = errors.New("the connection was lost")

// session is one connection. Four goroutines serve it: read, write, ping, and deliver, which gives the events to Receive in
// their order and drives the feeds. Between read and deliver is a bounded queue.
//
// Answers to publications and queries do not pass the queue: the reader gives them to the callers that wait. Otherwise a
// Receive that publishes would wait for an answer that is behind it in the queue.
type session struct {
	link   *link
	pool   *Pool
	ws     *websocket.Conn
	out    chan []byte
	queue  *queue
	redo   chan *feed    // feeds to be started again
	woken  chan struct{} // receives when subscriptions have changed, or a feed has lost events
	frames atomic.Uint64 // number that were read
	tasks  sync.WaitGroup

	done chan struct{} // closed when the connection has ended

	mu        sync.Mutex
	streams   map[string]*stream // by our id
	closed    []string           // ids of the streams that ended last
	serial    int
	answers   map[nostr.ID][]chan<- Ack
	challenge string

	auth   chan struct{} // a lock for authenticate and authed, which ctx can interrupt
	authed string        // the challenge that was answered

	feeds map[string]*feed // by name of the subscription; only for deliver
}

func newSession(l *link, ws *websocket.Conn) *session {
	return &session{
		link: l, pool: l.pool, ws: ws,
		out:     make(chan []byte, 16),
		queue:   newQueue(),
		redo:    make(chan *feed),
		woken:   make(chan struct{}, 1),
		done:    make(chan struct{}),
		streams: make(map[string]*stream),
		answers: make(map[nostr.ID][]chan<- Ack),
		auth:    make(chan struct{}, 1),
		feeds:   make(map[string]*feed),
	}
}

// run serves the connection until it ends and all events that came before were delivered.
func (s *session) run(ctx context.Context) error {
	live, end := context.WithCancelCause(ctx)
	defer end(nil)
	var ioTasks sync.WaitGroup
	for _, task := range []func(context.Context) error{s.read, s.write, s.ping} {
		ioTasks.Go(func() { end(task(live)) })
	}
	s.tasks.Go(func() { s.deliver(ctx, live) })
	<-live.Done()
	close(s.done)
	s.ws.CloseNow()
	ioTasks.Wait()
	s.tasks.Wait()
	return context.Cause(live)
}

func (s *session) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// read reads all messages of the connection.
func (s *session) read(ctx context.Context) error {
	defer close(s.queue.items)
	var buf bytes.Buffer
	for {
		kind, r, err := s.ws.Reader(ctx)
		if err != nil {
			return lost(err)
		}
		s.frames.Add(1)
		buf.Reset()
		if _, err := buf.ReadFrom(io.LimitReader(r, int64(s.pool.cfg.MaxEvent)+1)); err != nil {
			return lost(err)
		}
		switch {
		case buf.Len() > s.pool.cfg.MaxEvent:
			s.link.reject(ctx, TooLarge, buf.Bytes())
			if _, err := io.Copy(io.Discard, r); err != nil {
				return lost(err)
			}
			buf = bytes.Buffer{}
		case kind != websocket.MessageText:
			s.link.reject(ctx, Malformed, buf.Bytes())
		default:
			s.take(ctx, buf.Bytes())
		}
	}
}

func lost(err error) error { return fmt.Errorf("%w: %w", errLost, err) }

// take handles one message.
func (s *session) take(ctx context.Context, raw []byte) {
	m, err := parse(raw)
	if err != nil {
		s.link.reject(ctx, Malformed, raw)
		return
	}
	switch m.label {
	case "EVENT":
		s.takeEvent(ctx, m, raw)
	case "EOSE", "CLOSED":
		s.takeEnd(ctx, m)
	case "OK":
		s.answer(m.id, Ack{URL: s.link.url, OK: m.ok, Message: m.text})
	case "AUTH":
		s.mu.Lock()
		s.challenge = m.text
		s.mu.Unlock()
	case "NOTICE":
		s.pool.cfg.Log.Debug("relay notice", "url", s.link.url, "notice", m.text)
	}
}

func (s *session) takeEvent(ctx context.Context, m message, raw []byte) {
	st, ours := s.stream(m.sub)
	if st == nil && ours {
		return // the relay sent it before it got our CLOSE
	}
	if st == nil || !st.asksFor(m.event) {
		s.link.reject(ctx, Unsolicited, raw)
		return
	}
	it := &item{stream: st, event: m.event}
	if st.query != nil {
		if st.query.add(it) {
			s.pool.offer(it)
		}
		return
	}
	it.ignored = s.pool.cfg.Ignore != nil && s.pool.cfg.Ignore(m.event)
	if s.queue.put(ctx, it) {
		if len(s.queue.items) > 1 && !it.ignored {
			s.pool.offer(it)
		}
		return
	}
	st.feed.lost.Store(true)
	s.wake()
}

func (s *session) takeEnd(ctx context.Context, m message) {
	st, _ := s.stream(m.sub)
	if st == nil || m.label == "EOSE" && st.eose {
		return
	}
	st.eose = true
	if m.label == "CLOSED" {
		s.forget(st)
	}
	if st.query != nil {
		st.query.finish(m.label, m.text)
		return
	}
	s.queue.put(ctx, &item{stream: st, end: m.label, text: m.text})
}

// deliver handles the messages in the queue, in their order, and drives the feeds. After the end of the connection it goes on
// until the queue is empty.
func (s *session) deliver(ctx, live context.Context) {
	s.reconcile(live)
	for {
		select {
		case it, more := <-s.queue.items:
			if !more {
				return
			}
			s.handle(ctx, live, it)
			s.queue.done(it)
			s.recover(live)
		case f := <-s.redo:
			if s.feeds[f.sub.name] == f {
				f.start(live)
			}
		case <-s.woken:
			s.reconcile(live)
			s.recover(live)
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) handle(ctx, live context.Context, it *item) {
	f := it.stream.feed
	switch it.end {
	case "EOSE":
		f.eose(live, it.stream)
	case "CLOSED":
		f.closed(live, it.stream, it.text)
	default:
		s.handleEvent(ctx, f, it)
	}
}

func (s *session) handleEvent(ctx context.Context, f *feed, it *item) {
	known := s.pool.seen.delivered(it.event.ID) && guild.EventID(it.event) == it.event.ID
	if !known && !it.ignored {
		v, err := it.verify(s.pool.seen)
		if err != nil {
			s.rejectEvent(ctx, it.event, err)
			return
		}
		s.link.events.Add(1)
		if s.pool.seen.deliver(it.event.ID) {
			f.sub.receive(ctx, s.link.url, v)
		}
	}
	if ctx.Err() == nil {
		f.read(it.stream, it.event)
	}
}

// rejectEvent reports an event with a wrong id or signature.
func (s *session) rejectEvent(ctx context.Context, e nostr.Event, err error) {
	reason := BadSignature
	if errors.Is(err, guild.ErrWrongID) {
		reason = WrongID
	}
	s.link.reject(ctx, reason, []byte(e.String()))
}

// reconcile starts and stops feeds until they are those of the subscriptions at this relay.
func (s *session) reconcile(live context.Context) {
	wanted := s.pool.standingAt(s.link.url)
	for name, f := range s.feeds {
		if wanted[name] != f.sub {
			f.stop(live)
			delete(s.feeds, name)
		}
	}
	for name, sub := range wanted {
		if s.feeds[name] == nil {
			f := &feed{session: s, sub: sub}
			s.feeds[name] = f
			f.start(live)
		}
	}
}

// recover starts feeds again that lost events to a full queue, once the queue is half empty.
func (s *session) recover(live context.Context) {
	if !s.queue.half() {
		return
	}
	for _, f := range s.feeds {
		if f.lost.Swap(false) {
			f.start(live)
		}
	}
}

// write writes all messages to the connection.
func (s *session) write(ctx context.Context) error {
	for {
		select {
		case frame := <-s.out:
			if err := s.writeFrame(ctx, frame); err != nil {
				return lost(err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *session) writeFrame(ctx context.Context, frame []byte) error {
	ctx, cancel := context.WithTimeout(ctx, reply)
	defer cancel()
	return s.ws.Write(ctx, websocket.MessageText, frame)
}

// send passes a message to write.
func (s *session) send(ctx context.Context, frame []byte) error {
	select {
	case s.out <- frame:
		return nil
	case <-s.done:
		return errLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ping ends the connection if the relay does not answer, or is not needed any more.
func (s *session) ping(ctx context.Context) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if s.link.unused() {
			return errors.New("not needed any more")
		}
		before := s.frames.Load()
		if err := s.pong(ctx); err != nil && s.frames.Load() == before && !s.busy() {
			return fmt.Errorf("no answer to a ping within %v", pongWithin)
		}
	}
}

func (s *session) pong(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pongWithin)
	defer cancel()
	return s.ws.Ping(ctx)
}

// busy reports whether the reader may be waiting for the queue, and so may not have read the pong.
func (s *session) busy() bool { return !s.queue.half() }

// open sends the REQ of a stream.
func (s *session) open(ctx context.Context, st *stream) error {
	s.mu.Lock()
	if len(s.streams) >= maxStreams {
		s.mu.Unlock()
		return fmt.Errorf("%d subscriptions are open", maxStreams)
	}
	s.serial++
	st.id = strconv.Itoa(s.serial)
	s.streams[st.id] = st
	s.mu.Unlock()
	frame, err := reqFrame(st.id, st.filters)
	if err != nil {
		return err
	}
	return s.send(ctx, frame)
}

// close ends a stream, unless the relay has ended it.
func (s *session) close(ctx context.Context, st *stream) {
	if !s.forget(st) {
		return
	}
	if frame, err := closeFrame(st.id); err == nil {
		_ = s.send(ctx, frame) // fails only if the connection has ended
	}
}

func (s *session) forget(st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.id] != st {
		return false
	}
	delete(s.streams, st.id)
	s.closed = append(s.closed, st.id)
	if len(s.closed) > maxClosed {
		s.closed = s.closed[1:]
	}
	return true
}

// stream finds a stream by our id. ours is true also for one that ended lately.
func (s *session) stream(id string) (st *stream, ours bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[id]; st != nil {
		return st, true
	}
	for _, old := range s.closed {
		if old == id {
			return nil, true
		}
	}
	return nil, false
}
