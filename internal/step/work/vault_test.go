package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/step/steptest"
	"guild/nip89"
	"guild/nip90"
	"guild/nutshell"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
)

// keyring is an age key.
type keyring struct {
	recipient string
	*age.Sealer
}

func newKeyring(t *testing.T) keyring {
	t.Helper()
	text, recipient, err := age.Generate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s, err := age.New(age.Config{Recipients: []string{recipient}, Identities: []age.Identity{{Name: "key", Text: text}}})
	if err != nil {
		t.Fatal(err)
	}
	return keyring{recipient, s}
}

const password = "rotated-token-abc123"

// credentials returns a document with one credential that expires then, or never if that is zero.
func credentials(expires time.Time) vault.Secret {
	at := ""
	if !expires.IsZero() {
		at = `,"expires_at":"` + expires.UTC().Format(time.RFC3339) + `"`
	}
	return vault.NewSecret(fmt.Appendf(nil, `{"vault_version":"0.2.0","credentials":[{"name":"staging-db","type":"postgresql",
		"value":{"host":"staging-db.internal","port":5432,"username":"agent_writer","password":%q}%s}]}`, password, at))
}

// asksWith sends a request that carries a vault.
func (w *world) asksWith(v nip90.Vault) nostr.ID {
	w.Helper()
	r := task(w.T, bundle(w.T, nil))
	if err := r.SetVault(v); err != nil {
		w.Fatal(err)
	}
	id, err := w.sendsSealed(customer, r)
	if err != nil {
		w.Fatal(err)
	}
	w.pass(time.Second)
	return id
}

// seals encrypts credentials for the key.
func (w *world) seals(k keyring, document vault.Secret) nip90.Vault {
	w.Helper()
	sealed, err := k.Seal(w.Context(), document)
	if err != nil {
		w.Fatal(err)
	}
	return nip90.Vault{Sealed: sealed}
}

// keepsNothing searches the journal, the blobs and the directories for the password and for files with credentials.
func (w *world) keepsNothing() {
	w.Helper()
	for _, e := range w.Entries() {
		raw, err := json.Marshal(e)
		if err != nil {
			w.Fatal(err)
		}
		if bytes.Contains(raw, []byte(password)) {
			w.Errorf("it is in entry %d", e.Seq)
		}
	}
	if left, err := os.ReadDir(w.secrets); err != nil || len(left) != 0 {
		w.Errorf("left of the credentials: %v, %v", left, err)
	}
}

func TestCredentialsDuringWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found string
		w := newWorld(t, python(func(_ context.Context, a Assignment) error {
			found = a.Vault
			content, err := os.ReadFile(a.Vault)
			if err != nil {
				return err
			}
			file, err := os.Stat(a.Vault)
			if err != nil {
				return err
			}
			dir, err := os.Stat(filepath.Dir(a.Vault))
			if err != nil {
				return err
			}
			if file.Mode() != 0o600 || dir.Mode().Perm() != 0o700 {
				t.Errorf("%s in %s", file.Mode(), dir.Mode())
			}
			if near := filepath.Dir(a.Bundle); strings.HasPrefix(a.Vault, near) || strings.HasPrefix(a.Vault, a.Delivery) {
				t.Errorf("%s is beside the bundle", a.Vault)
			}
			if !bytes.Equal(content, credentials(time.Time{}).Reveal()) {
				t.Error("it is something else")
			}
			own := `{"status":"completed","execution_log":{"credentials_used":["my-own"],"strategy_used":"one-shot"}}`
			return os.WriteFile(filepath.Join(a.Delivery, "result.json"), []byte(own), 0o644)
		}))
		for name, v := range map[string]nip90.Vault{
			"sealed":               w.seals(w.keys, credentials(time.Time{})),
			"in encrypted request": {Document: credentials(time.Time{})},
		} {
			id := w.asksWith(v)
			opened := time.Now().Add(-time.Second).UTC().Format(time.RFC3339)
			raw, err := w.opened(customer, id).ReadFile(nutshell.ResultFile)
			if err != nil {
				t.Fatal(err)
			}
			result, err := nutshell.ParseResult(raw)
			if err != nil {
				t.Fatal(err)
			}
			used, _ := json.Marshal(result.ExecutionLog.CredentialsUsed)
			if want := `["my-own",{"name":"staging-db","opened_at":"` + opened + `"}]`; string(used) != want || result.ExecutionLog.StrategyUsed != "one-shot" {
				t.Errorf("%s: used %s, want %s", name, used, want)
			}
			if _, err := os.Stat(found); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: it is still there: %v", name, err)
			}
		}
		w.keepsNothing()
	})
}

func TestNoCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(func(ctx context.Context, a Assignment) error {
			if a.Vault != "" || a.Hide("as it is") != "as it is" {
				t.Errorf("it has %s", a.Vault)
			}
			return echo(ctx, a)
		}))
		raw, err := w.opened(customer, w.asks(customer, task(t, bundle(t, nil)))).ReadFile(nutshell.ResultFile)
		if err != nil || bytes.Contains(raw, []byte("credentials_used")) {
			t.Errorf("%s, %v", raw, err)
		}
	})
}

// A model's service is named no credentials as used, and gets none.
func TestWorkerWithoutCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python(func(ctx context.Context, a Assignment) error {
			if a.Vault != "" {
				t.Errorf("it has %s", a.Vault)
			}
			return echo(ctx, a)
		})
		s.NoCredentials = true
		w := newWorld(t, s)
		raw, err := w.opened(customer, w.asksWith(w.seals(w.keys, credentials(time.Time{})))).ReadFile(nutshell.ResultFile)
		if err != nil || bytes.Contains(raw, []byte("credentials_used")) {
			t.Errorf("%s, %v", raw, err)
		}
		w.keepsNothing()
	})
}

func TestUnusableCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worker := &runs{}
		w := newWorld(t, python(worker.do))
		past := credentials(time.Now().Add(-time.Second))
		for text, v := range map[string]nip90.Vault{
			"staging-db: the credentials have expired":                     w.seals(w.keys, past),
			"the credentials: the vault is not sealed for any key at hand": w.seals(newKeyring(t), credentials(time.Time{})),
			"the credentials: the vault was changed after it was sealed":   {Sealed: []byte("age-encryption.org/v1\nbut no more")},
		} {
			w.wantError(w.asksWith(v), text)
		}
		id := w.asksWith(nip90.Vault{Document: vault.NewSecret([]byte(`{"vault_version":"0.2.0","credentials":["` + password + `"]}`))})
		if told := w.told(customer, id); len(told) == 0 || !strings.HasPrefix(told[len(told)-1].Text, "the credentials: ") || strings.Contains(told[len(told)-1].Text, password) {
			t.Errorf("told %v", told)
		}
		if n := len(worker.list()); n != 0 {
			t.Errorf("%d workers ran", n)
		}
		expired := w.seals(w.keys, past)
		expired.AllowExpired = true
		w.asksWith(expired)
		if n := len(worker.list()); n != 1 {
			t.Errorf("%d workers ran with what is allowed", n)
		}
		w.keepsNothing()
	})
}

func TestVaultInClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		e, err := task(t, bundle(t, nil)).Event()
		if err != nil {
			t.Fatal(err)
		}
		e.Tags = append(e.Tags, nostr.Tag{"param", "vault", "nip44", "e30="})
		_, err = w.says(customer, e)
		steptest.WantDrop(t, err, guild.Malformed)
		if w.Journal.Last() != 0 {
			t.Error("it is a fact")
		}
	})
}

func TestDeliveryWithCredential(t *testing.T) {
	long := strings.Repeat("-", 64<<10)
	for name, c := range map[string]struct {
		file, content string
		refused       bool
	}{
		"in a file":                      {"notes.txt", "I used " + password + ".", true},
		"far into a large file":          {"large.txt", long[:len(long)-7] + password + long, true},
		"at its end":                     {"large.txt", long + long + password, true},
		"in the worker's own result":     {"result.json", `{"status":"completed","summary":"` + password + `"}`, true},
		"in a name":                      {password + ".txt", "", true},
		"what says where, not with what": {"config.json", `{"host":"staging-db.internal","user":"agent_writer"}`, false},
		"a part of it":                   {"notes.txt", password[:len(password)-1], false},
		"between other bytes":            {"a/b/c.bin", "\x00" + password + "\xff", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, python(func(_ context.Context, a Assignment) error {
					to := filepath.Join(a.Delivery, c.file)
					return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(c.content), 0o644))
				}))
				id := w.asksWith(w.seals(w.keys, credentials(time.Time{})))
				if !c.refused {
					w.opened(customer, id)
					return
				}
				file := strings.ReplaceAll(c.file, password, "[secret]")
				w.wantError(id, `the worker left a secret of the credential "staging-db" in `+file+`, so that nothing is delivered`)
				w.keepsNothing()
			})
		})
	}
}

func TestLinesHideCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(func(_ context.Context, a Assignment) error {
			a.Say("signing in with " + password)
			time.Sleep(time.Minute)
			return errors.New("cannot sign in with " + password)
		}))
		id := w.asksWith(w.seals(w.keys, credentials(time.Time{})))
		w.pass(2 * time.Minute)
		w.wantError(id, "cannot sign in with [secret]")
		said := false
		for _, f := range w.told(customer, id) {
			said = said || f.Content == "signing in with [secret]"
			if strings.Contains(f.Content, password) {
				t.Errorf("told %s", f.Content)
			}
		}
		if !said {
			t.Error("nothing was said")
		}
		w.keepsNothing()
	})
}

func TestCommandCredentials(t *testing.T) {
	a, said := assignment(t)
	a.Vault = filepath.Join(t.TempDir(), vaultFile)
	if err := os.WriteFile(a.Vault, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Hide = func(text string) string { return strings.ReplaceAll(text, password, "[secret]") }
	x := Exec{Runner: Bare{}, Command: `cat "$GUILD_VAULT" | wc -c; cat "$GUILD_VAULT" >&2; exit 1`}
	failure, ok := errors.AsType[*FailedError](x.Do(t.Context(), a))
	if !ok || failure.Stderr != "[secret]" {
		t.Errorf("for the log: %+v", failure)
	}
	if got := said(); len(got) != 1 || got[0] != fmt.Sprint(len(password)) {
		t.Errorf("said %q", got)
	}
}

func TestSecretsOfCredential(t *testing.T) {
	for value, want := range map[string]string{
		`"a-token-alone"`: "a-token-alone",
		`"short"`:         "",
		`{"user":"agent_writer","password":"123456"}`:                                               "",
		`{"Host":"db.example.com","keys":["first-key-1",{"port":"55555555","pem":"second-key-2"}]}`: "first-key-1 second-key-2",
		`{"host":{"password":"inside-the-host"},"url":"postgres://u:p@db/x"}`:                       "inside-the-host postgres://u:p@db/x",
	} {
		got := map[string]bool{}
		for _, s := range secretsOf(vault.Credential{Name: "x", Value: vault.NewSecret([]byte(value))}) {
			got[string(s.Text.Reveal())] = true
		}
		if len(got) != len(strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", value, got, want)
		}
		for _, s := range strings.Fields(want) {
			if !got[s] {
				t.Errorf("%s: %v, want %s", value, got, want)
			}
		}
	}
}

func TestSecretSearchMemory(t *testing.T) {
	o := newWatch([]Secret{{What: "x", Text: vault.NewSecret([]byte(password))}})
	for _, at := range []int{0, 1, 64<<10 - 10, 64 << 10, 128<<10 - 19, 300 << 10} {
		content := bytes.Repeat([]byte("x"), 400<<10)
		copy(content[at:], password)
		if err := o.leak(fstest.MapFS{"a": {Data: content}}); err == nil {
			t.Errorf("not found at %d", at)
		}
	}
	if err := o.leak(fstest.MapFS{"a": {Data: bytes.Repeat([]byte("x"), 400<<10)}, "b": {}}); err != nil {
		t.Error(err)
	}
}

func TestAnnouncedRecipient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		h, err := nip89.Parse(w.handler(t.Context(), w.services[0].withDefaults(), nip89.Stability{}).Event())
		if err != nil || h.AgeRecipient != w.keys.recipient || !h.Accepts("nip44") {
			t.Errorf("%+v, %v", h, err)
		}
	})
}
