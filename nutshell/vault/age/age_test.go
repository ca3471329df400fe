package age

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"guild/nutshell/vault"
	"guild/nutshell/vault/vaulttest"
)

var march = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

// fresh is a new key.
func fresh(t testing.TB) (Identity, string) {
	t.Helper()
	text, recipient, err := Generate(march)
	if err != nil {
		t.Fatal(err)
	}
	return Identity{Name: "age.key", Text: text}, recipient
}

// quantum is a new post-quantum key.
func quantum(t testing.TB) (Identity, string) {
	t.Helper()
	k, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return Identity{Name: "pq.key", Text: vault.NewSecret([]byte(k.String()))}, k.Recipient().String()
}

func sealer(t testing.TB, c Config) *Sealer {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.workFactor = 4
	return s
}

// says is a person who gives the same answer to every question.
func says(answer string) UI {
	return UI{Ask: func(string) ([]byte, error) { return []byte(answer), nil }}
}

func TestAgeKeys(t *testing.T) {
	between := func(key func(testing.TB) (Identity, string)) func(*testing.T) (owner, stranger vault.Sealer) {
		return func(t *testing.T) (owner, stranger vault.Sealer) {
			mine, recipient := key(t)
			other, _ := key(t)
			return sealer(t, Config{Recipients: []string{recipient}, Identities: []Identity{mine}}),
				sealer(t, Config{Recipients: []string{recipient}, Identities: []Identity{other}})
		}
	}
	t.Run("X25519", func(t *testing.T) { vaulttest.Test(t, between(fresh)) })
	t.Run("post-quantum", func(t *testing.T) { vaulttest.Test(t, between(quantum), vaulttest.Slow) })
}

func TestPassphrase(t *testing.T) {
	vaulttest.Test(t, func(t *testing.T) (owner, stranger vault.Sealer) {
		return sealer(t, Config{Recipients: []string{Passphrase}, UI: says("correct horse")}),
			sealer(t, Config{Recipients: []string{Passphrase}, UI: says("incorrect horse")})
	})
}

