package key_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/hand/key"
)

func TestHomeBelongsToOneKey(t *testing.T) {
	dir := t.TempDir()
	mine, other := nostr.GetPublicKey(nostr.SecretKey{31: 1}), nostr.GetPublicKey(nostr.SecretKey{31: 2})
	if err := errors.Join(key.CheckOwner(dir, other), key.Claim(dir, mine), key.Claim(dir, mine)); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{key.Claim(dir, other), key.CheckOwner(dir, other)} {
		foreign, ok := errors.AsType[*key.ForeignError](err)
		if !ok || foreign.Owner != mine || foreign.Given != other {
			t.Errorf("%v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "owner"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := key.Claim(dir, mine); err == nil {
		t.Error("a damaged file was taken")
	}
}
