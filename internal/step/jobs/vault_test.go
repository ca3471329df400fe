package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
)

// keyring holds an age key.
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

func (w *world) unseal(ctx context.Context, sealed []byte) (vault.Secret, error) {
	if w.own.Sealer == nil {
		return vault.Secret{}, vault.ErrNotFor
	}
	return w.own.Open(ctx, sealed)
}

func sealFor(ctx context.Context, recipient string, document vault.Secret) ([]byte, error) {
	s, err := age.New(age.Config{Recipients: []string{recipient}})
	if err != nil {
		return nil, err
	}
	return s.Seal(ctx, document)
}

const password = "rotated-token-abc123"

var document = vault.NewSecret([]byte(`{"vault_version":"0.2.0","credentials":[{"name":"staging-db","value":"` + password + `"}]}`))

// releases stores the document sealed for each of the keys, as a person releases it.
func (w *world) releases(keys ...keyring) *fact.Release {
	w.Helper()
	r := &fact.Release{Names: []string{"staging-db"}}
	for _, k := range keys {
		sealed, err := k.Seal(w.Context(), document)
		if err != nil {
			w.Fatal(err)
		}
		h, err := w.blobs.PutBytes(w.Context(), sealed)
		if err != nil {
			w.Fatal(err)
		}
		if k.recipient == w.own.recipient {
			k.recipient = ""
		}
		r.Vaults = append(r.Vaults, fact.Sealed{For: k.recipient, Vault: h})
	}
	return r
}

// reads returns the offer of p with encrypted requests, and with a key for credentials.
func (p person) reads(price guild.Msat, recipient string) guild.Offer {
	o := p.offers(price)
	o.Encrypts, o.Recipient = true, recipient
	return o
}

// vault returns the vault of the latest published request, as p reads it.
func (w *world) vault(p person) *nip90.Vault {
	w.Helper()
	sent := w.sent(5000)
	r, err := nip90.ParseRequest(sent[len(sent)-1].Event, opener(p))
	if err != nil {
		w.Fatal(err)
	}
	v, err := r.Vault()
	if err != nil || v == nil {
		w.Fatalf("the vault is %v, %v", v, err)
	}
	return v
}

// wantSealed checks that a vault is sealed for exactly one of two keys, and holds the document.
func (w *world) wantSealed(v *nip90.Vault, yes, no keyring) {
	w.Helper()
	got, err := yes.Open(w.Context(), v.Sealed)
	if err != nil || !bytes.Equal(got.Reveal(), document.Reveal()) {
		w.Errorf("whom it is for cannot open it: %v", err)
	}
	if _, err := no.Open(w.Context(), v.Sealed); !errors.Is(err, vault.ErrNotFor) {
		w.Errorf("somebody else can open it: %v", err)
	}
}

func TestCredentialsAreSealedForProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeyring(t), newKeyring(t)
		w := newWorld(t, alice.reads(1, a.recipient), bob.reads(2, b.recipient), carol.reads(3, ""))
		w.own = newKeyring(t)
		id := w.opens(Order{Release: w.releases(w.own)})
		first := w.vault(alice)
		w.wantSealed(first, a, b)
		if err := w.says(alice, feedback(w.attempt(id).ID, nip90.Error, "no")); err != nil {
			t.Fatal(err)
		}
		w.wants(id, guild.Refused, guild.Requested)
		w.wantSealed(w.vault(bob), b, a)
		if err := w.says(bob, feedback(w.attempt(id).ID, nip90.Error, "no")); err != nil {
			t.Fatal(err)
		}
		if v := w.vault(carol); !bytes.Equal(v.Document.Reveal(), document.Reveal()) || v.Sealed != nil {
			t.Errorf("who announces no key gets %v", v)
		}
		w.wantsNoPassword()
	})
}

// wantsNoPassword looks for the password in everything that was stored or sent.
func (w *world) wantsNoPassword() {
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
	for _, p := range w.published {
		if text := p.Event.String(); strings.Contains(text, password) || strings.Contains(text, "vault") {
			w.Errorf("it was published in kind %d", p.Kind)
		}
	}
}

func TestSealedVaultIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeyring(t), newKeyring(t)
		w := newWorld(t, alice.reads(1, a.recipient), bob.reads(2, b.recipient))
		release := w.releases(b)
		id := w.opens(Order{Release: release})
		if got := w.attempt(id).Provider; got != bob.service() {
			t.Fatalf("asked %v", got)
		}
		kept, err := w.blobs.ReadAll(release.Vaults[0].Vault, nip90.MaxVault)
		if err != nil || !bytes.Equal(w.vault(bob).Sealed, kept) {
			t.Errorf("sealed anew, %v", err)
		}
	})
}

func TestRetryKeepsTheVault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newKeyring(t)
		w := newWorld(t, alice.reads(1, a.recipient))
		w.own = newKeyring(t)
		w.relays(deaf)
		w.opens(Order{Release: w.releases(w.own)})
		w.restart()
		w.relays(nil)
		w.pass(time.Minute)
		var ids []string
		for _, p := range w.sent(5000) {
			ids = append(ids, p.ID.Hex())
		}
		if slices.Sort(ids); len(ids) < 2 || len(slices.Compact(ids)) != 1 {
			t.Errorf("requests %v", ids)
		}
		w.wantSealed(w.vault(alice), a, newKeyring(t))
	})
}

func TestExpiredCredentialsAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeyring(t), newKeyring(t)
		w := newWorld(t, alice.reads(1, a.recipient), bob.reads(2, b.recipient))
		w.own = newKeyring(t)
		release := w.releases(w.own)
		release.Expires = time.Now().Add(time.Minute).UnixMilli()
		id := w.opens(Order{Release: release, Timeout: time.Hour})
		w.pass(time.Minute)
		if err := w.says(alice, feedback(w.attempt(id).ID, nip90.Error, "they have expired")); err != nil {
			t.Fatal(err)
		}
		if job := w.ends(id, guild.JobUnclaimed); !strings.Contains(job.Reason, "the credentials have expired") || len(job.Attempts) != 1 {
			t.Errorf("after %d attempts: %s", len(job.Attempts), job.Reason)
		}

		allowed := *release
		allowed.Anyway = true
		w.wants(w.opens(Order{Release: &allowed}), guild.Requested)
		if !w.vault(alice).AllowExpired {
			t.Error("the provider is not told that this is on purpose")
		}
	})
}

func TestLostCredentialsParkTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.reads(1, ""))
		w.own = newKeyring(t)
		release := w.releases(w.own)
		w.own = newKeyring(t) // the key file was replaced
		job := w.ends(w.opens(Order{Release: release}), guild.JobParked)
		if !strings.Contains(job.Reason, vault.ErrNotFor.Error()) || len(w.sent(5000)) != 0 {
			t.Errorf("%d requests: %s", len(w.sent(5000)), job.Reason)
		}
	})
}

func TestVaultDisplacesBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.reads(1, newKeyring(t).recipient))
		w.own = newKeyring(t)
		bundle := bytes.Repeat([]byte("x"), nip90.MaxInline)
		w.opens(Order{Bundle: bundle, Release: w.releases(w.own)})
		r, err := nip90.ParseRequest(w.sent(5000)[0].Event, opener(alice))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := r.Bundle(); err != nil || p.URL == "" || p.Hash != guild.Sum(bundle) {
			t.Errorf("%v, %v", p, err)
		}
	})
}
