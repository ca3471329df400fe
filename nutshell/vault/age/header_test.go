package age

import (
	"errors"
	"testing"

	"guild/nutshell/vault"
)

func TestSealedFor(t *testing.T) {
	_, first := fresh(t)
	_, second := fresh(t)
	_, public := sshKey(t, "ed25519", "")
	_, other := sshKey(t, "ed25519", "")
	for _, row := range []struct {
		name           string
		sealed, listed []string
		same           bool
	}{
		{"one", []string{first}, []string{first}, true},
		{"two kinds", []string{first, public}, []string{public, first}, true},
		{"one more", []string{first, second}, []string{first}, false},
		{"one less", []string{first}, []string{first, second}, false},
		{"another SSH key", []string{public}, []string{other}, false},
		{"another kind", []string{first}, []string{public}, false},
		{"none listed", []string{first}, nil, false},
	} {
		s, err := New(Config{Recipients: row.sealed})
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := s.Seal(t.Context(), vault.NewSecret([]byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		kinds, err := SealedFor(sealed)
		if err != nil || len(kinds) != len(row.sealed) || IsFor(kinds, row.listed) != row.same {
			t.Errorf("%s: %q, %v", row.name, kinds, err)
		}
	}
	if _, err := SealedFor([]byte("age-encryption.org/v1\nx")); !errors.Is(err, vault.ErrNotSealed) {
		t.Error(err)
	}
}
