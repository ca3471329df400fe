package credential

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"guild/internal/cli"
	"guild/nutshell/vault"
	"guild/nutshell/vault/sops"
	"guild/nutshell/vault/transit"
)

// sealerOptions say how a vault is closed and opened, as flags and a manifest do.
type sealerOptions struct {
	Form       string   // one of the forms of vault; vault.Age if empty
	Recipients []string // who may open what is sealed: age1…, ssh-ed25519 …; of sops's own configuration if it has none
	Identities []string // files of age or SSH keys that open; age.key in the configuration directory if none
	Passphrase bool     // age: asked for, in place of recipients
	Mount, Key string   // vault: where the transit engine is ("transit" if empty) and its key
	Insecure   bool     // allows vault.Plaintext
}

// sealer is what closes and opens a vault of this form. It reaches no program and no server yet.
func (p program) sealer(o sealerOptions) (vault.Sealer, error) {
	switch cmp.Or(o.Form, vault.Age) {
	case vault.Age:
		return p.ageSealer(o)
	case vault.Sops:
		return p.sopsSealer(o)
	case vault.Transit:
		return transitSealer(o)
	case vault.Plaintext:
		return p.plaintextSealer(o)
	}
	err := cli.Usage(fmt.Errorf("%.40q is no form of encryption", o.Form))
	return nil, cli.WithHint(err, "there are age, sops, vault (HashiCorp Vault and OpenBao) and none")
}

func (p program) sopsSealer(o sealerOptions) (vault.Sealer, error) {
	identities, err := p.sopsIdentities(o.Identities)
	if err != nil {
		return nil, err
	}
	s, err := sops.New(sops.Options{Recipients: o.Recipients, Identities: identities})
	if _, missing := errors.AsType[*sops.MissingError](err); err != nil && !missing {
		err = cli.Usage(err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// sopsIdentities adds the person's own age key to what sops finds by itself, when no files are named.
func (p program) sopsIdentities(files []string) ([]string, error) {
	if len(files) > 0 {
		return files, nil
	}
	path, err := p.ageKeyPath()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if theirs := os.Getenv("SOPS_AGE_KEY_FILE"); theirs != "" {
		return []string{theirs, path}, nil
	}
	return []string{path}, nil
}

func transitSealer(o sealerOptions) (vault.Sealer, error) {
	if len(o.Recipients) > 0 {
		err := cli.Usage(errors.New("a vault of the form vault has no recipients"))
		return nil, cli.WithHint(err, "the server's policies say who may open it")
	}
	s, err := transit.New(transit.Options{Mount: o.Mount, Key: o.Key})
	if err != nil {
		return nil, err
	}
	return s, nil
}
