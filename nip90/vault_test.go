package nip90_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
	"guild/nutshell/vault"
)

// ageFile looks like an age file; this package checks no more.
var ageFile = []byte("age-encryption.org/v1\n-> X25519 hunter2-hunter2")

// withVault returns a request with a vault.
func withVault(t *testing.T, v nip90.Vault) nip90.Request {
	t.Helper()
	r := fullRequest()
	if err := r.SetVault(v); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVaultInEncryptedRequest(t *testing.T) {
	for name, v := range map[string]nip90.Vault{
		"sealed":            {Sealed: ageFile},
		"sealed, armored":   {Sealed: []byte("-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n"), AllowExpired: true},
		"the document":      {Document: vault.NewSecret([]byte(`{"credentials":["hunter2-hunter2"]}`))},
		"as large as it is": {Sealed: append(bytes.Clone(ageFile), make([]byte, nip90.MaxVault-len(ageFile))...)},
	} {
		r := withVault(t, v)
		e := customer.publish(t, must[nostr.Event](t)(r.Sealed(customer.sealTo(provider))))
		if text := e.String(); strings.Contains(text, "vault") || strings.Contains(text, "hunter2") {
			t.Errorf("%s: outside stands %s", name, text)
		}
		back := must[nip90.Request](t)(nip90.ParseRequest(e, provider.open))
		got, err := back.Vault()
		if err != nil || got == nil || !bytes.Equal(got.Sealed, v.Sealed) || got.AllowExpired != v.AllowExpired ||
			!bytes.Equal(got.Document.Reveal(), v.Document.Reveal()) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if v, err := fullRequest().Vault(); v != nil || err != nil {
		t.Errorf("a request without one has %v, %v", v, err)
	}
}

func TestVaultNotInClear(t *testing.T) {
	r := withVault(t, nip90.Vault{Sealed: ageFile})
	if _, err := r.Event(); !errors.Is(err, nip90.ErrSecret) {
		t.Errorf("written in clear: %v", err)
	}
	r.Params = []nip90.Param{{Key: nip90.ParamVault}}
	if _, err := r.Event(); !errors.Is(err, nip90.ErrSecret) {
		t.Errorf("written in clear without a value: %v", err)
	}
	sealed := must[nostr.Event](t)(fullRequest().Sealed(customer.sealTo(provider)))
	for name, e := range map[string]nostr.Event{
		"a request in clear":            {Kind: 5000},
		"beside an encrypted one":       sealed,
		"beside one with a bundle, too": {Kind: 5000, Tags: nostr.Tags{{"i", "x"}, {"param", "top", "1"}}},
	} {
		e.Tags = append(e.Tags, nostr.Tag{"param", "vault", "nip44", "aHVudGVyMi1odW50ZXIy"})
		_, err := nip90.ParseRequest(customer.publish(t, e), provider.open)
		if !errors.Is(err, nip90.ErrSecret) || strings.Contains(err.Error(), "aHVudGVy") {
			t.Errorf("%s: %v", name, err)
		}
		if text := nip90.Redacted(e).String(); strings.Contains(text, "aHVudGVy") || !strings.Contains(text, "[secret]") {
			t.Errorf("%s: kept as %s", name, text)
		}
	}
}

func TestVaultNotPrinted(t *testing.T) {
	v := nip90.Vault{Document: vault.NewSecret([]byte("hunter2-hunter2"))}
	r := withVault(t, v)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, text := range []string{fmt.Sprintf(format, v), fmt.Sprintf(format, &v), fmt.Sprintf(format, r.Params)} {
			for _, secret := range []string{"hunter2", "aHVudGVy", fmt.Sprintf("%x", "hunter2"), "104 117 110"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s prints %s", format, text)
				}
			}
		}
	}
	if b, err := json.Marshal(v); !errors.Is(err, vault.ErrSecret) {
		t.Errorf("serialized as %s, %v", b, err)
	}
}

func TestSetVaultErrors(t *testing.T) {
	for name, v := range map[string]nip90.Vault{
		"nothing":           {},
		"in clear":          {Sealed: []byte(`{"vault_version":"0.2.0"}`)},
		"both":              {Sealed: ageFile, Document: vault.NewSecret([]byte("x"))},
		"an empty document": {Document: vault.NewSecret(nil)},
	} {
		r := fullRequest()
		if err := r.SetVault(v); !errors.Is(err, nip90.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := fullRequest()
	if err := r.SetVault(nip90.Vault{Sealed: append(bytes.Clone(ageFile), make([]byte, nip90.MaxVault)...)}); !errors.Is(err, nip90.ErrTooBig) {
		t.Errorf("too large: %v", err)
	}
}

func TestInvalidVaultsRefused(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(ageFile)
	hash := guild.Sum(ageFile).Hex()
	for name, c := range map[string]struct {
		values []string
		hash   string
		want   error
	}{
		"no values":          {nil, hash, nip90.ErrMalformed},
		"no bytes":           {[]string{"age"}, hash, nip90.ErrMalformed},
		"another form":       {[]string{"sops", good}, hash, nip90.ErrMalformed},
		"not base64":         {[]string{"age", "hunter2-hunter2!"}, hash, nip90.ErrMalformed},
		"another hash":       {[]string{"age", good}, guild.Sum(nil).Hex(), nip90.ErrMalformed},
		"no hash":            {[]string{"age", good}, "", nip90.ErrMalformed},
		"empty":              {[]string{"nip44", ""}, guild.Sum(nil).Hex(), nip90.ErrMalformed},
		"in clear, as a age": {[]string{"age", base64.StdEncoding.EncodeToString([]byte("{}"))}, guild.Sum([]byte("{}")).Hex(), nip90.ErrMalformed},
		"too large":          {[]string{"age", strings.Repeat("A", 64<<10)}, hash, nip90.ErrTooBig},
	} {
		r := nip90.Request{Kind: 5000}
		r.Set(nip90.ParamVault, c.values...)
		r.Set(nip90.ParamVaultSHA256, c.hash)
		if v, err := r.Vault(); !errors.Is(err, c.want) || v != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

func TestVaultNotInJobHash(t *testing.T) {
	bare := must[guild.Hash](t)(fullRequest().JobHash())
	one := must[guild.Hash](t)(withVault(t, nip90.Vault{Sealed: ageFile}).JobHash())
	other := must[guild.Hash](t)(withVault(t, nip90.Vault{Document: vault.NewSecret([]byte("{}"))}).JobHash())
	if one != bare || other != bare {
		t.Errorf("%s, %s and %s", bare, one, other)
	}
}
