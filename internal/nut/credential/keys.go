package credential

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/cli"
	"guild/internal/hand/key"
	"guild/internal/nut/host"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
	"guild/nutshell/vault/plaintext"
	"guild/nutshell/vault/sops"
	"guild/nutshell/vault/transit"
)

// ageKeyFile is the name of the person's own age key, in the configuration directory.
const ageKeyFile = "age.key"

// ageKeyVariable may hold the text of an identity file, for machines that have no place for files.
const ageKeyVariable = "GUILD_AGE_IDENTITY"

// sealer returns what seals vaults of a form (vault.Age if empty) for these recipients, and opens them. It runs no
// program and asks no server yet.
func (p program) sealer(form string, recipients []string, f vaultFlags) (vault.Sealer, error) {
	switch cmp.Or(form, vault.Age) {
	case vault.Age:
		identities, err := p.ageIdentities(f.identities)
		if err != nil {
			return nil, err
		}
		s, err := age.New(age.Config{Recipients: recipients, Identities: identities, UI: p.ageUI()})
		if err != nil {
			return nil, cli.Usage(err)
		}
		return s, nil
	case vault.Sops:
		return p.sopsSealer(recipients, f)
	case vault.Transit:
		if len(recipients) > 0 {
			err := cli.Usage(errors.New("a vault of the form vault has no recipients"))
			return nil, cli.WithHint(err, "the server's policies say who may open it")
		}
		s, err := transit.New(transit.Options{Mount: f.mount, Key: f.key})
		if err != nil {
			return nil, err
		}
		return s, nil
	case vault.Plaintext:
		s, err := plaintext.New(f.insecure)
		if err != nil {
			return nil, cli.WithHint(cli.Usage(err), "if that is what you want, for development, say --insecure-plaintext")
		}
		fmt.Fprintln(p.Err, "warning: the vault is not encrypted: whoever has the file has the credentials")
		return s, nil
	}
	err := cli.Usage(fmt.Errorf("%.40q is not a form of encryption", form))
	return nil, cli.WithHint(err, "there are age, sops, vault (HashiCorp Vault and OpenBao) and none")
}

// sopsSealer adds the person's own age key to those that sops finds by itself, unless files are named.
func (p program) sopsSealer(recipients []string, f vaultFlags) (vault.Sealer, error) {
	identities := f.identities
	if len(identities) == 0 {
		path, err := p.ageKeyPath()
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			if theirs := os.Getenv("SOPS_AGE_KEY_FILE"); theirs != "" {
				identities = append(identities, theirs)
			}
			identities = append(identities, path)
		}
	}
	s, err := sops.New(sops.Options{Recipients: recipients, Identities: identities})
	if _, missing := errors.AsType[*sops.MissingError](err); err != nil && !missing {
		err = cli.Usage(err)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ageUI asks the person for passphrases, and for what plugins want to know.
func (p program) ageUI() age.UI {
	ui := age.UI{
		Ask:  func(prompt string) ([]byte, error) { return p.AskSecret(cli.Clean(prompt)) },
		Tell: func(message string) { fmt.Fprintln(p.Err, cli.Clean(message)) },
	}
	if !p.Asks() {
		return ui
	}
	ui.Input = func(prompt string) (string, error) {
		a, err := p.Asker(context.Background())
		if err != nil {
			return "", err
		}
		return a.Line(prompt, "")
	}
	ui.Confirm = func(prompt, yes, no string) (bool, error) {
		a, err := p.Asker(context.Background())
		if err != nil {
			return false, err
		}
		words := []string{cli.Clean(yes)}
		if no != "" {
			words = append(words, cli.Clean(no))
		}
		answer, err := a.Choose(prompt, words[0], words...)
		return answer == words[0], err
	}
	return ui
}

// ageIdentities reads identity files, or without any the key in the environment and the person's own. To have none is
// not an error: a vault may have a passphrase.
func (p program) ageIdentities(files []string) ([]age.Identity, error) {
	var all []age.Identity
	if len(files) == 0 {
		if text := os.Getenv(ageKeyVariable); text != "" {
			all = append(all, age.Identity{Name: ageKeyVariable, Text: vault.NewSecret([]byte(text))})
		}
		path, err := p.ageKeyPath()
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			files = []string{path}
		}
	}
	for _, path := range files {
		text, err := readPrivate(path)
		if err != nil {
			return nil, err
		}
		public, _ := readFile(path+".pub", age.MaxIdentity) // only some SSH keys need it
		all = append(all, age.Identity{Name: path, Text: vault.NewSecret(text), Public: public})
	}
	return all, nil
}

func (p program) ageKeyPath() (string, error) {
	dir, err := p.ConfigDir()
	return filepath.Join(dir, ageKeyFile), err
}

// readPrivate reads a file that only its owner can read, or a pipe.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && key.OthersRead(info):
		return nil, &key.ModeError{Path: path, Mode: info.Mode()}
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeNamedPipe == 0:
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return readFile(path, age.MaxIdentity)
}

// readFile reads a file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return host.ReadAtMost(f, limit, fmt.Errorf("%s has more than %d bytes", path, limit))
}

// ownRecipients returns the public halves of the person's keys. If there are none, it makes a key and says so.
func (p program) ownRecipients(ctx context.Context, files []string) ([]string, error) {
	identities, err := p.ageIdentities(files)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, id := range identities {
		some, err := id.Recipients(ctx, p.ageUI())
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if len(identities) > 0 {
		return all, nil
	}
	made, err := p.makeAgeKey()
	return []string{made}, err
}

// makeAgeKey makes the person's own key. It never replaces one.
func (p program) makeAgeKey() (recipient string, err error) {
	path, err := p.ageKeyPath()
	if err != nil {
		return "", err
	}
	text, recipient, err := age.Generate(p.Now())
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := host.WriteNew(dir, ageKeyFile, text.Reveal(), 0o600); err != nil {
		return "", err
	}
	fmt.Fprintf(p.Err, "made your key, which opens your vaults: %s\nkeep a copy of it; it is known as %s\n", path, recipient)
	return recipient, nil
}
