// Package sops seals vaults with the sops program: with age keys that are named here, or with the KMS, PGP and other keys
// in sops's own configuration and environment.
//
// A document is sealed as sops's binary type, as one encrypted string. As JSON its numbers would change (sops writes 1.0
// as 1, and rounds what has more than 53 bits), its member names would stay readable, and its nulls would be neither
// encrypted nor authenticated. A vault that was sealed as JSON, by hand, opens too, and Change keeps its form. To open by hand what is sealed here:
//
//	sops decrypt --output-type binary vault.enc.json
//
// An unencrypted document passes only through pipes. sops would send the person's token to any HashiCorp Vault that a
// file names, so a file may name only those that the person's environment names.
package sops

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"guild/nutshell/vault"
)

// name is the file name that sops is given. The creation rules of a .sops.yaml match it.
const name = vault.File

// Options say how to seal and open. With the zero Options, sops's configuration says who may open, and its environment
// has the keys.
type Options struct {
	Recipients []string // age1…, or ssh-ed25519 and ssh-rsa keys: these alone may open; sops's own if there are none
	Identities []string // files with age identities or an SSH key, tried in turn; what sops finds by itself comes after

	Program string        // "sops" if empty
	Env     []string      // what sops may see of it is in environment.go; that of this process if nil
	Timeout time.Duration // of one run, which may ask a KMS or a person; 2 minutes if zero
}

// Sealer implements vault.Sealer.
type Sealer struct {
	o       Options
	program string
}

// New returns a sealer. The error is a *MissingError if sops is not installed.
func New(o Options) (*Sealer, error) {
	for _, r := range o.Recipients {
		if err := checkRecipient(r); err != nil {
			return nil, err
		}
	}
	program, err := exec.LookPath(cmp.Or(o.Program, "sops"))
	if err != nil {
		return nil, &MissingError{err}
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	return &Sealer{o, program}, nil
}

// checkRecipient refuses what sops would read as more than one recipient, or as a flag.
func checkRecipient(r string) error {
	known := strings.HasPrefix(r, "age1") || strings.HasPrefix(r, "ssh-ed25519 ") || strings.HasPrefix(r, "ssh-rsa ")
	if !known || strings.ContainsFunc(r, func(c rune) bool { return c == ',' || c < ' ' || c > '~' }) {
		return fmt.Errorf("sops: %.80q is not a recipient: want age1…, ssh-ed25519 … or ssh-rsa …", r)
	}
	return nil
}

// Form implements vault.Sealer.
func (*Sealer) Form() string { return vault.Sops }

// Seal implements vault.Sealer.
func (s *Sealer) Seal(ctx context.Context, document vault.Secret) ([]byte, error) {
	if len(document.Reveal()) > vault.MaxSealed {
		return nil, vault.ErrTooLarge
	}
	args := []string{"encrypt", "--input-type", "binary", "--output-type", "json", "--filename-override", name}
	env := environment(s.o.Env)
	if len(s.o.Recipients) > 0 {
		args = append([]string{"--config", os.DevNull}, append(args, "--age", strings.Join(s.o.Recipients, ","))...)
		env = without(env, otherKeys...)
	}
	sealed, err := s.run(ctx, env, document.Reveal(), args...)
	if err != nil {
		return nil, sealing(err)
	}
	if f, err := parse(sealed.Reveal()); err != nil || !f.binary || !strings.HasPrefix(f.data, "ENC[") {
		return nil, fmt.Errorf("sops: what it made of the vault is not encrypted: %w", vault.ErrNotSealed)
	}
	return sealed.Reveal(), nil
}

// Open implements vault.Sealer.
func (s *Sealer) Open(ctx context.Context, sealed []byte) (vault.Secret, error) {
	document, _, err := s.opened(ctx, sealed)
	return document, err
}

// opened opens a file and returns the environment that sops opens it with.
func (s *Sealer) opened(ctx context.Context, sealed []byte) (document vault.Secret, env []string, err error) {
	if len(sealed) > vault.MaxSealed {
		return vault.Secret{}, nil, vault.ErrTooLarge
	}
	f, err := parse(sealed)
	if err != nil {
		return vault.Secret{}, nil, err
	}
	env = environment(s.o.Env)
	allowed := allowed(env)
	if err := f.check(allowed); err != nil {
		return vault.Secret{}, nil, err
	}
	env = append(without(env, "SOPS_HC_VAULT_ALLOWLIST"), "SOPS_HC_VAULT_ALLOWLIST="+cmp.Or(strings.Join(allowed, ","), "none"))
	return s.openWith(ctx, f, sealed, env)
}

// openWith tries one identity file after the other, until one opens.
func (s *Sealer) openWith(ctx context.Context, f file, sealed []byte, env []string) (vault.Secret, []string, error) {
	output := "json"
	if f.binary {
		output = "binary"
	}
	args := []string{"--config", os.DevNull, "decrypt", "--input-type", "json", "--output-type", output, "--filename-override", name}
	if len(s.o.Identities) == 0 {
		document, err := s.run(ctx, env, sealed, args...)
		return document, env, opening(err)
	}
	var first error
	for _, path := range s.o.Identities {
		with, err := identity(env, path)
		if err != nil {
			return vault.Secret{}, nil, err
		}
		document, err := s.run(ctx, with, sealed, args...)
		if err == nil {
			return document, with, nil
		}
		if code(err) != couldNotRetrieveKey {
			return vault.Secret{}, nil, opening(err)
		}
		first = cmp.Or(first, err)
	}
	return vault.Secret{}, nil, opening(first)
}
