package sops_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"guild/nutshell/vault"
	"guild/nutshell/vault/sops"
	"guild/nutshell/vault/vaulttest"
)

// program is the sops that scripts/needs installs, or that of the person who runs the tests.
func program(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("sops"); err == nil {
		return path
	}
	path, err := filepath.Abs("../../../.cache/bin/sops")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("there is no sops, which these tests run; install it with 'scripts/needs test' (%v)", err)
	}
	return path
}

// key makes an age key, and a file of it.
func key(t testing.TB) (recipient, file string) {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "age.key")
	if err := os.WriteFile(file, fmt.Appendf(nil, "# a key\n%s\n", id), 0o600); err != nil {
		t.Fatal(err)
	}
	return id.Recipient().String(), file
}

// sealer makes a sealer that finds only sops on this machine.
func sealer(t testing.TB, o sops.Options) *sops.Sealer {
	t.Helper()
	o.Program = program(t)
	o.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, o.Env...)
	s, err := sops.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func seal(t testing.TB, s *sops.Sealer, document string) []byte {
	t.Helper()
	sealed, err := s.Seal(t.Context(), vault.NewSecret([]byte(document)))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestSealer(t *testing.T) {
	recipient, file := key(t)
	_, other := key(t)
	vaulttest.Test(t, func(t *testing.T) (owner, stranger vault.Sealer) {
		return sealer(t, sops.Options{Recipients: []string{recipient}, Identities: []string{file}}),
			sealer(t, sops.Options{Recipients: []string{recipient}, Identities: []string{other}})
	}, vaulttest.Slow)
}

func TestNumbersKeepSpelling(t *testing.T) {
	recipient, file := key(t)
	s := sealer(t, sops.Options{Recipients: []string{recipient}, Identities: []string{file}})
	const document = ` {"a":1.0,"b":5432,"c":1e3,"d":12345678901234567890,"e":null,"f":"\u00e9","sops":{}} `
	open, err := s.Open(t.Context(), seal(t, s, document))
	if err != nil || string(open.Reveal()) != document {
		t.Errorf("%q, %v", open.Reveal(), err)
	}
}

func TestNamesAreEncrypted(t *testing.T) {
	recipient, _ := key(t)
	sealed := seal(t, sealer(t, sops.Options{Recipients: []string{recipient}}), vaulttest.Document)
	for _, word := range []string{"staging-db", "credentials", "x-team", "0.2.0\""} {
		if bytes.Contains(sealed, []byte(word)) {
			t.Errorf("%s is in the sealed vault", word)
		}
	}
}

func TestEveryRecipientOpens(t *testing.T) {
	recipient, file := key(t)
	second, secondFile := key(t)
	public, sshFile := sshKey(t)
	sealed := seal(t, sealer(t, sops.Options{Recipients: []string{recipient, second, public}}), "{}")
	_, wrong := key(t)
	for name, files := range map[string][]string{
		"the first": {file}, "the second": {secondFile}, "SSH": {sshFile}, "the right one of three": {wrong, sshFile, file},
	} {
		open, err := sealer(t, sops.Options{Identities: files}).Open(t.Context(), sealed)
		if err != nil || string(open.Reveal()) != "{}" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func sshKey(t *testing.T) (public, file string) {
	t.Helper()
	pub, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "id_ed25519")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	authorized, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(authorized))), file
}

func TestSopsOpensOurs(t *testing.T) {
	recipient, file := key(t)
	sealed := seal(t, sealer(t, sops.Options{Recipients: []string{recipient}}), vaulttest.Document)
	cmd := exec.Command(program(t), "decrypt", "--input-type", "json", "--output-type", "binary", "/dev/stdin")
	cmd.Stdin, cmd.Env = bytes.NewReader(sealed), append(os.Environ(), "SOPS_AGE_KEY_FILE="+file)
	if out, err := cmd.Output(); err != nil || string(out) != vaulttest.Document {
		t.Errorf("%q, %v", out, err)
	}
}

func TestOpenSealedBySops(t *testing.T) {
	recipient, file := key(t)
	cmd := exec.Command(program(t), "encrypt", "--age", recipient, "--input-type", "json", "--output-type", "json", "--filename-override", "x.json")
	cmd.Stdin, cmd.Env = strings.NewReader(vaulttest.Document), []string{"HOME=" + t.TempDir()}
	sealed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	open, err := sealer(t, sops.Options{Identities: []string{file}}).Open(t.Context(), sealed)
	if err != nil || !strings.Contains(string(open.Reveal()), `"password": "`+vaulttest.Marker+`"`) {
		t.Errorf("%d bytes, %v", len(open.Reveal()), err)
	}
}

