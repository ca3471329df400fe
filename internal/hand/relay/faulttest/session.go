package faulttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
)

// session is one connection of a client, with a connection to the real relay. Three goroutines serve it: up for messages to
// the relay, down for messages from it, and write, which writes to the client.
type session struct {
	relay  *Relay
	ctx    context.Context
	end    context.CancelFunc
	client *websocket.Conn
	real   *websocket.Conn
	socket net.Conn // below client
	out    chan frame

	mu     sync.Mutex
	past   map[string]bool   // subscription → its stored events were sent
	denied map[nostr.ID]bool // events that were taken, and whose OK shall say that they were not
	ours   map[nostr.ID]bool // strangers' events, whose OK is not for the client

	// only for up
	asked     bool // it was decided whether the client must authenticate
	demanding bool // it must
	challenge string
}

// frame is a message to the client.
type frame struct {
	text  []byte
	wait  time.Duration // before it
	cut   bool          // half of it, and the end
	close bool          // no message, but the end
}

// dice are the decisions of one direction of one session.
type dice struct {
	*rand.Rand
	relay *Relay
}

// throws reports whether to commit a fault now, and counts it.
func (d dice) throws(f Fault) bool {
	// A number is drawn for any probability, so that one fault does not change the decisions of another.
	if d.Float64() >= d.relay.probability(f) {
		return false
	}
	d.relay.commit(f)
	return true
}

func (r *Relay) serve(w http.ResponseWriter, req *http.Request) {
	client, err := websocket.Accept(w, req, nil)
	if err != nil {
		return
	}
	defer client.CloseNow()
	ctx, end := context.WithCancel(req.Context())
	defer end()
	real, _, err := websocket.Dial(ctx, r.backend, nil)
	if err != nil {
		return
	}
	defer real.CloseNow()
	client.SetReadLimit(4 << 20)
	real.SetReadLimit(4 << 20)
	s := &session{
		relay: r, ctx: ctx, end: end, client: client, real: real, out: make(chan frame, 4096),
		past: map[string]bool{}, denied: map[nostr.ID]bool{}, ours: map[nostr.ID]bool{},
	}
	s.socket, _ = req.Context().Value(below{}).(net.Conn)
	serial := s.enter()
	defer s.leave()
	s.challenge = fmt.Sprintf("challenge %d", serial)
	var tasks sync.WaitGroup
	tasks.Go(func() { defer end(); s.write() })
	tasks.Go(func() { defer end(); s.down(dice{rand.New(rand.NewPCG(r.seed, 2*serial)), r}) })
	s.up(dice{rand.New(rand.NewPCG(r.seed, 2*serial+1)), r})
	end()
	tasks.Wait()
}

func (s *session) enter() (serial uint64) {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	s.relay.sessions[s] = true
	s.relay.serial++
	return s.relay.serial
}

func (s *session) leave() {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	delete(s.relay.sessions, s)
}

func (s *session) hangUp() {
	s.end()
	s.client.CloseNow()
	s.real.CloseNow()
}

// write writes all messages to the client.
func (s *session) write() {
	defer s.hangUp()
	for {
		var f frame
		select {
		case f = <-s.out:
		case <-s.ctx.Done():
			return
		}
		if f.wait > 0 && !s.pause(f.wait) {
			return
		}
		switch {
		case f.close:
			return
		case f.cut:
			s.half(f.text)
			return
		case s.client.Write(s.ctx, websocket.MessageText, f.text) != nil:
			return
		}
	}
}

func (s *session) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// half writes the header of a frame (RFC 6455, section 5.2) for the whole text, and then half of the text.
func (s *session) half(text []byte) {
	if s.socket == nil || len(text) > 1<<16-1 {
		return
	}
	head := []byte{0x81, 126, byte(len(text) >> 8), byte(len(text))}
	s.socket.Write(append(head, text[:len(text)/2]...))
}

// say queues data for the client, unchanged.
func (s *session) say(f frame) {
	select {
	case s.out <- f:
	case <-s.ctx.Done():
	}
}

// message writes a message of NIP-01.
func message(parts ...any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(parts); err != nil {
		return nil // cannot happen with the values here
	}
	return bytes.TrimSpace(b.Bytes())
}

// emit sends a message to the client with the faults that all messages can have.
func (s *session) emit(d dice, text []byte) {
	if d.throws(Garbage) {
		s.say(frame{text: garbage(d)})
	}
	f := frame{text: text}
	if d.throws(Delay) {
		f.wait = d.upTo(50 * time.Millisecond)
	}
	late := d.throws(Reorder)
	after := d.upTo(50 * time.Millisecond)
	switch {
	case d.throws(Disconnect):
		f.close = true
	case d.throws(Cut):
		f.cut = true
	}
	if late && !f.cut && !f.close {
		time.AfterFunc(after, func() { s.say(f) })
	} else {
		s.say(f)
	}
	if d.throws(Duplicate) {
		s.say(frame{text: text})
	}
}

func (d dice) upTo(most time.Duration) time.Duration { return time.Duration(d.Int64N(int64(most))) }

// down forwards the messages of the relay.
func (s *session) down(d dice) {
	for {
		_, text, err := s.real.Read(s.ctx)
		var parts []json.RawMessage
		if err != nil || json.Unmarshal(text, &parts) != nil || len(parts) < 2 {
			return
		}
		switch label(parts) {
		case "EVENT":
			s.downEvent(d, text, parts)
		case "OK":
			s.downOK(d, text, parts)
		case "EOSE", "CLOSED":
			s.mark(parts[1], true)
			if !d.throws(Drop) {
				s.emit(d, text)
			}
		default:
			s.emit(d, text)
		}
	}
}

