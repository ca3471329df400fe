// Package dm wraps and opens private direct messages (NIP-17, NIP-59). It signs and encrypts; it sends nothing and
// remembers nothing.
package dm

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/internal/hand/key"
)

// MaxRumor is the largest message that Wrap makes, in bytes of its JSON. The gift wrap around it has less than 64 KiB,
// which relays take as a rule, and both layers have less than 65,536 bytes, beyond which not everybody reads NIP-44.
const MaxRumor = 28 << 10

// MaxContent is the largest content that Open accepts, in bytes.
const MaxContent = 48 << 10

// The largest layers that are opened, in bytes. Encryption pads, and base64 adds a third.
const (
	maxRumor = 96 << 10
	maxSeal  = 160 << 10
	maxWrap  = 224 << 10

	maxTags    = 100
	maxSubject = 200
)

// backdated is how far back seals and gift wraps are dated at most (NIP-59), so that nobody sees when they were made.
const backdated = 2 * 24 * time.Hour

// Message is one private message.
type Message struct {
	From    nostr.PubKey
	ID      nostr.ID // of the unsigned event, computed by us
	At      nostr.Timestamp
	Kind    nostr.Kind // 14
	Content string
	Subject string   // "" for none
	Reply   nostr.ID // the message that it answers; zero for none
}

// ErrTooLarge is why a message is not wrapped.
var ErrTooLarge = fmt.Errorf("a private message has at most %d bytes", MaxRumor)