func TestChangeOfNativeFile(t *testing.T) {
	recipient, file := key(t)
	cmd := exec.Command(program(t), "encrypt", "--age", recipient, "--unencrypted-regex", "^name$", "--input-type", "json", "--output-type", "json", "--filename-override", "x.json")
	const document = `{"vault_version":"0.2.0","expires_at":"2999-01-01T00:00:00Z","credentials":[{"name":"db","type":"postgresql","value":{"port":5432,"password":"old"}},{"name":"api","type":"token","value":"kept"}]}`
	cmd.Stdin, cmd.Env = strings.NewReader(document), []string{"HOME=" + t.TempDir()}
	sealed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	s := sealer(t, sops.Options{Identities: []string{file}})
	want := strings.Replace(strings.Replace(document, `"old"`, `"new"`, 1), `"expires_at":"2999-01-01T00:00:00Z",`, "", 1)
	changed, err := s.Change(t.Context(), sealed, vault.NewSecret([]byte(want)))
	if err != nil {
		t.Fatal(err)
	}
	open, err := s.Open(t.Context(), changed)
	v, parsed := vault.Parse(open)
	if err != nil || parsed != nil || v.Expiry() != "" {
		t.Fatal(err, parsed)
	}
	c, _ := v.Credential("db")
	if password, _ := c.Field("password"); string(password.Reveal()) != "new" || !sops.IsNative(changed) {
		t.Errorf("%s in %s", c.Value.Reveal(), changed)
	}
	lines := map[string]bool{}
	for line := range bytes.Lines(sealed) {
		lines[string(line)] = true
	}
	differ := 0
	for line := range bytes.Lines(changed) {
		if !lines[string(line)] && !bytes.Contains(line, []byte("lastmodified")) && !bytes.Contains(line, []byte(`"mac"`)) {
			differ++
		}
	}
	if differ != 1 || !bytes.Contains(changed, []byte(`"name": "api"`)) {
		t.Errorf("%d lines differ:\n%s", differ, changed)
	}
	if _, err := s.Change(t.Context(), seal(t, sealer(t, sops.Options{Recipients: []string{recipient}}), "{}"), vault.NewSecret([]byte("{}"))); !errors.Is(err, vault.ErrNotSealed) {
		t.Error(err)
	}
}

func TestSopsConfiguration(t *testing.T) {
	recipient, file := key(t)
	config := filepath.Join(t.TempDir(), "sops.yaml")
	rules := "creation_rules:\n  - path_regex: vault\\.enc\\.json$\n    age: " + recipient + "\n    unencrypted_regex: data\n"
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"a file": {"SOPS_CONFIG=" + config}, "the environment": {"SOPS_AGE_RECIPIENTS=" + recipient},
	} {
		s := sealer(t, sops.Options{Env: append(env, "SOPS_AGE_KEY_FILE="+file)})
		sealed := seal(t, s, vaulttest.Document)
		if open, err := s.Open(t.Context(), sealed); err != nil || string(open.Reveal()) != vaulttest.Document {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyNamedRecipientsOpen(t *testing.T) {
	recipient, _ := key(t)
	mine, file := key(t)
	s := sealer(t, sops.Options{Recipients: []string{recipient}, Identities: []string{file}, Env: []string{"SOPS_AGE_RECIPIENTS=" + mine, "SOPS_PGP_FP=AAAA"}})
	t.Chdir(t.TempDir())
	if err := os.WriteFile(".sops.yaml", []byte("creation_rules:\n  - age: "+mine+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), seal(t, s, "{}")); !errors.Is(err, vault.ErrNotFor) {
		t.Error(err)
	}
}

func TestSealForNobody(t *testing.T) {
	s := sealer(t, sops.Options{})
	t.Chdir(t.TempDir())
	_, err := s.Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if e, ok := errors.AsType[*sops.Error](err); !ok || !strings.Contains(e.Hint(), "creation_rules") {
		t.Errorf("%v", err)
	}
}

func TestInvalidRecipients(t *testing.T) {
	recipient, _ := key(t)
	for _, r := range []string{"", "--config=x", "alice", recipient + ",age1x", recipient + "\n", "AGE-SECRET-KEY-1XYZ", "ssh-dss AAAA"} {
		if _, err := sops.New(sops.Options{Program: program(t), Recipients: []string{r}}); err == nil {
			t.Errorf("%q was taken", r)
		}
	}
}

func TestMissingSops(t *testing.T) {
	_, err := sops.New(sops.Options{Program: filepath.Join(t.TempDir(), "sops")})
	e, ok := errors.AsType[*sops.MissingError](err)
	if !ok || !errors.Is(err, os.ErrNotExist) || !strings.Contains(e.Hint(), "install sops") {
		t.Error(err)
	}
}

// TestForeignVaultIsRefused gives sops a file that names a Vault of the attacker's, where sops by
// itself would go with the person's token.
func TestForeignVaultIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	called := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			called <- struct{}{}
			conn.Close()
		}
	}()
	evil := "http://" + l.Addr().String()
	for name, metadata := range map[string]string{
		"a key":              `{"hc_vault":[%s]`,
		"a key in a group":   `{"shamir_threshold":1,"key_groups":[{"hc_vault":[%s]}]`,
		"in capitals":        `{"HC_Vault":[%s]`,
		"beside an age key":  `{"age":[],"hc_vault":[%s]`,
		"a group in a group": `{"key_groups":[{"key_groups":[{"hc_vault":[%s]}]}]`,
	} {
		stanza := `{"vault_address":"` + evil + `","engine_path":"transit","key_name":"k","created_at":"2026-01-01T00:00:00Z","enc":"vault:v1:AAAA"}`
		file := `{"data":"ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]","sops":` + fmt.Sprintf(metadata, stanza) +
			`,"lastmodified":"2026-01-01T00:00:00Z","mac":"ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]","version":"3.13.3"}}`
		_, err := sealer(t, sops.Options{Env: []string{"VAULT_TOKEN=mine", "VAULT_ADDR=https://vault.example"}}).Open(t.Context(), []byte(file))
		foreign, ok := errors.AsType[*sops.ForeignServerError](err)
		if !ok || foreign.Address != evil || !errors.Is(err, vault.ErrNotFor) || !strings.Contains(foreign.Hint(), "VAULT_ADDR") {
			t.Errorf("%s: %v", name, err)
		}
	}
	select {
	case <-called:
		t.Error("the attacker's server was called")
	default:
	}
}