// mark notes whether the stored events of a subscription were sent.
func (s *session) mark(sub json.RawMessage, past bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past[string(sub)] = past
}

func (s *session) downEvent(d dice, text []byte, parts []json.RawMessage) {
	var e nostr.Event
	if len(parts) != 3 || json.Unmarshal(parts[2], &e) != nil {
		return
	}
	s.mu.Lock()
	live := s.past[string(parts[1])]
	s.mu.Unlock()
	if d.throws(Forge) {
		for _, forged := range forgeries(e) {
			s.say(frame{text: message("EVENT", parts[1], forged)})
		}
	}
	if d.throws(Unasked) {
		if other, ok := s.relay.recall(d.Int()); ok {
			s.say(frame{text: message("EVENT", parts[1], other)})
		}
	}
	if !live && d.throws(Withhold) || d.throws(Drop) {
		return
	}
	s.emit(d, text)
}

func (s *session) downOK(d dice, text []byte, parts []json.RawMessage) {
	var id nostr.ID
	if json.Unmarshal(parts[1], &id) != nil {
		return
	}
	s.mu.Lock()
	denied, ours := s.denied[id], s.ours[id]
	s.mu.Unlock()
	switch {
	case ours:
	case denied:
		s.emit(d, message("OK", id, false, refusal(d)))
	case !d.throws(Drop):
		s.emit(d, text)
	}
}

// up forwards the messages of the client.
func (s *session) up(d dice) {
	for {
		_, text, err := s.client.Read(s.ctx)
		var parts []json.RawMessage
		if err != nil || json.Unmarshal(text, &parts) != nil || len(parts) < 2 {
			return
		}
		switch label(parts) {
		case "AUTH":
			s.upAuth(d, parts)
			continue
		case "EVENT":
			text = s.upEvent(d, text, parts)
		case "REQ":
			text = s.upReq(d, text, parts)
		}
		if text != nil && s.real.Write(s.ctx, websocket.MessageText, text) != nil {
			return
		}
	}
}

func label(parts []json.RawMessage) (label string) {
	if json.Unmarshal(parts[0], &label) != nil {
		return ""
	}
	return label
}

// wants reports whether the client must authenticate first.
func (s *session) wants(d dice) bool {
	if !s.asked {
		s.asked = true
		if s.demanding = d.throws(Auth); s.demanding {
			s.say(frame{text: message("AUTH", s.challenge)})
		}
	}
	return s.demanding
}

func (s *session) upAuth(d dice, parts []json.RawMessage) {
	var e nostr.Event
	if json.Unmarshal(parts[1], &e) != nil {
		return
	}
	_, err := guild.Verify(e)
	answered := e.Tags.FindWithValue("challenge", s.challenge) != nil && e.Kind == 22242 && err == nil
	if answered {
		s.demanding = false
	}
	s.emit(d, message("OK", e.ID, answered, ""))
}

// upEvent returns the message for the relay, if it gets one.
func (s *session) upEvent(d dice, text []byte, parts []json.RawMessage) []byte {
	var e nostr.Event
	if json.Unmarshal(parts[1], &e) != nil {
		return text
	}
	if s.wants(d) {
		s.emit(d, message("OK", e.ID, false, "auth-required: who are you?"))
		return nil
	}
	s.relay.hear(e)
	if d.throws(Strangers) {
		s.meddle(e)
	}
	switch {
	case d.throws(Drop):
		return nil
	case d.throws(Refuse):
		s.emit(d, message("OK", e.ID, false, refusal(d)))
		return nil
	case d.throws(Pretend):
		s.emit(d, message("OK", e.ID, true, ""))
		return nil
	case d.throws(Deny):
		s.mu.Lock()
		s.denied[e.ID] = true
		s.mu.Unlock()
	}
	return text
}

// refusal returns the reason of a relay that refuses an event.
func refusal(d dice) string {
	said := []string{"blocked: not welcome here", "rate-limited: slow down there", "error: could not connect to the database"}
	return said[d.IntN(len(said))]
}

func (s *session) upReq(d dice, text []byte, parts []json.RawMessage) []byte {
	if s.wants(d) {
		s.emit(d, message("CLOSED", parts[1], "auth-required: who are you?"))
		return nil
	}
	s.mark(parts[1], false)
	if !d.throws(Ignore) {
		return text
	}
	wide := []any{"REQ", parts[1]}
	for _, raw := range parts[2:] {
		var f map[string]json.RawMessage
		if json.Unmarshal(raw, &f) != nil {
			return text
		}
		for _, bound := range []string{"since", "until", "limit"} {
			delete(f, bound)
		}
		wide = append(wide, f)
	}
	return message(wide...)
}

// meddle publishes events of strangers that look like others'.
func (s *session) meddle(e nostr.Event) {
	for _, forged := range strangers(e) {
		v, err := guild.Sign(s.ctx, s.relay.unsure, forged)
		if err != nil {
			return // only if the session has ended
		}
		s.mu.Lock()
		s.ours[v.Event().ID] = true
		s.mu.Unlock()
		if s.real.Write(s.ctx, websocket.MessageText, message("EVENT", v.Event())) != nil {
			return
		}
	}
}

// forgeries returns copies of an event with a wrong id or signature.
func forgeries(e nostr.Event) []nostr.Event {
	content, signature, both := e, e, e
	content.Content += " " // so the id is wrong
	signature.Sig[7] ^= 1
	both.Tags = append(slices.Clone(e.Tags), nostr.Tag{"status", "error"})
	both.ID = guild.EventID(both) // so the signature is wrong
	return []nostr.Event{content, signature, both}
}
