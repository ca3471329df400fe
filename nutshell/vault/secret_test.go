package vault_test

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
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"guild/nutshell/vault"
)

const marker = "hunter2-c0ffee-marker"

var march = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

// spellings are the forms in which a leaked value could appear in text.
func spellings() []string {
	b := []byte(marker)
	return []string{
		marker, hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), base64.StdEncoding.EncodeToString(b)[:20],
		strings.Trim(fmt.Sprint(b), "[]"), strings.TrimSuffix(fmt.Sprintf("%#v", b), "}")[len("[]byte{"):],
	}
}

func refuse(t *testing.T, where, text string) {
	t.Helper()
	for _, form := range spellings() {
		if strings.Contains(text, form) {
			t.Errorf("%s shows the value: %.300q", where, text)
			return
		}
	}
}

// holder hides a secret where fmt cannot call its methods.
type holder struct{ inner struct{ secret vault.Secret } }

// shown has secrets in the places that encoders read.
type shown struct {
	Secret     vault.Secret
	Credential vault.Credential
	Vault      *vault.Vault
}

// full returns a vault with a value, and everything that can hold it.
func full(t testing.TB) (*vault.Vault, []any) {
	t.Helper()
	s := vault.ValueOf(vault.NewSecret([]byte(marker)))
	v := vault.New(march)
	if err := v.Put(vault.Credential{Name: "db", Value: s}); err != nil {
		t.Fatal(err)
	}
	c, _ := v.Credential("db")
	var h holder
	h.inner.secret = s
	return v, []any{
		s, &s, c, &c, *v, v, h, &h, shown{s, c, v}, &shown{s, c, v}, []vault.Secret{s}, map[string]vault.Secret{"a": s},
		v.Credentials(), v.Document(), v.Scopes(),
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	_, values := full(t)
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o", "%c", "%U", "%t", "%p"} {
			refuse(t, fmt.Sprintf("%T with %s", value, verb), fmt.Sprintf(verb, value))
		}
		refuse(t, fmt.Sprintf("%T in an error", value), fmt.Errorf("x: %v", value).Error())
	}
}

func TestSecretIsNotLogged(t *testing.T) {
	_, values := full(t)
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		for _, value := range values {
			slog.New(handler(&b)).Info("a secret", "value", value, "group", slog.GroupValue(slog.Any("s", value)))
		}
		refuse(t, "the "+name+" log", b.String())
	}
}

func TestSecretIsNotSerialized(t *testing.T) {
	_, values := full(t)
	for _, value := range values {
		if b, err := json.Marshal(value); err == nil {
			refuse(t, fmt.Sprintf("JSON of %T", value), string(b))
		}
		if b, err := jsonv2.Marshal(value); err == nil {
			refuse(t, fmt.Sprintf("JSON (v2) of %T", value), string(b))
		}
		if b, err := xml.Marshal(value); err == nil {
			refuse(t, fmt.Sprintf("XML of %T", value), string(b))
		}
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(value); err == nil {
			refuse(t, fmt.Sprintf("gob of %T", value), b.String())
		}
	}
	s := vault.NewSecret([]byte(marker))
	for name, err := range map[string]error{
		"JSON": second(s.MarshalJSON()), "text": second(s.MarshalText()), "binary": second(s.MarshalBinary()), "gob": second(s.GobEncode()),
	} {
		if err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

func second(_ []byte, err error) error { return err }

func TestZeroSecret(t *testing.T) {
	var none vault.Secret
	if !none.IsZero() || none.Reveal() != nil || none.String() != "[secret]" {
		t.Error("the zero secret holds something")
	}
	if s := vault.NewSecret(nil); s.IsZero() {
		t.Error("an empty secret is none")
	}
}