// sealedFor is a small vault, sealed.
func sealedFor(t testing.TB, recipients ...string) []byte {
	t.Helper()
	sealed, err := sealer(t, Config{Recipients: recipients}).Seal(context.Background(), vault.NewSecret([]byte(vaulttest.Document)))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestEveryRecipientOpens(t *testing.T) {
	var recipients []string
	var keys []Identity
	for range 3 {
		k, r := fresh(t)
		keys, recipients = append(keys, k), append(recipients, r)
	}
	sealed := sealedFor(t, recipients...)
	for _, k := range keys {
		if _, err := sealer(t, Config{Identities: []Identity{k}}).Open(t.Context(), sealed); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenBinaryAndArmoured(t *testing.T) {
	k, recipient := fresh(t)
	sealed := sealedFor(t, recipient)
	if !bytes.HasPrefix(sealed, []byte(armor.Header)) {
		t.Errorf("not armoured: %.40q", sealed)
	}
	in, _ := unarmoured(sealed)
	var binary bytes.Buffer
	if _, err := binary.ReadFrom(in); err != nil {
		t.Fatal(err)
	}
	open, err := sealer(t, Config{Identities: []Identity{k}}).Open(t.Context(), binary.Bytes())
	if err != nil || string(open.Reveal()) != vaulttest.Document {
		t.Error(err)
	}
}

func TestLockedIdentityAsksOnce(t *testing.T) {
	k, recipient := fresh(t)
	for name, lock := range map[string]func([]byte) []byte{"binary": locked4(t, false), "armoured": locked4(t, true)} {
		asked := 0
		ui := UI{Ask: func(prompt string) ([]byte, error) {
			if asked++; prompt != "Passphrase of me.age: " {
				t.Errorf("asks %q", prompt)
			}
			return []byte("open"), nil
		}}
		id := Identity{Name: "me.age", Text: vault.NewSecret(lock(k.Text.Reveal()))}
		s := sealer(t, Config{Identities: []Identity{id}, UI: ui})
		if asked != 0 {
			t.Error("asks before there is a vault")
		}
		for range 2 {
			if _, err := s.Open(t.Context(), sealedFor(t, recipient)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if asked != 1 {
			t.Errorf("%s: asked %d times", name, asked)
		}
		all, err := id.Recipients(t.Context(), ui)
		if err != nil || len(all) != 1 || all[0] != recipient {
			t.Errorf("%s: recipients %v, %v", name, all, err)
		}
	}
}

// locked4 locks an identity file with the passphrase "open", cheaply.
func locked4(t *testing.T, armoured bool) func([]byte) []byte {
	return func(text []byte) []byte {
		r, err := age.NewScryptRecipient("open")
		if err != nil {
			t.Fatal(err)
		}
		r.SetWorkFactor(4)
		var out bytes.Buffer
		if armoured {
			if err := encrypt(&out, text, []age.Recipient{r}); err != nil {
				t.Fatal(err)
			}
			return out.Bytes()
		}
		w, err := age.Encrypt(&out, r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
}

func TestLockedIdentityErrors(t *testing.T) {
	k, recipient := fresh(t)
	sealed := sealedFor(t, recipient)
	text := vault.NewSecret(locked4(t, true)(k.Text.Reveal()))
	for name, c := range map[string]struct {
		text vault.Secret
		ui   UI
		says string
	}{
		"wrong":  {text, says("shut"), "me.age: the passphrase is wrong"},
		"nobody": {text, UI{}, "no person can be asked"},
		"a key":  {vault.NewSecret(sealed), says("open"), "locked with a key"},
	} {
		s := sealer(t, Config{Identities: []Identity{{Name: "me.age", Text: c.text}}, UI: c.ui})
		_, err := s.Open(t.Context(), sealed)
		if !errors.Is(err, vault.ErrNotFor) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// If another key opens the file, nobody is asked for the passphrase of the locked one.
	s := sealer(t, Config{Identities: []Identity{{Name: "me.age", Text: text}, k}})
	if _, err := s.Open(t.Context(), sealed); err != nil {
		t.Error(err)
	}
}

func TestExpensivePassphraseIsRefused(t *testing.T) {
	r, err := age.NewScryptRecipient("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	r.SetWorkFactor(4)
	var out bytes.Buffer
	if err := encrypt(&out, []byte(vaulttest.Document), []age.Recipient{r}); err != nil {
		t.Fatal(err)
	}
	in, _ := unarmoured(out.Bytes())
	var binary bytes.Buffer
	if _, err := binary.ReadFrom(in); err != nil {
		t.Fatal(err)
	}
	costly := bytes.Replace(binary.Bytes(), []byte(" 4\n"), []byte(" 21\n"), 1)
	started := time.Now()
	if _, err := sealer(t, Config{UI: says("correct horse")}).Open(t.Context(), costly); !errors.Is(err, vault.ErrTampered) {
		t.Error(err)
	}
	if d := time.Since(started); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestTooManyRecipients(t *testing.T) {
	k, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var many []age.Recipient
	for range maxStanzas + 1 {
		many = append(many, k.Recipient())
	}
	var out bytes.Buffer
	if err := encrypt(&out, []byte("{}"), many); err != nil {
		t.Fatal(err)
	}
	id := Identity{Name: "k", Text: vault.NewSecret([]byte(k.String()))}
	if _, err := sealer(t, Config{Identities: []Identity{id}}).Open(t.Context(), out.Bytes()); !errors.Is(err, vault.ErrTampered) {
		t.Error(err)
	}
}

func TestSealForNobody(t *testing.T) {
	_, err := sealer(t, Config{}).Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if !errors.Is(err, ErrNoOne) {
		t.Error(err)
	}
}

func TestInvalidRecipients(t *testing.T) {
	k, recipient := fresh(t)
	_, pq := quantum(t)
	secret := string(bytes.TrimSpace(k.Text.Reveal()[bytes.Index(k.Text.Reveal(), []byte("AGE-SECRET")):]))
	wrong := "q"
	if recipient[20:21] == wrong {
		wrong = "p"
	}
	for name, c := range map[string]struct {
		all  []string
		want error
	}{
		"empty":                   {[]string{""}, ErrRecipient},
		"words":                   {[]string{"alice"}, ErrRecipient},
		"one letter wrong":        {[]string{recipient[:20] + wrong + recipient[21:]}, ErrRecipient},
		"too long":                {[]string{"age1" + strings.Repeat("q", maxRecipient)}, ErrRecipient},
		"a passphrase and a key":  {[]string{Passphrase, recipient}, ErrAlone},
		"post-quantum and not":    {[]string{pq, recipient}, ErrMixed},
		"two lines":               {[]string{recipient + "\n" + recipient}, ErrRecipient},
		"a secret key by mistake": {[]string{secret}, nil},
	} {
		_, err := New(Config{Recipients: c.all})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), secret[20:30]) {
			t.Errorf("%s: the error repeats the secret: %v", name, err)
		}
	}
}

func TestIsNative(t *testing.T) {
	_, recipient := fresh(t)
	_, pq := quantum(t)
	for text, want := range map[string]bool{
		recipient: true, pq: true, Passphrase: false, "": false, "age1yubikey1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq": false,
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL4bQdKs0zGkOiLq8r6j4RwLqQXKcLPwmUnT+LyMQhSj": false,
	} {
		if got := IsNative(text); got != want {
			t.Errorf("%.40q: %v", text, got)
		}
	}
}

func TestInvalidIdentityFiles(t *testing.T) {
	k, recipient := fresh(t)
	secret := string(bytes.TrimSpace(k.Text.Reveal()[bytes.Index(k.Text.Reveal(), []byte("AGE-SECRET")):]))
	for name, c := range map[string]struct{ text, says string }{
		"nothing":          {"# a comment\n\n", "k: holds no key"},
		"words":            {"# a\nhello\n", "k: line 2 is not an age key"},
		"half a key":       {secret[:40], "k: line 1 is not a whole age key"},
		"half a pq key":    {"AGE-SECRET-KEY-PQ-1QQQQ", "k: line 1 is not a whole age key"},
		"half a plugin's":  {"AGE-PLUGIN-YUBIKEY-1QQ", "k: line 1 is not a whole age key"},
		"a recipient":      {recipient, "k: line 1 is a recipient, not the key that opens"},
		"an unknown PEM":   {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "k: "},
		"too much":         {strings.Repeat("#", MaxIdentity+1), "k: has more than 65536 bytes"},
		"too many of them": {strings.Repeat(secret+"\n", maxKeys+1), "k: has more than "},
	} {
		_, err := New(Config{Identities: []Identity{{Name: "k", Text: vault.NewSecret([]byte(c.text))}}})
		if err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), secret[20:30]) {
			t.Errorf("%s: the error repeats the secret: %v", name, err)
		}
	}
}

func TestOpenIsBounded(t *testing.T) {
	k, recipient := fresh(t)
	sealed := sealedFor(t, recipient)
	s := sealer(t, Config{Identities: []Identity{k}})
	if _, err := s.open(t.Context(), sealed, int64(len(vaulttest.Document)-1)); !errors.Is(err, vault.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := s.open(t.Context(), sealed, int64(len(vaulttest.Document))); err != nil {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	k, recipient := fresh(f)
	f.Add(sealedFor(f, recipient))
	f.Add([]byte("age-encryption.org/v1\n-> X25519 AAAA\nAAAA\n--- AAAA\n"))
	f.Add([]byte("age-encryption.org/v1\n-> scrypt AAAAAAAAAAAAAAAAAAAAAA 4\nAAAA\n--- AAAA\n"))
	s := sealer(f, Config{Identities: []Identity{k}, UI: says("x")})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if open, err := s.Open(t.Context(), sealed); err != nil && !open.IsZero() {
			t.Error("a document beside an error")
		}
	})
}

func FuzzIdentity(f *testing.F) {
	k, _ := fresh(f)
	pq, _ := quantum(f)
	f.Add(string(k.Text.Reveal()))
	f.Add(string(pq.Text.Reveal()))
	f.Add("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n")
	f.Add("AGE-PLUGIN-X-1QQQ")
	f.Fuzz(func(t *testing.T, text string) {
		id := Identity{Name: "k", Text: vault.NewSecret([]byte(text))}
		all, err := id.Recipients(t.Context(), UI{})
		if err != nil {
			return
		}
		for _, r := range all {
			if c, err := Canonical(r); err != nil || c != r {
				t.Errorf("%q becomes %q, %v", r, c, err)
			}
		}
	})
}
