package credential

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
	"guild/nutshell/vault/sops"
	"guild/nutshell/vault/transit"
	"guild/nutshell/vault/transit/transittest"
	"guild/nutshell/vault/vaulttest"
)

// person returns a program with an empty configuration directory.
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

func TestSealerOfEachForm(t *testing.T) {
	withSops(t)
	p, _ := person(t)
	for form, want := range map[string]string{"": vault.Age, vault.Age: vault.Age, vault.Sops: vault.Sops, vault.Transit: vault.Transit, vault.Plaintext: vault.Plaintext} {
		s, err := p.sealer(form, nil, vaultFlags{insecure: true})
		if err != nil {
			t.Fatalf("%q: %v; 'scripts/needs test' installs sops", form, err)
		}
		if s.Form() != want {
			t.Errorf("%q: %s", form, s.Form())
		}
	}
}

func TestSealerErrors(t *testing.T) {
	p, _ := person(t)
	t.Setenv("PATH", t.TempDir())
	t.Setenv("VAULT_ADDR", "")
	for name, c := range map[string]struct {
		form, recipient string
		code            int
		hint            string
	}{
		"unknown form":          {form: "rot13", code: cli.ExitUsage, hint: "there are age, sops, vault"},
		"no sops":               {form: vault.Sops, code: cli.ExitFailed, hint: "install sops"},
		"sops recipient":        {form: vault.Sops, recipient: "alice", code: cli.ExitUsage},
		"age recipient":         {recipient: "alice", code: cli.ExitUsage},
		"recipients for server": {form: vault.Transit, recipient: "age1x", code: cli.ExitUsage, hint: "policies"},
		"plaintext not allowed": {form: vault.Plaintext, code: cli.ExitUsage, hint: "--insecure-plaintext"},
	} {
		var recipients []string
		if c.recipient != "" {
			recipients = []string{c.recipient}
		}
		s, err := p.sealer(c.form, recipients, vaultFlags{})
		if s != nil || cli.CodeOf(err) != c.code || !strings.Contains(cli.HintOf(err), c.hint) {
			t.Errorf("%s: %v, exit %d, hint %q", name, err, cli.CodeOf(err), cli.HintOf(err))
		}
	}
	t.Setenv("VAULT_ADDR", "http://vault.example")
	_, err := p.sealer(vault.Transit, nil, vaultFlags{})
	if _, insecure := errors.AsType[*transit.InsecureError](err); !insecure {
		t.Error(err)
	}
}

func TestSopsUsesOwnAgeKey(t *testing.T) {
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
	s, err := p.sealer(vault.Sops, []string{recipient}, vaultFlags{})
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
	named, err := p.sealer(vault.Sops, nil, vaultFlags{identities: []string{filepath.Join(config, "another")}})
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

func TestTransitServerFromEnvironment(t *testing.T) {
	t.Setenv("VAULT_ADDR", transittest.New(t))
	t.Setenv("VAULT_TOKEN", transittest.Root)
	p, _ := person(t)
	s, err := p.sealer(vault.Transit, nil, vaultFlags{key: "app"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if !strings.Contains(cli.HintOf(err), "vault secrets enable -path=transit transit") {
		t.Errorf("%v, hint %q", err, cli.HintOf(err))
	}
}

func TestNativeSopsFileKeepsItsForm(t *testing.T) {
	withSops(t)
	t.Setenv("HOME", t.TempDir())
	p, config := person(t)
	p.Now = func() time.Time { return march }
	text, recipient, err := age.Generate(march)
	if err == nil {
		err = os.WriteFile(filepath.Join(config, ageKeyFile), text.Reveal(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	manifest := `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"x"},"credentials":{"vault":"v.json","encryption":"sops"}}`
	if err := os.WriteFile(filepath.Join(dir, nutshell.ManifestFile), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sops", "encrypt", "--age", recipient, "--input-type", "json", "--output-type", "json", "--filename-override", "x.json", "/dev/stdin")
	cmd.Stdin = strings.NewReader(`{"vault_version":"0.2.0","credentials":[{"name":"db","type":"secret","value":"old","expires_at":"2999-01-01T00:00:00Z"}]}`)
	sealed, err := cmd.Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "v.json"), sealed, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.In = strings.NewReader("new")
	if _, err := p.rotate(t.Context(), rotateFlags{vaultFlags: vaultFlags{dir: dir}}, "db"); err != nil {
		t.Fatal(err)
	}
	changed, err := os.ReadFile(filepath.Join(dir, "v.json"))
	if err != nil || !sops.IsNative(changed) || valueIn(t, p, dir, "db") != "new" {
		t.Errorf("%s, %v", changed, err)
	}
}
