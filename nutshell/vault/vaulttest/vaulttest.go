// Package vaulttest tests what every vault.Sealer must do: one suite for age, sops, transit and plaintext.
package vaulttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"guild/nutshell/vault"
)

// Trait says how a form differs from the others.
type Trait int

// Traits of forms.
const (
	// Slow is for a form that runs a program or asks a server for each vault. The suite tries a sample of the bytes
	// instead of all.
	Slow Trait = iota + 1

	// Plain is for the form without encryption: everybody can open it, and changes go unnoticed.
	Plain
)

// Marker is in every value that the suite seals. It must not appear anywhere else.
const Marker = "hunter2-9b1d7c-marker"

// Document is a small vault.
const Document = `{
  "vault_version": "0.2.0",
  "created_at": "2026-03-14T10:00:00Z",
  "credentials": [
    {"name": "staging-db", "type": "postgresql", "value": {"password": "` + Marker + `", "port": 5432.0}, "scopes": ["read"], "x-team": 1e2}
  ]
}
`

// Test runs the suite. Both sealers are of the same form; what owner seals, owner can open and stranger cannot.
func Test(t *testing.T, sealers func(t *testing.T) (owner, stranger vault.Sealer), traits ...Trait) {
	s := suite{sealers, slices.Contains(traits, Slow), slices.Contains(traits, Plain)}
	t.Run("what is sealed opens again", s.opens)
	t.Run("both say their form", s.form)
	t.Run("large documents are bounded", s.bounds)
	t.Run("something else than a vault is refused", s.foreign)
	t.Run("a cancelled context ends it", s.cancelled)
	t.Run("many may use it at once", s.concurrent)
	if s.plain {
		return
	}
	t.Run("nothing of it is in clear", s.clear)
	t.Run("sealing twice differs", s.fresh)
	t.Run("a stranger cannot open it", s.stranger)
	t.Run("a flipped bit is noticed", s.flipped)
	t.Run("a missing end is noticed", s.truncated)
	t.Run("bytes after the end are noticed", s.extended)
}

type suite struct {
	sealers     func(*testing.T) (owner, stranger vault.Sealer)
	slow, plain bool
}

// sealed is a sealed small vault and who made it.
func (s suite) sealed(t *testing.T) (owner, stranger vault.Sealer, sealed []byte) {
	t.Helper()
	owner, stranger = s.sealers(t)
	sealed, err := owner.Seal(t.Context(), vault.NewSecret([]byte(Document)))
	if err != nil {
		t.Fatal(err)
	}
	return owner, stranger, sealed
}

func (s suite) opens(t *testing.T) {
	owner, _ := s.sealers(t)
	for _, document := range []string{Document, `{"vault_version":"0.2.0","credentials":[]}`, filled(64 << 10), filled(256 << 10)} {
		sealed, err := owner.Seal(t.Context(), vault.NewSecret([]byte(document)))
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) > vault.MaxSealed {
			t.Errorf("%d bytes became %d, more than a vault may have", len(document), len(sealed))
		}
		open, err := owner.Open(t.Context(), sealed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(open.Reveal(), []byte(document)) {
			t.Errorf("%d bytes became %d others", len(document), len(open.Reveal()))
		}
	}
}

