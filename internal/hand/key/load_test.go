package key_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild/internal/hand/key"
)

// noOne answers no question for a passphrase.
func noOne() ([]byte, error) { return nil, errors.New("nobody to ask") }

// environment returns a take function over a map.
func environment(vars map[string]string) func(string) string {
	return func(name string) string {
		value := vars[name]
		delete(vars, name)
		return value
	}
}

var nothing = environment(map[string]string{})

func put(t *testing.T, dir, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, key.File)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestCreateAndLoad(t *testing.T) {
	for name, passphrase := range map[string]string{"plain": "", "sealed": "two words"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "home")
			public, err := key.Create(dir, []byte(passphrase))
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(dir, key.File))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("files left behind: %v", left)
			}
			id, err := key.Load(dir, func() ([]byte, error) { return []byte(passphrase), nil }, nothing)
			if err != nil || id.PubKey != public {
				t.Errorf("loaded %v: %v", id.PubKey, err)
			}
		})
	}
}

func TestIdentityIsNeverOverwritten(t *testing.T) {
	dir := t.TempDir()
	first, err := key.Create(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := key.Create(dir, nil); !errors.Is(err, key.ErrExists) {
		t.Errorf("a second identity: %v", err)
	}
	if _, err := key.Import(dir, nostr.Generate().Hex(), nil); !errors.Is(err, key.ErrExists) {
		t.Errorf("an imported identity over it: %v", err)
	}
	if id, err := key.Load(dir, noOne, nothing); err != nil || id.PubKey != first {
		t.Errorf("the first one is gone: %v", err)
	}
}

func TestLoadFromEnvironment(t *testing.T) {
	dir := t.TempDir()
	if _, err := key.Create(dir, nil); err != nil {
		t.Fatal(err)
	}
	k := nostr.Generate()
	vars := map[string]string{"NOSTR_SECRET_KEY": nip19.EncodeNsec(k), "GUILD_PASSPHRASE": "x"}
	id, err := key.Load(dir, noOne, environment(vars))
	if err != nil || id.PubKey != k.Public() {
		t.Fatalf("loaded %v: %v", id.PubKey, err)
	}
	if len(vars) != 0 {
		t.Errorf("left in the environment: %d", len(vars))
	}
}

func TestTakeEnvUnsets(t *testing.T) {
	t.Setenv("NOSTR_SECRET_KEY", "value")
	if got := key.TakeEnv("NOSTR_SECRET_KEY"); got != "value" {
		t.Errorf("took %q", got)
	}
	if _, ok := os.LookupEnv("NOSTR_SECRET_KEY"); ok {
		t.Error("still set")
	}
}

func TestReadableIdentityIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o620, 0o666} {
		put(t, dir, nostr.Generate().Hex(), mode)
		_, err := key.Load(dir, noOne, nothing)
		loose, ok := errors.AsType[*key.ModeError](err)
		if !ok {
			t.Errorf("mode %o: %v", mode, err)
			continue
		}
		if want := "chmod 600 " + filepath.Join(dir, key.File); loose.Hint() != want {
			t.Errorf("hint %q, want %q", loose.Hint(), want)
		}
	}
}

func TestMissingAndStrangeIdentities(t *testing.T) {
	dir := t.TempDir()
	if _, err := key.Load(dir, noOne, nothing); !errors.Is(err, key.ErrNone) {
		t.Errorf("no file: %v", err)
	}
	for name, text := range map[string]string{
		"empty": "", "words": "hello", "huge": strings.Repeat("a", 1<<20), "a bunker without relays": "bunker://" + nostr.Generate().Public().Hex(),
	} {
		put(t, dir, text, 0o600)
		if _, err := key.Load(dir, noOne, nothing); err == nil {
			t.Errorf("%s was loaded", name)
		}
	}
	os.Remove(filepath.Join(dir, key.File))
	os.Mkdir(filepath.Join(dir, key.File), 0o700)
	if _, err := key.Load(dir, noOne, nothing); err == nil {
		t.Error("a directory was loaded")
	}
}

