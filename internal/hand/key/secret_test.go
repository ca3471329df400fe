package key_test

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild/internal/hand/key"
)

// spellings lists the forms in which a leaked key could be in a text.
func spellings(k nostr.SecretKey) []string {
	return []string{
		k.Hex(), strings.ToUpper(k.Hex()), nip19.EncodeNsec(k), string(k[:]),
		base64.StdEncoding.EncodeToString(k[:]), strings.Trim(fmt.Sprint(k[:]), "[]"),
		strings.TrimSuffix(fmt.Sprintf("%#v", k[:4]), "}")[len("[]byte{"):], hex.EncodeToString([]byte(k.Hex())),
	}
}

// holder hides a secret where fmt cannot call its methods.
type holder struct{ inner struct{ secret key.Secret } }

// shown has the secret in a field that encoders read.
type shown struct{ Secret key.Secret }

func TestSecretCannotBePrinted(t *testing.T) {
	k := nostr.Generate()
	s := key.NewSecret(k)
	var h holder
	h.inner.secret = s
	signer := key.NewSigner(s)
	values := []any{s, &s, shown{s}, &shown{s}, h, &h, []key.Secret{s}, map[string]key.Secret{"a": s}, signer, key.Identity{Signer: signer}}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o", "%c", "%U", "%t", "%p"} {
			refuse(t, k, fmt.Sprintf("%T with %s", v, verb), fmt.Sprintf(verb, v))
		}
		refuse(t, k, fmt.Sprintf("%T in an error", v), fmt.Errorf("x: %v", v).Error())
	}
}

func refuse(t *testing.T, k nostr.SecretKey, where, text string) {
	t.Helper()
	for _, form := range spellings(k) {
		if strings.Contains(text, form) {
			t.Errorf("%s shows the key: %.200q", where, text)
			return
		}
	}
}

func TestSecretCannotBeLogged(t *testing.T) {
	k := nostr.Generate()
	s := key.NewSecret(k)
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		log := slog.New(handler(&b))
		log.Info("a secret", "secret", s, "in", shown{s}, "group", slog.GroupValue(slog.Any("s", &s)), "signer", key.NewSigner(s))
		refuse(t, k, "the "+name+" log", b.String())
		if !strings.Contains(b.String(), "[secret]") {
			t.Errorf("the %s log shows no placeholder: %s", name, b.String())
		}
	}
}

func TestSecretCannotBeSerialised(t *testing.T) {
	k := nostr.Generate()
	s := key.NewSecret(k)
	for _, v := range []any{s, &s, shown{s}, []key.Secret{s}} {
		if b, err := json.Marshal(v); err == nil {
			t.Errorf("JSON of %T: %s", v, b)
		}
		if b, err := xml.Marshal(v); err == nil {
			t.Errorf("XML of %T: %s", v, b)
		}
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(v); err == nil {
			t.Errorf("gob of %T: %x", v, b.Bytes())
		}
		refuse(t, k, "gob", b.String())
	}
	if _, err := s.MarshalText(); err == nil {
		t.Error("text was written")
	}
	if _, err := s.MarshalBinary(); err == nil {
		t.Error("binary was written")
	}
}

func TestParseSecretReadsBothForms(t *testing.T) {
	k := nostr.Generate()
	for _, text := range []string{k.Hex(), strings.ToUpper(k.Hex()), nip19.EncodeNsec(k), " " + k.Hex() + "\n"} {
		s, err := key.ParseSecret(text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Reveal() != k || s.PubKey() != k.Public() {
			t.Errorf("%T read another key", s)
		}
	}
}

func TestParseSecretHidesWrongText(t *testing.T) {
	k := nostr.Generate()
	nsec := nip19.EncodeNsec(k)
	order := "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	for _, text := range []string{
		"", "nsec1", nsec[:len(nsec)-1], nsec + "q", k.Hex()[:63], k.Hex() + "0", "z" + k.Hex()[1:],
		nip19.EncodeNpub(k.Public()), strings.Repeat("0", 64), order,
	} {
		_, err := key.ParseSecret(text)
		if err == nil {
			t.Errorf("%.20q was read", text)
			continue
		}
		if len(text) > 8 && strings.Contains(err.Error(), text[5:]) {
			t.Errorf("the error repeats the text: %v", err)
		}
	}
}

func FuzzParseSecret(f *testing.F) {
	k := nostr.KeyOne
	f.Add(k.Hex())
	f.Add(nip19.EncodeNsec(k))
	f.Add(nip19.EncodeNpub(k.Public()))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := key.ParseSecret(text)
		if err != nil {
			return
		}
		again, err := key.ParseSecret(nip19.EncodeNsec(s.Reveal()))
		if err != nil || again.Reveal() != s.Reveal() {
			t.Errorf("not the same key again: %v", err)
		}
	})
}