// unsigned is an event that nobody signs, as JSON. A signature that stands there is ignored.
type unsigned struct {
	ID        string     `json:"id"`
	PubKey    string     `json:"pubkey"`
	CreatedAt int64      `json:"created_at"`
	Kind      int64      `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   string     `json:"content"`
}

// signed is an event as JSON.
type signed struct {
	unsigned
	Sig string `json:"sig"`
}

// Wrap makes the gift wrap of a message from us to somebody, and the id under which the message can be answered. Of m
// it takes Content, Subject and Reply. ErrTooLarge is for messages beyond MaxRumor.
func Wrap(ctx context.Context, keyer nostr.Keyer, from, to nostr.PubKey, m Message, now time.Time) (wrap nostr.Event, rumor nostr.ID, err error) {
	e := rumorOf(from, to, m, now)
	seal, err := sealed(ctx, keyer, from, to, e, now)
	if err != nil {
		return nostr.Event{}, nostr.ID{}, fmt.Errorf("wrap a message to %.8s: %w", to.Hex(), err)
	}
	once := key.NewSigner(key.NewSecret(nostr.Generate()))
	content, err := once.Encrypt(ctx, seal, to)
	if err == nil {
		var v guild.Verified
		v, err = guild.Sign(ctx, once, nostr.Event{Kind: nostr.KindGiftWrap, CreatedAt: earlier(now), Tags: nostr.Tags{{"p", to.Hex()}}, Content: content})
		wrap = v.Event()
	}
	if err != nil {
		return nostr.Event{}, nostr.ID{}, fmt.Errorf("wrap a message to %.8s: %w", to.Hex(), err)
	}
	return wrap, e.ID, nil
}

// ID is the id under which the message that Wrap makes of the same arguments can be answered.
func ID(from, to nostr.PubKey, m Message, now time.Time) nostr.ID {
	return rumorOf(from, to, m, now).ID
}

// rumorOf is the message as an event that nobody signs.
func rumorOf(from, to nostr.PubKey, m Message, now time.Time) nostr.Event {
	e := nostr.Event{
		PubKey: from, Kind: nostr.KindDirectMessage, CreatedAt: nostr.Timestamp(now.Unix()),
		Tags: nostr.Tags{{"p", to.Hex()}}, Content: guild.Clean(m.Content),
	}
	if m.Reply != (nostr.ID{}) {
		e.Tags = append(e.Tags, nostr.Tag{"e", m.Reply.Hex()})
	}
	if m.Subject != "" {
		e.Tags = append(e.Tags, nostr.Tag{"subject", guild.Cut(guild.Clean(m.Subject), maxSubject)})
	}
	e.ID = guild.EventID(e)
	return e
}

// sealed is the JSON of the seal of a message: signed by us, and readable by the recipient alone.
func sealed(ctx context.Context, keyer nostr.Keyer, from, to nostr.PubKey, rumor nostr.Event, now time.Time) (string, error) {
	plain, err := json.Marshal(plainOf(rumor))
	if err != nil {
		return "", err
	}
	if len(plain) > MaxRumor {
		return "", fmt.Errorf("%w, and this one %d", ErrTooLarge, len(plain))
	}
	content, err := keyer.Encrypt(ctx, string(plain), to)
	if err != nil {
		return "", err
	}
	v, err := guild.Sign(ctx, keyer, nostr.Event{Kind: nostr.KindSeal, CreatedAt: earlier(now), Tags: nostr.Tags{}, Content: content})
	if err != nil {
		return "", err
	}
	seal := v.Event()
	if seal.PubKey != from {
		return "", fmt.Errorf("the signer signs as %.8s", seal.PubKey.Hex())
	}
	b, err := json.Marshal(signed{plainOf(seal), hex.EncodeToString(seal.Sig[:])})
	return string(b), err
}

func plainOf(e nostr.Event) unsigned {
	p := unsigned{ID: e.ID.Hex(), PubKey: e.PubKey.Hex(), CreatedAt: int64(e.CreatedAt), Kind: int64(e.Kind), Tags: make([][]string, len(e.Tags)), Content: e.Content}
	for i, tag := range e.Tags {
		p.Tags[i] = tag
	}
	return p
}

// earlier is some time before now.
func earlier(now time.Time) nostr.Timestamp {
	return nostr.Timestamp(now.Add(-rand.N(backdated)).Unix())
}

// Open reads the message in a gift wrap to us. What is wrong with it is a *guild.DropError; another error says that the
// signer could not be reached. A time in the future is not looked at.
func Open(ctx context.Context, keyer nostr.Keyer, us nostr.PubKey, v guild.Verified) (Message, error) {
	return OpenFrom(ctx, keyer, us, v, anybody)
}

func anybody(nostr.PubKey) bool { return true }

// OpenFrom is Open for those who are admitted: who has sealed the message is known before it is read, which is half of
// the work of the signer. What others send is dropped as a flood.
func OpenFrom(ctx context.Context, keyer nostr.Keyer, us nostr.PubKey, v guild.Verified, admit func(nostr.PubKey) bool) (Message, error) {
	wrap := v.Event()
	rumor, err := unwrap(ctx, keyer, us, wrap, admit)
	if err != nil {
		return Message{}, err
	}
	switch {
	case rumor.Kind != nostr.KindDirectMessage:
		return Message{}, guild.Drop(guild.Unexpected, "a private message of kind %d", rumor.Kind)
	case rumor.Tags.FindWithValue("p", us.Hex()) == nil:
		return Message{}, guild.Drop(guild.Misdirected, "a copy of a message to somebody else")
	case len(rumor.Content) > MaxContent:
		return Message{}, guild.Drop(guild.TooLarge, "a private message of %d bytes", len(rumor.Content))
	}
	m := Message{From: rumor.PubKey, ID: rumor.ID, At: rumor.CreatedAt, Kind: rumor.Kind, Content: rumor.Content, Reply: parent(rumor.Tags)}
	if subject := rumor.Tags.Find("subject"); subject != nil {
		m.Subject = guild.Cut(subject[1], maxSubject)
	}
	return m, nil
}

// parent is the message that another one answers: the e tag that says so, else the last one.
func parent(tags nostr.Tags) (id nostr.ID) {
	for _, tag := range tags {
		if len(tag) < 2 || tag[0] != "e" {
			continue
		}
		var named nostr.ID
		if parseHex(named[:], tag[1]) {
			id = named
			if len(tag) > 3 && tag[3] == "reply" {
				return id
			}
		}
	}
	return id
}

// unwrap opens both layers, and sees to it that who signed the seal is who the message is from.
func unwrap(ctx context.Context, keyer nostr.Keyer, us nostr.PubKey, wrap nostr.Event, admit func(nostr.PubKey) bool) (nostr.Event, error) {
	switch {
	case wrap.Kind != nostr.KindGiftWrap:
		return nostr.Event{}, guild.Drop(guild.Unexpected, "kind %d is no gift wrap", wrap.Kind)
	case wrap.Tags.FindWithValue("p", us.Hex()) == nil:
		return nostr.Event{}, guild.Drop(guild.Misdirected, "a gift wrap for somebody else")
	}
	text, err := decrypt(ctx, keyer, wrap, maxWrap, maxSeal)
	if err != nil {
		return nostr.Event{}, err
	}
	seal, err := parseSeal(text)
	if err != nil {
		return nostr.Event{}, err
	}
	if !admit(seal.PubKey) {
		return nostr.Event{}, guild.Drop(guild.Flood, "too many private messages from strangers, this one from %.8s", seal.PubKey.Hex())
	}
	if text, err = decrypt(ctx, keyer, seal, maxSeal, maxRumor); err != nil {
		return nostr.Event{}, err
	}
	rumor, err := parseRumor(text)
	if err != nil {
		return nostr.Event{}, err
	}
	if rumor.PubKey != seal.PubKey {
		return nostr.Event{}, guild.Drop(guild.Malformed, "a message from %.8s that %.8s has sealed", rumor.PubKey.Hex(), seal.PubKey.Hex())
	}
	return rumor, nil
}

// decrypt reads the content of a layer: cipher bytes at most, and plain bytes at most in it.
func decrypt(ctx context.Context, keyer nostr.Keyer, e nostr.Event, cipher, plain int) (string, error) {
	if len(e.Content) > cipher {
		return "", guild.Drop(guild.TooLarge, "kind %d with %d bytes", e.Kind, len(e.Content))
	}
	text, err := keyer.Decrypt(ctx, e.Content, e.PubKey)
	switch {
	case err != nil && unanswered(ctx, err):
		return "", fmt.Errorf("open kind %d: %w", e.Kind, err)
	case err != nil:
		return "", guild.Drop(guild.Malformed, "kind %d does not open: %.200s", e.Kind, err)
	case len(text) > plain:
		return "", guild.Drop(guild.TooLarge, "kind %d with %d bytes in it", e.Kind, len(text))
	}
	return text, nil
}

// parseSeal reads and verifies a seal. Tags would say something of the message to whoever sees the seal, and have no
// place in it.
func parseSeal(text string) (nostr.Event, error) {
	var s signed
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nostr.Event{}, guild.Drop(guild.Malformed, "seal: %.200s", err)
	}
	e, err := s.event()
	if err != nil {
		return nostr.Event{}, err
	}
	if !parseHex(e.ID[:], s.ID) || !parseHex(e.Sig[:], s.Sig) || e.Kind != nostr.KindSeal || len(e.Tags) > 0 {
		return nostr.Event{}, guild.Drop(guild.Malformed, "no seal is in the gift wrap")
	}
	if _, err := guild.Verify(e); err != nil {
		return nostr.Event{}, guild.Drop(guild.Malformed, "seal: %.200s", err)
	}
	return e, nil
}

// parseRumor reads a message and computes its id: what stands there as its id is somebody's word.
func parseRumor(text string) (nostr.Event, error) {
	var u unsigned
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		return nostr.Event{}, guild.Drop(guild.Malformed, "private message: %.200s", err)
	}
	e, err := u.event()
	if err != nil {
		return nostr.Event{}, err
	}
	e.ID = guild.EventID(e)
	return e, nil
}

// event is the event without an id.
func (u unsigned) event() (nostr.Event, error) {
	e := nostr.Event{CreatedAt: nostr.Timestamp(u.CreatedAt), Kind: nostr.Kind(u.Kind), Tags: make(nostr.Tags, len(u.Tags)), Content: u.Content}
	if !parseHex(e.PubKey[:], u.PubKey) || u.CreatedAt < 0 || u.Kind < 0 || u.Kind > math.MaxUint16 || len(u.Tags) > maxTags {
		return nostr.Event{}, guild.Drop(guild.Malformed, "no event is in a layer of the gift wrap")
	}
	for i, tag := range u.Tags {
		e.Tags[i] = tag
	}
	return e, nil
}

// parseHex reports whether text is all of into in hex.
func parseHex(into []byte, text string) bool {
	if len(text) != hex.EncodedLen(len(into)) {
		return false
	}
	_, err := hex.Decode(into, []byte(text))
	return err == nil
}