// The test vector of NIP-49.
const (
	sealedVector = "ncryptsec1qgg9947rlpvqu76pj5ecreduf9jxhselq2nae2kghhvd5g7dgjtcxfqtd67p9m0w57lspw8gsq6yphnm8623nsl8xn9j4jdzz84zm3frztj3z7s35vpzmqf6ksu8r89qk5z2zxfmu5gv8th8wclt0h4p"
	openVector   = "3501454135014541350145413501453fefb02227e449e57cf4d3a3ce05378683"
)

func TestEncryptedIdentity(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, sealedVector+"\n", 0o600)
	want, err := key.ParseSecret(openVector)
	if err != nil {
		t.Fatal(err)
	}
	id, err := key.Load(dir, func() ([]byte, error) { return []byte("nostr"), nil }, nothing)
	if err != nil || id.PubKey != want.PubKey() {
		t.Errorf("asked: %v", err)
	}
	id, err = key.Load(dir, noOne, environment(map[string]string{"GUILD_PASSPHRASE": "nostr"}))
	if err != nil || id.PubKey != want.PubKey() {
		t.Errorf("from the environment: %v", err)
	}
	if _, err = key.Load(dir, func() ([]byte, error) { return []byte("wrong"), nil }, nothing); !errors.Is(err, key.ErrPassphrase) {
		t.Errorf("a wrong passphrase: %v", err)
	}
	if _, err = key.Load(dir, noOne, nothing); err == nil || errors.Is(err, key.ErrPassphrase) {
		t.Errorf("nobody to ask: %v", err)
	}
}

func TestExpensiveIdentityIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"2^62 rounds": sealedVector[:11] + "gl" + sealedVector[13:],
		"short":       sealedVector[:40],
		"long":        sealedVector + "q",
		"version 3":   sealedVector[:10] + "qv" + sealedVector[12:],
		"no bech32":   sealedVector[:20] + "B" + sealedVector[21:],
	} {
		put(t, dir, text, 0o600)
		_, err := key.Load(dir, func() ([]byte, error) { return []byte("nostr"), nil }, nothing)
		if err == nil {
			t.Errorf("%s was opened", name)
		}
		if strings.HasSuffix(name, "rounds") && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: refused only for %v", name, err)
		}
	}
}

func TestBunkerIdentity(t *testing.T) {
	dir := t.TempDir()
	url := "bunker://" + nostr.Generate().Public().Hex() + "?relay=wss%3A%2F%2Frelay.example.com&secret=token"
	if _, err := key.Import(dir, url, nil); err != nil {
		t.Fatal(err)
	}
	id, err := key.Load(dir, noOne, nothing)
	if err != nil || string(id.Bunker) != url || id.Signer != nil {
		t.Fatalf("%v %v: %v", id.Bunker, id.Signer, err)
	}
	if text := id.Bunker.String() + id.Bunker.GoString(); strings.Contains(text, "token") {
		t.Errorf("the token is printed: %s", text)
	}
}

func TestCompanionIsStable(t *testing.T) {
	dir := t.TempDir()
	first, err := key.Companion(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := key.Companion(dir)
	if err != nil || first.Reveal() != second.Reveal() {
		t.Errorf("another key: %v", err)
	}
}

func TestFormNeedsNoPassphrase(t *testing.T) {
	for form, text := range map[string]string{
		"nsec": nip19.EncodeNsec(nostr.Generate()), "ncryptsec": sealedVector,
		"bunker": "bunker://" + nostr.Generate().Public().Hex() + "?relay=wss://a.example",
	} {
		dir := t.TempDir()
		put(t, dir, text, 0o600)
		if got, err := key.Form(dir); got != form || err != nil {
			t.Errorf("%s: %q, %v", form, got, err)
		}
	}
}
