package nwc

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/key"
	"guild/internal/hand/lightning"
	"guild/internal/hand/nwc/nwctest"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
)

var (
	us       = key.NewSecret(nostr.SecretKey{9})
	them     = key.NewSecret(nostr.SecretKey{7})
	stranger = key.NewSecret(nostr.SecretKey{5})
)

const hexSecret = "0900000000000000000000000000000000000000000000000000000000000000"

// startRelay runs a real relay for the test.
func startRelay(t *testing.T) string {
	t.Helper()
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	run(t, r.Run)
	return r.URL()
}

// run runs a function until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func newPool(t *testing.T) *relay.Pool {
	t.Helper()
	pool := relay.New(relay.Config{Now: time.Now})
	run(t, pool.Run)
	return pool
}

// service is a wallet at a relay, which answers as a test says.
type service struct {
	t    *testing.T
	pool *relay.Pool
	url  string
	seen chan nostr.Event // requests
}

// publish publishes an event of the wallet, or of somebody else.
func (s *service) publish(ctx context.Context, by key.Secret, e nostr.Event) {
	e.CreatedAt = nostr.Now()
	v, err := guild.Sign(ctx, key.NewSigner(by), e)
	if err == nil {
		_, err = s.pool.Publish(ctx, v, s.url)
	}
	if err != nil && ctx.Err() == nil {
		s.t.Error(err)
	}
}

// answerTo publishes the wallet's answer to a client.
func (s *service) answerTo(ctx context.Context, client nostr.PubKey, id nostr.ID, content any) {
	s.encrypted(ctx, them, client, id, content)
}

// answer publishes an answer to a request.
func (s *service) answer(ctx context.Context, by key.Secret, id nostr.ID, content any) {
	s.encrypted(ctx, by, us.PubKey(), id, content)
}

func (s *service) encrypted(ctx context.Context, by key.Secret, client nostr.PubKey, id nostr.ID, content any) {
	plain, err := json.Marshal(content)
	if err != nil {
		s.t.Error(err)
	}
	cipher, err := key.NewSigner(by).Encrypt(ctx, string(plain), client)
	if err != nil {
		s.t.Error(err)
	}
	s.publish(ctx, by, nostr.Event{
		Kind: nostr.KindNWCWalletResponse, Content: cipher, Tags: nostr.Tags{{"e", id.Hex()}, {"p", client.Hex()}},
	})
}

