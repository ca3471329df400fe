// Package dm wraps and opens private direct messages (NIP-17, NIP-59), and has the forms of those in which customers and
// providers speak about a verdict. It signs and encrypts; it sends nothing and stores nothing.
//
// A message is three events inside one another. The rumor has the text and is not signed, so nobody can prove to others what
// was written. The seal has the rumor, encrypted, and is signed by the author. The gift wrap has the seal, encrypted, and is
// signed by a key that is used once, so a relay sees only the recipient.
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

// MaxRumor is the largest message that Wrap makes, in bytes of its JSON. Its gift wrap has less than 64 KiB, which most
// relays take, and each layer has less than 65,536 bytes, which is the limit of older NIP-44 code.
const MaxRumor = 28 << 10

// MaxContent is the largest content that Open accepts, in bytes.
const MaxContent = 48 << 10

// The largest layers that are opened, in bytes. Encryption adds padding, and base64 adds a third.
const (
	maxRumor = 96 << 10
	maxSeal  = 160 << 10
	maxWrap  = 224 << 10

	maxTags    = 100
	maxSubject = 200
)

// backdated bounds the random time by which seals and gift wraps are dated back (NIP-59), so that their dates do not show
// when the message was written.
const backdated = 2 * 24 * time.Hour

// Message is one private message.
type Message struct {
	From    nostr.PubKey
	ID      nostr.ID // of the rumor, computed by us
	At      nostr.Timestamp
	Kind    nostr.Kind // 14
	Content string
	Subject string   // "" for none
	Reply   nostr.ID // id of the message that it answers; zero for none
}

// errTooLarge is the error of Wrap and Note for content beyond MaxRumor.
var errTooLarge = fmt.Errorf("a private message has at most %d bytes", MaxRumor)

// unsigned is the JSON of an event without its signature, which is ignored if it is there.
type unsigned struct {
	ID        string     `json:"id"`
	PubKey    string     `json:"pubkey"`
	CreatedAt int64      `json:"created_at"`
	Kind      int64      `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   string     `json:"content"`
}

// signed is the JSON of an event.
type signed struct {
	unsigned
	Sig string `json:"sig"`
}

// Wrap makes the gift wrap of a message from us. It also returns the id that an answer refers to. It uses Content, Subject
// and Reply of m. A message beyond MaxRumor is an error.
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

// ID returns the id that Wrap returns for the same arguments.
func ID(from, to nostr.PubKey, m Message, now time.Time) nostr.ID {
	return rumorOf(from, to, m, now).ID
}

// rumorOf returns the message as an unsigned event.
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

// sealed returns the JSON of the seal of a message.
func sealed(ctx context.Context, keyer nostr.Keyer, from, to nostr.PubKey, rumor nostr.Event, now time.Time) (string, error) {
	plain, err := json.Marshal(plainOf(rumor))
	if err != nil {
		return "", err
	}
	if len(plain) > MaxRumor {
		return "", fmt.Errorf("%w, and this one %d", errTooLarge, len(plain))
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

// earlier returns a random time before now.
func earlier(now time.Time) nostr.Timestamp {
	return nostr.Timestamp(now.Add(-rand.N(backdated)).Unix())
}

// Open reads the message in a gift wrap to us. The error is a *guild.DropError for an invalid message, and another one if
// the signer could not be reached. Open does not check the message's time.
func Open(ctx context.Context, keyer nostr.Keyer, us nostr.PubKey, v guild.Verified) (Message, error) {
	return OpenFrom(ctx, keyer, us, v, func(nostr.PubKey) bool { return true })
}

// OpenFrom is Open for messages of admitted authors. Others are dropped as a flood. The author is known from the seal,
// before the message is decrypted, which saves half of the signer's work.
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

// parent returns the id of the message that a message answers: the e tag marked as reply, else the last e tag.
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

// unwrap opens both layers, and checks that the author of the message signed the seal. Nothing else proves the author,
// since the rumor is unsigned and anybody can make a gift wrap.
func unwrap(ctx context.Context, keyer nostr.Keyer, us nostr.PubKey, wrap nostr.Event, admit func(nostr.PubKey) bool) (nostr.Event, error) {
	switch {
	case wrap.Kind != nostr.KindGiftWrap:
		return nostr.Event{}, guild.Drop(guild.Unexpected, "kind %d is not a gift wrap", wrap.Kind)
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

// decrypt decrypts the content of a layer, which has at most cipher bytes, and at most plain bytes decrypted.
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

// parseSeal reads and verifies a seal. It may have no tags (NIP-59): they would show something of the message.
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
		return nostr.Event{}, guild.Drop(guild.Malformed, "the gift wrap holds no valid seal")
	}
	if _, err := guild.Verify(e); err != nil {
		return nostr.Event{}, guild.Drop(guild.Malformed, "seal: %.200s", err)
	}
	return e, nil
}

// parseRumor reads a message and computes its id. The id in it is ignored, since no signature covers it.
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

// event returns the event without its id.
func (u unsigned) event() (nostr.Event, error) {
	e := nostr.Event{CreatedAt: nostr.Timestamp(u.CreatedAt), Kind: nostr.Kind(u.Kind), Tags: make(nostr.Tags, len(u.Tags)), Content: u.Content}
	if !parseHex(e.PubKey[:], u.PubKey) || u.CreatedAt < 0 || u.Kind < 0 || u.Kind > math.MaxUint16 || len(u.Tags) > maxTags {
		return nostr.Event{}, guild.Drop(guild.Malformed, "a layer of the gift wrap holds no valid event")
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