func TestNamedVaultIsAsked(t *testing.T) {
	for name, env := range map[string]string{"its address": "VAULT_ADDR=http://127.0.0.1:1/", "a list": "SOPS_HC_VAULT_ALLOWLIST=https://a/,http://127.0.0.1:1/"} {
		file := `{"data":"ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]","sops":{"hc_vault":[{"vault_address":"http://127.0.0.1:1",` +
			`"engine_path":"transit","key_name":"k","created_at":"2026-01-01T00:00:00Z","enc":"vault:v1:AAAA"}],` +
			`"lastmodified":"2026-01-01T00:00:00Z","mac":"ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:str]","version":"3.13.3"}}`
		_, err := sealer(t, sops.Options{Env: []string{env, "VAULT_TOKEN=mine", "VAULT_MAX_RETRIES=0"}}).Open(t.Context(), []byte(file))
		if _, foreign := errors.AsType[*sops.ForeignServerError](err); foreign || !errors.Is(err, vault.ErrNotFor) || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// script makes a program in the place of sops.
func script(t *testing.T, text string) *sops.Sealer {
	t.Helper()
	s, err := sops.New(sops.Options{Program: scriptFile(t, text), Env: []string{"PATH=" + os.Getenv("PATH"), "SOPS_X=1", "GITHUB_TOKEN=x", "AWS_PROFILE=p"}, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func scriptFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sops")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOutputMustBeEncrypted(t *testing.T) {
	for name, text := range map[string]string{
		"it copies": "cat", "it is silent": "cat >/dev/null", "it leaves the data": `cat >/dev/null; echo '{"data":"{}","sops":{"mac":""}}'`,
	} {
		if _, err := script(t, text).Seal(t.Context(), vault.NewSecret([]byte(vaulttest.Document))); !errors.Is(err, vault.ErrNotSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHangingSopsIsStopped(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := script(t, "echo >"+started+"; exec sleep 1000")
	go func() {
		defer cancel()
		if _, err := os.ReadFile(started); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.Seal(ctx, vault.NewSecret([]byte("{}"))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s, err := sops.New(sops.Options{Program: scriptFile(t, "exec sleep 1000"), Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Seal(t.Context(), vault.NewSecret([]byte("{}"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestSopsOutputIsBounded(t *testing.T) {
	if _, err := script(t, "head -c 3000000 /dev/zero").Seal(t.Context(), vault.NewSecret([]byte("{}"))); !errors.Is(err, vault.ErrTooLarge) {
		t.Error(err)
	}
	_, err := script(t, "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1").Seal(t.Context(), vault.NewSecret([]byte("{}")))
	if e, ok := errors.AsType[*sops.Error](err); !ok || len(e.Text) > 2000 {
		t.Errorf("%d bytes", len(err.Error()))
	}
}

func TestSopsEnvironmentAndArguments(t *testing.T) {
	_, err := script(t, `cat >/dev/null; echo "$@" >&2; env | sort >&2; exit 1`).Seal(t.Context(), vault.NewSecret([]byte(vaulttest.Document)))
	e, ok := errors.AsType[*sops.Error](err)
	if !ok || strings.Contains(e.Text, "GITHUB") || strings.Contains(e.Text, vaulttest.Marker) || !strings.Contains(e.Text, "AWS_PROFILE=p") || !strings.Contains(e.Text, "SOPS_X=1") {
		t.Error(err)
	}
}

// A vault is sealed for an age key, and opened with it.
func Example() {
	s, err := sops.New(sops.Options{Recipients: []string{"age1…"}, Identities: []string{"age.key"}, Program: "/nowhere/sops"})
	fmt.Println(s, err)
	// Output: <nil> sops: "age1…" is not a recipient: want age1…, ssh-ed25519 … or ssh-rsa …
}