// start runs a wallet that supports some encryptions. handle answers each request.
func start(t *testing.T, encryptions string, handle func(ctx context.Context, s *service, id nostr.ID, r request)) *service {
	t.Helper()
	s := &service{t: t, url: startRelay(t), pool: newPool(t), seen: make(chan nostr.Event, 100)}
	info := nostr.Event{Kind: nostr.KindNWCWalletInfo, Content: "pay_invoice get_balance", Tags: nostr.Tags{}}
	if encryptions != "" {
		info.Tags = nostr.Tags{{"encryption", encryptions}}
	}
	s.publish(t.Context(), them, info)
	requests := []nostr.Filter{{Kinds: []nostr.Kind{nostr.KindNWCWalletRequest}, Tags: nostr.TagMap{"p": {them.PubKey().Hex()}}}}
	_, err := s.pool.Listen(t.Context(), "requests", requests, func(ctx context.Context, _ string, e guild.Verified) {
		plain, err := key.NewSigner(them).Decrypt(ctx, e.Event().Content, e.Event().PubKey)
		var r request
		if err == nil {
			err = json.Unmarshal([]byte(plain), &r)
		}
		if err != nil {
			t.Error(err)
		}
		s.seen <- e.Event()
		handle(ctx, s, e.Event().ID, r)
	}, s.url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open connects to a wallet.
func open(t *testing.T, url string) (*Wallet, error) {
	t.Helper()
	c, err := Parse("nostr+walletconnect://" + them.PubKey().Hex() + "?relay=" + url + "&secret=" + hexSecret)
	if err != nil {
		t.Fatal(err)
	}
	w := New(Config{Pool: newPool(t), Connection: c, Now: time.Now})
	t.Cleanup(w.Close)
	return w, w.open(t.Context())
}

func invoice(t *testing.T, amount guild.Msat, hash guild.Hash) string {
	t.Helper()
	return nwctest.Sign(t, bolt11.Invoice{
		Network: bolt11.Regtest, Amount: amount, Created: time.Unix(1700000000, 0), PaymentHash: hash, Description: "work",
	})
}

type object = map[string]any

// hash is the payment hash of preimage.
var (
	preimage = strings.Repeat("01", 32)
	hash     = guild.Hash(sha256.Sum256([]byte(strings.Repeat("\x01", 32))))
)

func TestConnectionStrings(t *testing.T) {
	wallet, relay := them.PubKey().Hex(), "relay=wss%3A%2F%2Frelay.example%2F"
	for text, good := range map[string]bool{
		"nostr+walletconnect://" + wallet + "?" + relay + "&secret=" + hexSecret + "&lud16=a%40b.example":  true,
		"nostr+walletconnect:" + wallet + "?" + relay + "&relay=ws://127.0.0.1:7447&secret=" + hexSecret:   true,
		"nostr+walletconnect://" + wallet + "?" + relay:                                                    false,
		"nostr+walletconnect://" + wallet + "?secret=" + hexSecret:                                         false,
		"nostr+walletconnect://" + wallet + "?" + relay + "&secret=" + hexSecret + "&secret=" + hexSecret:  false,
		"nostr+walletconnect://" + wallet + "?" + relay + "&secret=" + strings.Repeat("0", 64):             false,
		"nostr+walletconnect://" + wallet[1:] + "?" + relay + "&secret=" + hexSecret:                       false,
		"nostr+walletconnect://" + wallet + "?relay=ws://relay.example&secret=" + hexSecret:                false,
		"nostr+walletconnect://" + wallet + "?relay=%zz&secret=" + hexSecret:                               false,
		"https://" + wallet + "?" + relay + "&secret=" + hexSecret:                                         false,
		"nostr+walletconnect://" + wallet + "?" + strings.Repeat(relay+"&", 50) + "&secret=" + hexSecret:   false,
		"nostr+walletconnect://" + wallet + "?secret=" + hexSecret + strings.Repeat("&relay=wss://a.b", 6): false,
		"nostr+walletconnect://" + wallet + "?" + relay + "&secret=" + hexSecret + "\x00":                  false,
	} {
		c, err := Parse(text)
		if (err == nil) != good || err == nil && (c.Wallet != them.PubKey() || c.Secret.PubKey() != us.PubKey() || c.Relays[0] != "wss://relay.example") {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), hexSecret) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func TestPay(t *testing.T) {
	s := start(t, "nip44_v2 nip04", func(ctx context.Context, s *service, id nostr.ID, r request) {
		s.answer(ctx, them, id, object{"result_type": r.Method, "error": nil, "result": object{"preimage": preimage, "fees_paid": 3}})
	})
	w, err := open(t, s.url)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := w.Prepare(t.Context(), invoice(t, 5000, hash), time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Pay(t.Context(), prepared)
	if err != nil || guild.Hash(sha256.Sum256(p.Preimage[:])) != hash || p.Fees != 3 {
		t.Fatal(p, err)
	}
	first := <-s.seen
	var ordered nostr.Event
	if err := json.Unmarshal(prepared.Content, &ordered); err != nil {
		t.Fatal(err)
	}
	if first.ID != ordered.ID || first.Tags.Find("expiration") == nil || first.Tags.Find("encryption")[1] != "nip44_v2" {
		t.Error(first)
	}
	if _, err := w.Prepare(t.Context(), invoice(t, 0, hash), time.Time{}); err == nil {
		t.Error("an invoice without an amount")
	}
	other, err := guild.Sign(t.Context(), key.NewSigner(stranger), ordered)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(other.Event())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Pay(t.Context(), lightning.Order{Content: content}); err == nil {
		t.Error("a request of another client")
	}
	for name, content := range map[string]string{"another client's": string(content), "another wallet's": `{"node":"02"}`, "none": ""} {
		if made, err := w.Made(t.Context(), lightning.Order{Content: []byte(content)}); made || err != nil {
			t.Error(name, made, err)
		}
		if _, err := w.Pay(t.Context(), lightning.Order{Content: []byte(content)}); err == nil {
			t.Error("paid:", name)
		}
	}
}

func TestWalletsThatAreNotUsed(t *testing.T) {
	for encryptions, want := range map[string]error{"": ErrEncryption, "nip04": ErrEncryption, "nip44_v2": nil, "nip04,nip44_v2": nil} {
		s := start(t, encryptions, func(context.Context, *service, nostr.ID, request) {})
		if _, err := open(t, s.url); !errors.Is(err, want) {
			t.Errorf("%q: %v", encryptions, err)
		}
	}
	if _, err := open(t, startRelay(t)); err == nil {
		t.Error("a wallet that is not there")
	}
}

func TestFalseAnswers(t *testing.T) {
	pay := func(result object) object {
		return object{"result_type": "pay_invoice", "result": result}
	}
	for name, c := range map[string]struct {
		answer object
		want   string
	}{
		"another preimage":   {pay(object{"preimage": strings.Repeat("02", 32)}), lightning.ErrUnproven.Error()},
		"no preimage":        {pay(object{}), lightning.ErrUnproven.Error()},
		"a short preimage":   {pay(object{"preimage": "0101"}), lightning.ErrUnproven.Error()},
		"no result":          {object{"result_type": "pay_invoice"}, "malformed"},
		"another method":     {object{"result_type": "get_balance", "result": object{"preimage": preimage}}, "get_balance"},
		"a refusal":          {object{"result_type": "pay_invoice", "error": object{"code": "QUOTA_EXCEEDED", "message": "no\x1b"}}, `QUOTA_EXCEEDED": "no\x1b"`},
		"a refusal, result":  {object{"result_type": "pay_invoice", "error": object{"code": "OTHER"}, "result": object{"preimage": preimage}}, "OTHER"},
		"fees that overflow": {pay(object{"preimage": preimage, "fees_paid": uint64(1) << 63}), "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "nip44_v2", func(ctx context.Context, s *service, id nostr.ID, r request) {
				good := pay(object{"preimage": preimage})
				s.answer(ctx, stranger, id, good)      // by another key
				s.answer(ctx, them, nostr.ID{1}, good) // to another request
				s.publish(ctx, them, nostr.Event{Kind: nostr.KindNWCWalletResponse, Content: "?", Tags: nostr.Tags{{"e", id.Hex()}, {"p", us.PubKey().Hex()}}})
				s.answer(ctx, them, id, c.answer)
				s.answer(ctx, them, id, good) // too late
			})
			w, err := open(t, s.url)
			if err != nil {
				t.Fatal(err)
			}
			prepared, err := w.Prepare(t.Context(), invoice(t, 5000, hash), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if p, err := w.Pay(t.Context(), prepared); err == nil || !strings.Contains(err.Error(), c.want) || p != (lightning.Payment{}) {
				t.Error(p, err)
			}
		})
	}
}

func TestReads(t *testing.T) {
	var result object
	s := start(t, "nip44_v2", func(ctx context.Context, s *service, id nostr.ID, r request) {
		s.answer(ctx, them, id, object{"result_type": r.Method, "result": result})
	})
	w, err := open(t, s.url)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	result = object{"alias": "a\x1bb", "network": "regtest", "methods": []string{"pay_invoice"}}
	if info, err := w.Info(ctx); err != nil || info.Alias != "ab" || len(info.Methods) != 1 {
		t.Error(info, err)
	}
	result = object{"balance": 21000}
	if balance, err := w.Balance(ctx); err != nil || balance != 21000 {
		t.Error(balance, err)
	}
	for _, wrong := range []any{-1, uint64(1) << 63, 1.5, int64(1) << 62, "1"} {
		result = object{"balance": wrong}
		if balance, err := w.Balance(ctx); err == nil {
			t.Error(wrong, balance)
		}
	}
	result = object{"invoice": invoice(t, 7000, hash)}
	if text, inv, err := w.MakeInvoice(ctx, 7000, "work", time.Hour); err != nil || text == "" || inv.PaymentHash != hash {
		t.Error(text, inv, err)
	}
	if _, inv, err := w.MakeInvoice(ctx, 7001, "work", time.Hour); err == nil {
		t.Error("an invoice for another amount:", inv)
	}

	for name, c := range map[string]struct {
		answer object
		want   lightning.Transaction
		good   bool
	}{
		"paid":            {object{"type": "outgoing", "payment_hash": hash.Hex(), "preimage": preimage, "settled_at": 5, "amount": 7, "fees_paid": 1}, lightning.Transaction{Outgoing: true, Settled: true, Amount: 7, Fees: 1, Preimage: [32]byte([]byte(strings.Repeat("\x01", 32)))}, true},
		"failed":          {object{"type": "outgoing", "payment_hash": hash.Hex(), "state": "failed", "settled_at": 5}, lightning.Transaction{Outgoing: true, Failed: true}, true},
		"pending":         {object{"type": "incoming", "payment_hash": hash.Hex(), "state": "pending", "invoice": invoice(t, 7, hash)}, lightning.Transaction{}, true},
		"expired, sent":   {object{"type": "outgoing", "payment_hash": hash.Hex(), "state": "expired"}, lightning.Transaction{Outgoing: true}, true},
		"expired, ours":   {object{"type": "incoming", "payment_hash": hash.Hex(), "state": "expired", "expires_at": 5}, lightning.Transaction{}, true},
		"expired, paid":   {object{"type": "outgoing", "payment_hash": hash.Hex(), "state": "expired", "settled_at": 5}, lightning.Transaction{Outgoing: true, Settled: true}, true},
		"false preimage":  {object{"type": "outgoing", "payment_hash": hash.Hex(), "preimage": strings.Repeat("02", 32), "state": "settled"}, lightning.Transaction{Outgoing: true, Settled: true}, true},
		"other hash":      {object{"type": "outgoing", "payment_hash": strings.Repeat("0", 64)}, lightning.Transaction{}, false},
		"other invoice":   {object{"type": "outgoing", "payment_hash": hash.Hex(), "invoice": invoice(t, 7, guild.Hash{1})}, lightning.Transaction{}, false},
		"unknown type":    {object{"type": "sideways", "payment_hash": hash.Hex()}, lightning.Transaction{}, false},
		"negative amount": {object{"type": "outgoing", "payment_hash": hash.Hex(), "amount": -7}, lightning.Transaction{}, false},
	} {
		result = c.answer
		if got, err := w.Lookup(ctx, hash); (err == nil) != c.good || got != c.want {
			t.Error(name, got, err)
		}
	}
}

func TestSilentWallet(t *testing.T) {
	s := start(t, "nip44_v2", func(context.Context, *service, nostr.ID, request) {})
	w, err := open(t, s.url)
	if err != nil {
		t.Fatal(err)
	}
	w.config.Timeout = 50 * time.Millisecond
	if _, err := w.Balance(t.Context()); !errors.Is(err, lightning.ErrNoAnswer) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("nostr+walletconnect://" + them.PubKey().Hex() + "?relay=wss://relay.example&secret=" + hexSecret)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err == nil && (len(c.Relays) == 0 || c.Secret.IsZero() || len(text) > maxConnection) {
			t.Error(c)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"result_type":"lookup_invoice","error":null,"result":{"type":"outgoing","payment_hash":"` + hash.Hex() + `","settled_at":1}}`))
	f.Add([]byte(`{"result_type":"pay_invoice","error":{"code":"OTHER","message":"x"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnswer(b)
		if err != nil {
			return
		}
		var wire transaction
		if json.Unmarshal(a.Result, &wire) != nil {
			return
		}
		if got, err := wire.read(hash); err == nil && (lightning.CheckAmount(got.Amount) != nil || lightning.CheckAmount(got.Fees) != nil) {
			t.Error(got)
		}
	})
}
