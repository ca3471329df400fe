package key_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/verify"
)

func TestSignAndVerify(t *testing.T) {
	signer := key.NewSigner(key.NewSecret(nostr.Generate()))
	e := nostr.Event{Kind: 1, CreatedAt: 1, Content: "\u2028 \x01 \"quoted\" <&>"}
	signed, err := guild.Sign(t.Context(), signer, e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guild.Verify(signed.Event()); err != nil {
		t.Error(err)
	}
}

func TestEncryptAndDecrypt(t *testing.T) {
	ctx := t.Context()
	a := key.NewSigner(key.NewSecret(nostr.Generate()))
	b := key.NewSigner(key.NewSecret(nostr.Generate()))
	aKey, _ := a.GetPublicKey(ctx)
	bKey, _ := b.GetPublicKey(ctx)
	for _, plain := range []string{"x", strings.Repeat("long ", 20_000)} {
		sealed, err := a.Encrypt(ctx, plain, bKey)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Decrypt(ctx, sealed, aKey); err != nil || got != plain {
			t.Errorf("NIP-44 of %d bytes: %v", len(plain), err)
		}
		sealed, err = a.Nip04Encrypt(ctx, plain, bKey)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Nip04Decrypt(ctx, sealed, aKey); err != nil || got != plain {
			t.Errorf("NIP-04 of %d bytes: %v", len(plain), err)
		}
	}
}

func TestMessageKeys(t *testing.T) {
	a, b := key.NewSigner(key.NewSecret(nostr.Generate())), key.NewSigner(key.NewSecret(nostr.Generate()))
	aKey, _ := a.GetPublicKey(t.Context())
	bKey, _ := b.GetPublicKey(t.Context())
	var sealed [2]string
	for i := range sealed {
		var err error
		if sealed[i], err = a.Encrypt(t.Context(), "the same text", bKey); err != nil {
			t.Fatal(err)
		}
	}
	for _, whose := range []struct {
		signer *key.Signer
		with   nostr.PubKey
	}{{a, bKey}, {b, aKey}} {
		keys, err := whose.signer.MessageKeys(sealed[0], whose.with)
		if err != nil {
			t.Fatal(err)
		}
		opening := verify.Opening(keys)
		if text, err := opening.Open(sealed[0]); err != nil || text != "the same text" {
			t.Errorf("%q, %v", text, err)
		}
		if text, err := opening.Open(sealed[1]); !errors.Is(err, verify.ErrOpening) {
			t.Errorf("another message is opened: %q, %v", text, err)
		}
	}
	for _, payload := range []string{"", "AQ==", "no base64", strings.Repeat("A", 132)} {
		if keys, err := a.MessageKeys(payload, bKey); err == nil {
			t.Errorf("%q has keys: %x", payload, keys)
		}
	}
}

func TestHostileCiphertext(t *testing.T) {
	ctx := t.Context()
	s := key.NewSigner(key.NewSecret(nostr.Generate()))
	sender := nostr.Generate().Public()
	b64 := base64.StdEncoding.EncodeToString
	for _, text := range []string{
		"", "?iv=", "AAAA?iv=AAAA", b64(make([]byte, 16)) + "?iv=" + b64(make([]byte, 15)),
		b64(make([]byte, 17)) + "?iv=" + b64(make([]byte, 16)), "?iv=" + b64(make([]byte, 16)),
		b64(make([]byte, 16)) + "?iv=" + b64(make([]byte, 16)) + "?iv=x", "no base64?iv=!!!",
	} {
		if _, err := s.Nip04Decrypt(ctx, text, sender); err == nil {
			t.Errorf("NIP-04 read %q", text)
		}
		if _, err := s.Decrypt(ctx, text, sender); err == nil {
			t.Errorf("NIP-44 read %q", text)
		}
	}
	if _, err := s.Decrypt(ctx, strings.Repeat("A", 200), nostr.PubKey{}); err == nil {
		t.Error("a key that is not on the curve was used")
	}
}

func FuzzDecrypt(f *testing.F) {
	s := key.NewSigner(key.NewSecret(nostr.KeyOne))
	sender := nostr.KeyOne.Public()
	for _, encrypt := range []func(string) (string, error){
		func(plain string) (string, error) { return s.Encrypt(f.Context(), plain, sender) },
		func(plain string) (string, error) { return s.Nip04Encrypt(f.Context(), plain, sender) },
	} {
		sealed, err := encrypt("hello")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sealed)
	}
	f.Fuzz(func(t *testing.T, cipher string) {
		s.Decrypt(t.Context(), cipher, sender)      // must not panic
		s.Nip04Decrypt(t.Context(), cipher, sender) // must not panic
	})
}
