package plaintext_test

import (
	"errors"
	"testing"

	"guild/nutshell/vault"
	"guild/nutshell/vault/plaintext"
	"guild/nutshell/vault/vaulttest"
)

func TestPlaintext(t *testing.T) {
	vaulttest.Test(t, func(t *testing.T) (owner, stranger vault.Sealer) {
		s, err := plaintext.New(true)
		if err != nil {
			t.Fatal(err)
		}
		return s, s
	}, vaulttest.Plain)
}

func TestPlaintextMustBeAskedFor(t *testing.T) {
	if _, err := plaintext.New(false); !errors.Is(err, plaintext.ErrInsecure) {
		t.Error(err)
	}
	var s plaintext.Sealer
	if _, err := s.Seal(t.Context(), vault.NewSecret([]byte("{}"))); !errors.Is(err, plaintext.ErrInsecure) {
		t.Error(err)
	}
	if _, err := s.Open(t.Context(), []byte(vaulttest.Document)); !errors.Is(err, plaintext.ErrInsecure) {
		t.Error(err)
	}
}

func TestOpenSealedVault(t *testing.T) {
	s, err := plaintext.New(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, sealed := range []string{"age-encryption.org/v1\n", `{"sops": {}, "vault_version": 1}`, `{"credentials": []}`} {
		if _, err := s.Open(t.Context(), []byte(sealed)); !errors.Is(err, vault.ErrNotSealed) {
			t.Errorf("%s: %v", sealed, err)
		}
	}
}
