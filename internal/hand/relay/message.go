package relay

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of one message, beside its size: a few bytes of JSON must not take much memory.
const (
	maxDepth  = 8      // of nesting; an event needs 4
	maxTags   = 4_096  // of one event
	maxValues = 16_384 // of all tags of one event
	maxText   = 500    // bytes of a relay's text that are kept
)

// message is a message of a relay (NIP-01): EVENT, EOSE, CLOSED, OK, NOTICE or AUTH.
type message struct {
	label string
	sub   string      // EVENT, EOSE, CLOSED: our id of the subscription
	event nostr.Event // EVENT; its id and signature are not checked yet
	id    nostr.ID    // OK: of the event
	ok    bool        // OK
	text  string      // OK, CLOSED, NOTICE: for people; AUTH: the challenge
}

// parse reads one message. It is strict (RFC 7493: valid UTF-8, no duplicate names; every field of an event present and of
// its type) and takes any bytes. We do not use the parser of fiatjaf.com/nostr on messages of strangers: its hex decoder
// writes past the end of an id that has too many digits.
func parse(raw []byte) (message, error) {
	p := parser{d: jsontext.NewDecoder(bytes.NewBuffer(raw))}
	p.expect('[')
	m := message{label: p.text()}
	switch m.label {
	case "EVENT":
		m.sub, m.event = p.text(), p.event()
	case "EOSE":
		m.sub = p.text()
	case "CLOSED":
		m.sub, m.text = p.text(), p.remark()
	case "OK":
		p.hex(m.id[:])
		m.ok, m.text = p.boolean(), p.remark()
	case "NOTICE":
		m.text = printable(p.text())
	case "AUTH":
		m.text = p.text()
	default:
		p.fail("unknown label %.20q", m.label)
	}
	for p.more(']') {
		p.skip()
	}
	p.expect(']')
	p.finish()
	return m, p.err
}

// parser reads tokens. After the first error all methods return zero values.
type parser struct {
	d   *jsontext.Decoder
	err error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func (p *parser) token(kind jsontext.Kind) jsontext.Token {
	if p.err != nil {
		return jsontext.Null
	}
	t, err := p.d.ReadToken()
	switch {
	case err != nil:
		p.err = err
	case t.Kind() != kind:
		p.fail("got %v, want %v", t.Kind(), kind)
	default:
		return t
	}
	return jsontext.Null
}

func (p *parser) expect(kind jsontext.Kind) { p.token(kind) }

func (p *parser) more(end jsontext.Kind) bool {
	return p.err == nil && p.d.PeekKind() != end && p.d.PeekKind() != 0
}

func (p *parser) text() string {
	t := p.token('"')
	if p.err != nil {
		return ""
	}
	return t.String()
}

// remark reads the text at the end of a message, which some relays leave out.
func (p *parser) remark() string {
	if !p.more(']') {
		return ""
	}
	return printable(p.text())
}

func (p *parser) boolean() bool {
	if p.err != nil || p.d.PeekKind() == 'f' {
		p.expect('f')
		return false
	}
	p.expect('t')
	return p.err == nil
}

func (p *parser) hex(into []byte) {
	digits := p.text()
	if p.err != nil {
		return
	}
	if len(digits) != hex.EncodedLen(len(into)) || strings.ContainsAny(digits, "ABCDEF") {
		p.fail("got %d characters, want %d lower case hex digits", len(digits), hex.EncodedLen(len(into)))
		return
	}
	if _, err := hex.Decode(into, []byte(digits)); err != nil {
		p.err = err
	}
}

func (p *parser) integer(most int64) int64 {
	t := p.token('0')
	if p.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(t.String(), 10, 64)
	if err != nil || n < 0 || n > most {
		p.fail("number %.30s is not an integer of 0 to %d", t.String(), most)
		return 0
	}
	return n
}

// event reads an event, which must have all fields. Unknown fields are skipped.
func (p *parser) event() nostr.Event {
	var e nostr.Event
	p.expect('{')
	fields := 0
	for p.more('}') {
		fields++
		switch name := p.text(); name {
		case "id":
			p.hex(e.ID[:])
		case "pubkey":
			p.hex(e.PubKey[:])
		case "created_at":
			e.CreatedAt = nostr.Timestamp(p.integer(math.MaxInt64))
		case "kind":
			e.Kind = nostr.Kind(p.integer(math.MaxUint16))
		case "tags":
			e.Tags = p.tags()
		case "content":
			e.Content = p.text()
		case "sig":
			p.hex(e.Sig[:])
		default:
			fields--
			p.skip()
		}
	}
	p.expect('}')
	if fields != 7 {
		p.fail("an event has %d of 7 fields", fields)
	}
	return e
}

func (p *parser) tags() nostr.Tags {
	tags, values := nostr.Tags{}, 0
	p.expect('[')
	for p.more(']') {
		tag := nostr.Tag{}
		p.expect('[')
		for p.more(']') {
			tag = append(tag, p.text())
		}
		p.expect(']')
		tags = append(tags, tag)
		values += len(tag)
		if len(tags) > maxTags || values > maxValues {
			p.fail("more than %d tags or %d values", maxTags, maxValues)
		}
	}
	p.expect(']')
	return tags
}

// finish checks that the message has ended.
func (p *parser) finish() {
	if p.err != nil {
		return
	}
	if _, err := p.d.ReadToken(); err != io.EOF {
		p.fail("data after the message")
	}
}

// skip passes over one value of any kind.
func (p *parser) skip() {
	base := p.d.StackDepth()
	for p.err == nil {
		if _, err := p.d.ReadToken(); err != nil {
			p.err = err
			return
		}
		depth := p.d.StackDepth()
		switch {
		case depth == base:
			return
		case depth > maxDepth:
			p.err = errors.New("nested too deep")
		}
	}
}

// printable cuts a relay's text, and replaces characters that cannot be printed.
func printable(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// eventFrame returns the message that publishes e.
func eventFrame(e nostr.Event) ([]byte, error) {
	return nostr.EventEnvelope{Event: e}.MarshalJSON()
}

// authFrame returns the message that answers a challenge (NIP-42).
func authFrame(e nostr.Event) ([]byte, error) {
	return nostr.AuthEnvelope{Event: e}.MarshalJSON()
}

// closeFrame returns the message that ends a subscription.
func closeFrame(sub string) ([]byte, error) {
	return nostr.CloseEnvelope(sub).MarshalJSON()
}

// reqFrame returns the message that opens a subscription. The library's envelope writes only the first filter.
func reqFrame(sub string, filters []nostr.Filter) ([]byte, error) {
	b := []byte(`["REQ",` + strconv.Quote(sub))
	for _, f := range filters {
		j, err := f.MarshalJSON()
		if err != nil {
			return nil, err
		}
		b = append(append(b, ','), j...)
	}
	return append(b, ']'), nil
}
