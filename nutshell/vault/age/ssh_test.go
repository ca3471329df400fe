package age

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"guild/nutshell/vault"
	"guild/nutshell/vault/vaulttest"
)

// sshKey is a new private SSH key, as ssh-keygen writes it, and its public half.
func sshKey(t testing.TB, kind, passphrase string) (Identity, string) {
	t.Helper()
	var k crypto.Signer
	var err error
	if kind == "rsa" {
		k, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		_, k, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(k, "me@home")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(k, "me@home", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return Identity{Name: "id_" + kind, Text: vault.NewSecret(pem.EncodeToMemory(block))}, authorized(public)
}

func TestSSHKeys(t *testing.T) {
	for _, kind := range []string{"ed25519", "rsa"} {
		t.Run(kind, func(t *testing.T) {
			vaulttest.Test(t, func(t *testing.T) (owner, stranger vault.Sealer) {
				mine, recipient := sshKey(t, kind, "")
				other, _ := sshKey(t, kind, "")
				if all, err := mine.Recipients(t.Context(), UI{}); err != nil || len(all) != 1 || all[0] != recipient {
					t.Errorf("recipients %v, %v", all, err)
				}
				return sealer(t, Config{Recipients: []string{recipient + " me@home"}, Identities: []Identity{mine}}),
					sealer(t, Config{Recipients: []string{recipient}, Identities: []Identity{other}})
			}, vaulttest.Slow)
		})
	}
}

func TestLockedSSHKeyAsksLate(t *testing.T) {
	mine, recipient := sshKey(t, "ed25519", "opensesame")
	_, other := sshKey(t, "ed25519", "")
	asked := 0
	ui := UI{Ask: func(prompt string) ([]byte, error) {
		if asked++; prompt != "Passphrase of id_ed25519: " {
			t.Errorf("asks %q", prompt)
		}
		return []byte("opensesame"), nil
	}}
	s := sealer(t, Config{Identities: []Identity{mine}, UI: ui})
	if _, err := s.Open(t.Context(), sealedFor(t, other)); !errors.Is(err, vault.ErrNotFor) || asked != 0 {
		t.Errorf("asked %d times for another's vault: %v", asked, err)
	}
	for range 2 {
		if open, err := s.Open(t.Context(), sealedFor(t, recipient)); err != nil || string(open.Reveal()) != vaulttest.Document {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if all, err := mine.Recipients(t.Context(), UI{}); err != nil || len(all) != 1 || all[0] != recipient {
		t.Errorf("recipients %v, %v", all, err)
	}
	s = sealer(t, Config{Identities: []Identity{mine}, UI: says("wrong")})
	_, err := s.Open(t.Context(), sealedFor(t, recipient))
	if !errors.Is(err, vault.ErrNotFor) || !strings.Contains(err.Error(), "id_ed25519: its passphrase is wrong") {
		t.Error(err)
	}
}

func TestLockedKeyNeedsPublicHalf(t *testing.T) {
	text, err := os.ReadFile("testdata/locked_rsa.pem")
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile("testdata/locked_rsa.pub")
	if err != nil {
		t.Fatal(err)
	}
	id := Identity{Name: "old.pem", Text: vault.NewSecret(text)}
	if _, err := New(Config{Identities: []Identity{id}}); err == nil || !strings.Contains(err.Error(), ".pub") {
		t.Errorf("without it: %v", err)
	}
	id.Public = public
	s := sealer(t, Config{Recipients: []string{strings.TrimSpace(string(public))}, Identities: []Identity{id}, UI: says("opensesame")})
	sealed, err := s.Seal(t.Context(), vault.NewSecret([]byte(vaulttest.Document)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), sealed); err != nil {
		t.Error(err)
	}
}

func TestCanonicalSSHKey(t *testing.T) {
	_, recipient := sshKey(t, "ed25519", "")
	for _, text := range []string{recipient, recipient + " me@home", " " + recipient + " a b \n"} {
		if c, err := Canonical(text); err != nil || c != recipient {
			t.Errorf("%q became %q, %v", text, c, err)
		}
	}
	for _, text := range []string{"ssh-ed25519", "ssh-ed25519 AAAA", "ssh-dss AAAAB3NzaC1kc3M=", "ssh-ed25519 !"} {
		if _, err := Canonical(text); !errors.Is(err, ErrRecipient) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAgeCommandInteropSSH(t *testing.T) {
	for _, kind := range []string{"ed25519", "rsa"} {
		id, recipient := sshKey(t, kind, "")
		bothWays(t, id, recipient)
	}
}
