package credential

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
	"guild/nutshell/vault/sops"
	"guild/nutshell/vault/transit"
	"guild/nutshell/vault/transit/transittest"
	"guild/nutshell/vault/vaulttest"
)

// person is a program whose configuration is empty.
func person(t *testing.T) (p program, config string) {
	config = t.TempDir()
	return program{&host.Program{Name: "nutshell", Out: io.Discard, Err: io.Discard, ConfigDir: func() (string, error) { return config, nil }}}, config
}

// withSops puts the sops that scripts/needs installs on PATH.
func withSops(t *testing.T) {
	t.Helper()
	dir, err := filepath.Abs("../../../.cache/bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+dir)
}

func TestEachFormHasItsSealer(t *testing.T) {
	withSops(t)
	p, _ := person(t)
	for form, want := range map[string]string{"": vault.Age, vault.Age: vault.Age, vault.Sops: vault.Sops, vault.Transit: vault.Transit, vault.Plaintext: vault.Plaintext} {
		s, err := p.sealer(sealerOptions{Form: form, Insecure: true})
		if err != nil {
			t.Fatalf("%q: %v; 'scripts/needs test' installs sops", form, err)
		}
		if s.Form() != want {
			t.Errorf("%q: %s", form, s.Form())
		}
	}
}

func TestASealerThatCannotBeSaysWhy(t *testing.T) {
	p, _ := person(t)
	t.Setenv("PATH", t.TempDir())
	t.Setenv("VAULT_ADDR", "")
	for name, c := range map[string]struct {
		o    sealerOptions
		code int
		hint string
	}{
		"an unknown form":             {sealerOptions{Form: "rot13"}, cli.ExitUsage, "there are age, sops, vault"},
		"no sops":                     {sealerOptions{Form: vault.Sops}, cli.ExitFailed, "install sops"},
		"no recipient for sops":       {sealerOptions{Form: vault.Sops, Recipients: []string{"alice"}}, cli.ExitUsage, ""},
		"no recipient for age":        {sealerOptions{Recipients: []string{"alice"}}, cli.ExitUsage, ""},
		"recipients for a server":     {sealerOptions{Form: vault.Transit, Recipients: []string{"age1x"}}, cli.ExitUsage, "policies"},
		"nothing said about in clear": {sealerOptions{Form: vault.Plaintext}, cli.ExitUsage, "--insecure-plaintext"},
	} {
		s, err := p.sealer(c.o)
		if s != nil || cli.CodeOf(err) != c.code || !strings.Contains(cli.HintOf(err), c.hint) {
			t.Errorf("%s: %v, exit %d, hint %q", name, err, cli.CodeOf(err), cli.HintOf(err))
		}
	}
	t.Setenv("VAULT_ADDR", "http://vault.example")
	_, err := p.sealer(sealerOptions{Form: vault.Transit})
	if _, insecure := errors.AsType[*transit.InsecureError](err); !insecure {
		t.Error(err)
	}
}

func TestThePersonsOwnKeyOpensWhatSopsSealed(t *testing.T) {
	withSops(t)
	t.Setenv("HOME", t.TempDir())
	p, config := person(t)
	text, recipient, err := age.Generate(time.Unix(1773482400, 0))
	if err == nil {
		err = os.WriteFile(filepath.Join(config, ageKeyFile), text.Reveal(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOPS_AGE_KEY_FILE", filepath.Join(config, "another"))
	other, _, err := age.Generate(time.Unix(1773482400, 0))
	if err == nil {
		err = os.WriteFile(filepath.Join(config, "another"), other.Reveal(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.sealer(sealerOptions{Form: vault.Sops, Recipients: []string{recipient}})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := s.Seal(t.Context(), vault.NewSecret([]byte(vaulttest.Document)))
	if err != nil {
		t.Fatal(err)
	}
	if open, err := s.Open(t.Context(), sealed); err != nil || string(open.Reveal()) != vaulttest.Document {
		t.Error(err)
	}
	named, err := p.sealer(sealerOptions{Form: vault.Sops, Identities: []string{filepath.Join(config, "another")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := named.Open(t.Context(), sealed); !errors.Is(err, vault.ErrNotFor) {
		t.Error("a key that was not named opened it:", err)
	}
	if _, missing := errors.AsType[*sops.MissingError](err); missing {
		t.Error(err)
	}
}

func TestTheEnvironmentSaysWhichServerSeals(t *testing.T) {
	t.Setenv("VAULT_ADDR", transittest.New(t))
	t.Setenv("VAULT_TOKEN", transittest.Root)
	p, _ := person(t)
	s, err := p.sealer(sealerOptions{Form: vault.Transit, Key: "app"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if !strings.Contains(cli.HintOf(err), "vault secrets enable -path=transit transit") {
		t.Errorf("%v, hint %q", err, cli.HintOf(err))
	}
}