// filled returns a document of n bytes.
func filled(n int) string {
	head, tail := `{"vault_version":"0.2.0","x":"`, `"}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

func (s suite) form(t *testing.T) {
	owner, stranger := s.sealers(t)
	known := []string{vault.Age, vault.Sops, vault.Transit, vault.Plaintext}
	if owner.Form() != stranger.Form() || !slices.Contains(known, owner.Form()) {
		t.Errorf("the forms are %q and %q", owner.Form(), stranger.Form())
	}
}

func (s suite) bounds(t *testing.T) {
	owner, _ := s.sealers(t)
	for _, n := range []int{vault.MaxSealed + 1, vault.MaxSealed * 3 / 2} {
		if _, err := owner.Seal(t.Context(), vault.NewSecret([]byte(filled(n)))); !errors.Is(err, vault.ErrTooLarge) {
			t.Errorf("sealing %d bytes: %v", n, err)
		}
		if _, err := owner.Open(t.Context(), []byte(filled(n))); !errors.Is(err, vault.ErrTooLarge) {
			t.Errorf("opening %d bytes: %v", n, err)
		}
	}
	sealed, err := owner.Seal(t.Context(), vault.NewSecret([]byte(filled(vault.MaxSealed))))
	if err == nil && len(sealed) > vault.MaxSealed || err != nil && !errors.Is(err, vault.ErrTooLarge) {
		t.Errorf("the largest document became %d bytes, %v", len(sealed), err)
	}
}

// foreign tries to open files of other forms, and files of none.
func (s suite) foreign(t *testing.T) {
	owner, _ := s.sealers(t)
	for name, sealed := range map[string]string{
		"nothing": "", "a line": "\n", "words": "open sesame " + Marker, "zeros": strings.Repeat("\x00", 100),
		"half an age file": "age-encryption.org/v1\n", "an empty armour": "-----BEGIN AGE ENCRYPTED FILE-----\n",
		"half an object": `{"vault_version": "0.2.0", "credentials": [{"value": "` + Marker, "an array": `["` + Marker + `"]`,
		"a sops file without keys": `{"data": "ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]", "sops": {"version": "3.9.0"}}`,
		"a transit ciphertext":     `vault:v1:AAAA`,
	} {
		_, err := owner.Open(t.Context(), []byte(sealed))
		if !errors.Is(err, vault.ErrNotSealed) && !errors.Is(err, vault.ErrTampered) && !errors.Is(err, vault.ErrNotFor) {
			t.Errorf("%s: %v", name, err)
		}
		tells(t, name, err)
	}
}

func (s suite) cancelled(t *testing.T) {
	owner, _, sealed := s.sealed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := owner.Seal(ctx, vault.NewSecret([]byte(Document))); !errors.Is(err, context.Canceled) {
		t.Errorf("sealing: %v", err)
	}
	if _, err := owner.Open(ctx, sealed); !errors.Is(err, context.Canceled) {
		t.Errorf("opening: %v", err)
	}
}

func (s suite) concurrent(t *testing.T) {
	owner, _ := s.sealers(t)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			document := strings.Replace(Document, Marker, fmt.Sprint(Marker, i), 1)
			sealed, err := owner.Seal(t.Context(), vault.NewSecret([]byte(document)))
			if err != nil {
				t.Error(err)
				return
			}
			open, err := owner.Open(t.Context(), sealed)
			if err != nil || string(open.Reveal()) != document {
				t.Errorf("opened another document: %v", err)
			}
		})
	}
	all.Wait()
}

func (s suite) clear(t *testing.T) {
	_, _, sealed := s.sealed(t)
	if bytes.Contains(sealed, []byte(Marker)) {
		t.Error("the value is in the sealed vault")
	}
}

func (s suite) fresh(t *testing.T) {
	owner, _, first := s.sealed(t)
	second, err := owner.Seal(t.Context(), vault.NewSecret([]byte(Document)))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first, second) {
		t.Error("the same document gives the same bytes, so that who sees two vaults knows whether they are the same")
	}
}

func (s suite) stranger(t *testing.T) {
	_, stranger, sealed := s.sealed(t)
	open, err := stranger.Open(t.Context(), sealed)
	if !errors.Is(err, vault.ErrNotFor) || !open.IsZero() {
		t.Errorf("the stranger got %v, %v", open, err)
	}
	tells(t, "the stranger", err)
}

func (s suite) flipped(t *testing.T) {
	owner, _, sealed := s.sealed(t)
	for _, at := range s.places(len(sealed)) {
		bit := []byte{1, 0x20}[at%2] // the second turns upper case into lower case
		changed := bytes.Clone(sealed)
		changed[at] ^= bit
		s.changed(t, owner, fmt.Sprintf("byte %d of %d flipped by %#x", at, len(sealed), bit), changed)
	}
}

func (s suite) truncated(t *testing.T) {
	owner, _, sealed := s.sealed(t)
	for _, n := range s.places(len(sealed)) {
		s.changed(t, owner, fmt.Sprintf("cut after %d bytes of %d", n, len(sealed)), sealed[:n])
	}
}

func (s suite) extended(t *testing.T) {
	owner, _, sealed := s.sealed(t)
	for _, more := range []string{"x", "\x00", "\n", string(sealed)} {
		s.changed(t, owner, fmt.Sprintf("%.8q added", more), append(bytes.Clone(sealed), more...))
	}
}

// places returns the offsets to try: all of them, or about forty.
func (s suite) places(n int) []int {
	step := 1
	if s.slow {
		step = max(1, n/40)
	}
	var all []int
	for at := 0; at < n; at += step {
		all = append(all, at)
	}
	return all
}

// changed tries to open a changed vault. That must be an error, or, if the change means nothing (such as white space),
// the unchanged document.
func (s suite) changed(t *testing.T, owner vault.Sealer, what string, sealed []byte) {
	t.Helper()
	open, err := owner.Open(t.Context(), sealed)
	switch {
	case err == nil && string(open.Reveal()) == Document:
	case err == nil:
		t.Errorf("%s: opened, and is another document", what)
	case !open.IsZero():
		t.Errorf("%s: a document beside the error", what)
	case !errors.Is(err, vault.ErrTampered) && !errors.Is(err, vault.ErrNotSealed) && !errors.Is(err, vault.ErrNotFor):
		t.Errorf("%s: %v", what, err)
	}
	tells(t, what, err)
}

// tells fails the test if an error contains a part of the document.
func tells(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), Marker[:8]) {
		t.Errorf("%s: the error repeats a value: %v", what, err)
	}
}
