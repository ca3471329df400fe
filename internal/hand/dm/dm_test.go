package dm

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/internal/hand/bunker"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
)

// person holds a key.
type person struct {
	*key.Signer
	key nostr.PubKey
}

func newPerson(secret nostr.SecretKey) person {
	s := key.NewSecret(secret)
	return person{key.NewSigner(s), s.PubKey()}
}

var (
	alice   = newPerson(nostr.SecretKey{31: 1})
	bob     = newPerson(nostr.SecretKey{31: 2})
	mallory = newPerson(nostr.SecretKey{31: 3})
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// wrapped returns a message from alice to bob.
func wrapped(t testing.TB, m Message) (guild.Verified, nostr.ID) {
	t.Helper()
	e, id, err := Wrap(t.Context(), alice, alice.key, bob.key, m, noon)
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Verify(e)
	if err != nil {
		t.Fatal(err)
	}
	return v, id
}

// reasonOf returns the reason for which an event was dropped.
func reasonOf(err error) guild.Reason {
	if dropped, ok := errors.AsType[*guild.DropError](err); ok {
		return dropped.Reason
	}
	return ""
}

func TestWrapAndOpen(t *testing.T) {
	said := Message{Content: "Your delivery did not pass: <3 of 4> & \"x\"\n\tline two ü", Subject: "Verdict", Reply: nostr.ID{7}}
	v, id := wrapped(t, said)
	got, err := Open(t.Context(), bob, bob.key, v)
	want := Message{From: alice.key, ID: id, At: nostr.Timestamp(noon.Unix()), Kind: 14, Content: said.Content, Subject: said.Subject, Reply: said.Reply}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// A relay sees whom a message is for, but not who wrote it, nor when.
func TestGiftWrapHidesAuthor(t *testing.T) {
	keys, times := map[nostr.PubKey]bool{}, map[nostr.Timestamp]bool{}
	for range 20 {
		v, _ := wrapped(t, Message{Content: "hello"})
		e := v.Event()
		if e.Kind != 1059 || len(e.Tags) != 1 || !slices.Equal(e.Tags[0], nostr.Tag{"p", bob.key.Hex()}) || strings.Contains(e.String(), alice.key.Hex()) {
			t.Errorf("%s", e)
		}
		if ago := noon.Unix() - int64(e.CreatedAt); ago < 0 || ago > 2*24*60*60 {
			t.Errorf("dated %d s ago", ago)
		}
		keys[e.PubKey], times[e.CreatedAt] = true, true
	}
	if len(keys) != 20 || len(times) < 15 {
		t.Errorf("%d keys, %d times", len(keys), len(times))
	}
}

// 28 KiB of JSON are padded to 28,672 bytes, which are 38,320 in base64; the seal around them is padded to 40,960, which
// are 54,704. A relay that takes 65,536 bytes takes it, and neither layer has 65,536.
func TestLargestMessage(t *testing.T) {
	around := len(`{"id":"","pubkey":"","created_at":1772366400,"kind":14,"tags":[["p",""]],"content":""}`) + 3*64
	v, _ := wrapped(t, Message{Content: strings.Repeat("x", MaxRumor-around)})
	if n := len(v.Event().String()); n > 64<<10 || n < 54_000 {
		t.Errorf("a gift wrap of %d bytes", n)
	}
	if _, err := Open(t.Context(), bob, bob.key, v); err != nil {
		t.Error(err)
	}
	_, _, err := Wrap(t.Context(), alice, alice.key, bob.key, Message{Content: strings.Repeat("x", MaxRumor-around+1)}, noon)
	if !errors.Is(err, errTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// layers are the three events of a message, to be forged.
type layers struct {
	rumor unsigned
	seal  nostr.Event // what is to be signed
	by    person      // who signs it
	sign  func(*nostr.Event)
	inner string // in place of the rumor
	outer string // in place of the seal
	to    nostr.PubKey
}

// wrap makes a gift wrap for bob.
func (l layers) wrap(t testing.TB) guild.Verified {
	t.Helper()
	text := l.inner
	if text == "" {
		b, err := json.Marshal(l.rumor)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	var err error
	l.seal.Content, err = l.by.Encrypt(t.Context(), text, bob.key)
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Sign(t.Context(), l.by, l.seal)
	if err != nil {
		t.Fatal(err)
	}
	seal := v.Event()
	if l.sign != nil {
		l.sign(&seal)
	}
	text = l.outer
	if text == "" {
		b, err := json.Marshal(signed{plainOf(seal), hex.EncodeToString(seal.Sig[:])})
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	return giftWrap(t, text, l.to)
}

// giftWrap encrypts a text for bob with a random key, and names a recipient.
func giftWrap(t testing.TB, text string, to nostr.PubKey) guild.Verified {
	t.Helper()
	once := newPerson(nostr.SecretKey{31: 9})
	content, err := once.Encrypt(t.Context(), text, bob.key)
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Sign(t.Context(), once, nostr.Event{Kind: 1059, CreatedAt: 1, Tags: nostr.Tags{{"p", to.Hex()}}, Content: content})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// good returns the layers of a valid message.
func good(by person) layers {
	return layers{
		rumor: unsigned{PubKey: by.key.Hex(), CreatedAt: noon.Unix(), Kind: 14, Tags: [][]string{{"p", bob.key.Hex()}}, Content: "hello"},
		seal:  nostr.Event{Kind: 13, CreatedAt: 1, Tags: nostr.Tags{}}, by: by, to: bob.key,
	}
}

func TestForgedMessages(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*layers)
		want  guild.Reason
	}{
		{"nothing", func(*layers) {}, ""},
		{"the message says that alice wrote it", func(l *layers) { l.rumor.PubKey = alice.key.Hex() }, guild.Malformed},
		{"the seal says that alice signed it", func(l *layers) { l.sign = func(e *nostr.Event) { e.PubKey = alice.key } }, guild.Malformed},
		{"and its id fits that", func(l *layers) {
			l.rumor.PubKey = alice.key.Hex()
			l.sign = func(e *nostr.Event) { e.PubKey = alice.key; e.ID = guild.EventID(*e) }
		}, guild.Malformed},
		{"the seal is not signed", func(l *layers) { l.sign = func(e *nostr.Event) { e.Sig = [64]byte{} } }, guild.Malformed},
		{"the seal has tags", func(l *layers) { l.seal.Tags = nostr.Tags{{"p", bob.key.Hex()}} }, guild.Malformed},
		{"the seal is another kind", func(l *layers) { l.seal.Kind = 1 }, guild.Malformed},
		{"a gift wrap in the gift wrap", func(l *layers) { l.seal.Kind = 1059 }, guild.Malformed},
		{"a gift wrap in the seal", func(l *layers) { l.rumor.Kind = 1059 }, guild.Unexpected},
		{"a seal in the seal", func(l *layers) { l.rumor.Kind = 13 }, guild.Unexpected},
		{"a file", func(l *layers) { l.rumor.Kind = 15 }, guild.Unexpected},
		{"a request", func(l *layers) { l.rumor.Kind = 5000 }, guild.Unexpected},
		{"a kind that there is not", func(l *layers) { l.rumor.Kind = 65536 + 14 }, guild.Malformed},
		{"a kind below zero", func(l *layers) { l.rumor.Kind = -1 }, guild.Malformed},
		{"before 1970", func(l *layers) { l.rumor.CreatedAt = -1 }, guild.Malformed},
		{"an invalid key", func(l *layers) { l.rumor.PubKey = "bob" }, guild.Malformed},
		{"a message to somebody else", func(l *layers) { l.rumor.Tags = [][]string{{"p", alice.key.Hex()}} }, guild.Misdirected},
		{"a message without a recipient", func(l *layers) { l.rumor.Tags = nil }, guild.Misdirected},
		{"a gift wrap for somebody else", func(l *layers) { l.to = alice.key }, guild.Misdirected},
		{"a hundred and one tags", func(l *layers) { l.rumor.Tags = slices.Repeat(l.rumor.Tags, 101) }, guild.Malformed},
		{"content beyond 48 KiB", func(l *layers) { l.rumor.Content = strings.Repeat("x", MaxContent+1) }, guild.TooLarge},
		{"content of 48 KiB", func(l *layers) { l.rumor.Content = strings.Repeat("x", MaxContent) }, ""},
		{"a message beyond its bound", func(l *layers) { l.rumor.Tags = append(l.rumor.Tags, []string{strings.Repeat("x", maxRumor)}) }, guild.TooLarge},
		{"a seal beyond its bound", func(l *layers) { l.outer = strings.Repeat(" ", maxSeal+1) }, guild.TooLarge},
		{"a gift wrap beyond its bound", func(l *layers) { l.outer = strings.Repeat(" ", maxWrap) }, guild.TooLarge},
		{"no JSON in the seal", func(l *layers) { l.inner = "hello" }, guild.Malformed},
		{"no JSON in the gift wrap", func(l *layers) { l.outer = "hello" }, guild.Malformed},
		{"an author twice", func(l *layers) {
			l.inner = `{"pubkey":"` + mallory.key.Hex() + `","pubkey":"` + mallory.key.Hex() + `","kind":14,"created_at":1,"tags":[],"content":""}`
		}, guild.Malformed},
		{"not UTF-8", func(l *layers) { l.inner = "{\"content\":\"\xff\"}" }, guild.Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := good(mallory)
			c.spoil(&l)
			m, err := Open(t.Context(), bob, bob.key, l.wrap(t))
			if reasonOf(err) != c.want || err != nil && (c.want == "" || m != Message{}) {
				t.Errorf("%+v, %v", m, err)
			}
			if c.want == "" && m.From != mallory.key {
				t.Errorf("from %.8s", m.From.Hex())
			}
		})
	}
}

func TestOtherEventsAreDropped(t *testing.T) {
	v, err := guild.Sign(t.Context(), mallory, nostr.Event{Kind: 1, Tags: nostr.Tags{{"p", bob.key.Hex()}}, Content: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), bob, bob.key, v); reasonOf(err) != guild.Unexpected {
		t.Error(err)
	}
	v, _ = wrapped(t, Message{Content: "hello"})
	if _, err := Open(t.Context(), mallory, bob.key, v); reasonOf(err) != guild.Malformed {
		t.Errorf("opened by another key: %v", err)
	}
}

// unreachable is a remote signer that does not answer.
type unreachable struct{ person }

func (unreachable) Decrypt(context.Context, string, nostr.PubKey) (string, error) {
	return "", bunker.ErrNoAnswer
}

func TestUnreachableSigner(t *testing.T) {
	v, _ := wrapped(t, Message{Content: "hello"})
	if _, err := Open(t.Context(), unreachable{bob}, bob.key, v); reasonOf(err) != "" || !errors.Is(err, bunker.ErrNoAnswer) {
		t.Error(err)
	}
}

func TestSignerOfAnotherKey(t *testing.T) {
	if _, _, err := Wrap(t.Context(), mallory, alice.key, bob.key, Message{Content: "hello"}, noon); err == nil {
		t.Error("wrapped")
	}
}

func TestReplyTag(t *testing.T) {
	first, second := nostr.ID{1}.Hex(), nostr.ID{2}.Hex()
	for _, c := range []struct {
		name string
		tags nostr.Tags
		want nostr.ID
	}{
		{"none", nostr.Tags{{"p", first}}, nostr.ID{}},
		{"one", nostr.Tags{{"e", first}}, nostr.ID{1}},
		{"the last of two", nostr.Tags{{"e", first}, {"e", second}}, nostr.ID{2}},
		{"the one that is marked", nostr.Tags{{"e", first, "", "reply"}, {"e", second, "", "root"}}, nostr.ID{1}},
		{"no id", nostr.Tags{{"e", first}, {"e", "x"}, {"e"}}, nostr.ID{1}},
	} {
		if got := parent(c.tags); got != c.want {
			t.Errorf("%s: %s", c.name, got.Hex())
		}
	}
}

// The example of NIP-17 has two gift wraps of a message: "Hola, que tal?".
func TestNIP17Example(t *testing.T) {
	_, sender, err := nip19.Decode("nsec1w8udu59ydjvedgs3yv5qccshcj8k05fh3l60k9x57asjrqdpa00qkmr89m")
	if err != nil {
		t.Fatal(err)
	}
	_, receiver, err := nip19.Decode("nsec12ywtkplvyq5t6twdqwwygavp5lm4fhuang89c943nf2z92eez43szvn4dt")
	if err != nil {
		t.Fatal(err)
	}
	from, to := newPerson(sender.(nostr.SecretKey)), newPerson(receiver.(nostr.SecretKey))
	v, err := guild.Verify(published(t, nip17ToReceiver))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), to, to.key, v)
	if err != nil || m.From != from.key || m.Content != "Hola, que tal?" || m.Kind != 14 {
		t.Errorf("%+v, %v", m, err)
	}
	if v, err = guild.Verify(published(t, nip17ToSender)); err != nil {
		t.Fatal(err)
	}
	rumor, err := unwrap(t.Context(), from, from.key, v.Event(), func(nostr.PubKey) bool { return true })
	if err != nil || rumor.Content != m.Content || rumor.ID != m.ID {
		t.Errorf("%+v, %v", rumor, err)
	}
	if _, err := Open(t.Context(), from, from.key, v); reasonOf(err) != guild.Misdirected {
		t.Errorf("the sender's own copy: %v", err)
	}
}

// The example of NIP-59: a note of kind 1, its seal and its gift wrap, with the recipient's key.
func TestNIP59Example(t *testing.T) {
	var secret nostr.SecretKey
	if !parseHex(secret[:], "e108399bd8424357a710b606ae0c13166d853d327e47a6e5e038197346bdbf45") {
		t.Fatal("no key")
	}
	to := newPerson(secret)
	v, err := guild.Verify(published(t, nip59Wrap))
	if err != nil {
		t.Fatal(err)
	}
	rumor, err := unwrap(t.Context(), to, to.key, v.Event(), func(nostr.PubKey) bool { return true })
	if err != nil || rumor.ID.Hex() != "9dd003c6d3b73b74a85a9ab099469ce251653a7af76f523671ab828acd2a0ef9" ||
		rumor.PubKey.Hex() != "611df01bfcf85c26ae65453b772d8f1dfd25c264621c0277e1fc1518686faef9" ||
		rumor.CreatedAt != 1691518405 || rumor.Content != "Are you going to the party tonight?" {
		t.Errorf("%+v, %v", rumor, err)
	}
	if _, err := Open(t.Context(), to, to.key, v); reasonOf(err) != guild.Unexpected {
		t.Errorf("a note was opened as a private message: %v", err)
	}
}

// published reads an event of a specification.
func published(t *testing.T, text string) (e nostr.Event) {
	t.Helper()
	var s signed
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	e, err := s.event()
	if err != nil || !parseHex(e.ID[:], s.ID) || !parseHex(e.Sig[:], s.Sig) {
		t.Fatal("no event", err)
	}
	return e
}

func TestMessageThroughRelay(t *testing.T) {
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	pool := relay.New(relay.Config{URLs: []string{r.URL()}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	running.Go(func() { pool.Run(ctx) })
	defer running.Wait()
	defer cancel()

	e, id, err := Wrap(ctx, alice, alice.key, bob.key, Message{Content: "hello"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Verify(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Publish(ctx, v, r.URL()); err != nil {
		t.Fatal(err)
	}
	found, err := pool.Query(ctx, []nostr.Filter{{Kinds: []nostr.Kind{1059}, Tags: nostr.TagMap{"p": {bob.key.Hex()}}}}, r.URL())
	if err != nil || len(found) != 1 {
		t.Fatalf("%d found, %v", len(found), err)
	}
	if m, err := Open(ctx, bob, bob.key, found[0]); err != nil || m.ID != id || m.Content != "hello" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestRelaysOfList(t *testing.T) {
	list := nostr.Event{Kind: 10050, Tags: nostr.Tags{
		{"relay", "WSS://Inbox.example.com/"}, {"relay"}, {"r", "wss://other.example.com"}, {"relay", "wss://inbox.example.com"}, {"relay", "http://a.example.com"},
		{"relay", "wss://10.0.0.1"}, {"relay", "ws://127.0.0.1:7447"}, {"relay", "wss://b.example.com"}, {"relay", "wss://c.example.com"},
	}}
	if got, want := Relays(list), []string{"wss://inbox.example.com", "ws://127.0.0.1:7447", "wss://b.example.com"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestListOfRelays(t *testing.T) {
	for _, c := range []struct{ ours, want []string }{
		{[]string{"ws://127.0.0.1:7447", "wss://a.example.com", "wss://b.example.com", "wss://c.example.com", "wss://d.example.com"},
			[]string{"wss://a.example.com", "wss://b.example.com", "wss://c.example.com"}},
		{[]string{"ws://127.0.0.1:7447"}, []string{"ws://127.0.0.1:7447"}},
		{nil, nil},
	} {
		e := List(c.ours)
		if got := Relays(e); e.Kind != 10050 || !slices.Equal(got, c.want) {
			t.Errorf("%v: kind %d, %v", c.ours, e.Kind, got)
		}
	}
}

func FuzzALayerIsReadOrRefused(f *testing.F) {
	l := good(mallory)
	rumor, err := json.Marshal(l.rumor)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(rumor))
	f.Add(nip17ToReceiver)
	f.Add(`{"id":"","tags":[[],["e"],["e","x"],["subject",""]],"kind":14,"kind":15}`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseSeal(text); err != nil && reasonOf(err) == "" {
			t.Errorf("seal: %v", err)
		}
		e, err := parseRumor(text)
		if err != nil {
			if reasonOf(err) == "" {
				t.Errorf("message: %v", err)
			}
			return
		}
		parent(e.Tags)
		if len(text) > MaxRumor || text == "" {
			return
		}
		if m, err := Open(t.Context(), bob, bob.key, (layers{inner: text, seal: l.seal, by: mallory, to: bob.key}).wrap(t)); err == nil && m.From != mallory.key {
			t.Errorf("%q is from %s", text, m.From.Hex())
		}
	})
}
