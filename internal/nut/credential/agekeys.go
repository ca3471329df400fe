package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/key"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
	"guild/nutshell/vault/plaintext"
)

// ageKeyFile is the person's own age key, in the configuration directory.
const ageKeyFile = "age.key"

// ageKeyVariable may hold the text of an identity file, for machines that have no place for files.
const ageKeyVariable = "GUILD_AGE_IDENTITY"

// ageSealer closes vaults with age for recipients, and opens them with identity files, or the person's own key
// without any.
func (p program) ageSealer(o sealerOptions) (vault.Sealer, error) {
	if o.Passphrase {
		o.Recipients = []string{age.Passphrase}
	}
	identities, err := p.ageIdentities(o.Identities)
	if err != nil {
		return nil, err
	}
	s, err := age.New(age.Config{Recipients: o.Recipients, Identities: identities, UI: p.ageUI()})
	if err != nil {
		return nil, cli.Usage(err)
	}
	return s, nil
}

// plaintextSealer is for vaults in clear, and warns each time.
func (p program) plaintextSealer(o sealerOptions) (vault.Sealer, error) {
	s, err := plaintext.New(o.Insecure)
	if err != nil {
		return nil, cli.WithHint(cli.Usage(err), "if that is what you want, for development, say --insecure-plaintext")
	}
	fmt.Fprintln(p.Err, "warning: the vault is not encrypted: whoever has the file has the credentials")
	return s, nil
}

// ageUI is the person, for passphrases and plugins.
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

// ageIdentities reads identity files; without any, the key in the environment and the person's own. It is no error to
// have none: a vault may have a passphrase.
func (p program) ageIdentities(files []string) ([]age.Identity, error) {
	var all []age.Identity
	for _, path := range files {
		id, err := readIdentity(path)
		if err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	if len(files) > 0 {
		return all, nil
	}
	if text := os.Getenv(ageKeyVariable); text != "" {
		all = append(all, age.Identity{Name: ageKeyVariable, Text: vault.NewSecret([]byte(text))})
	}
	path, err := p.ageKeyPath()
	if err != nil {
		return nil, err
	}
	id, err := readIdentity(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return all, nil
	case err != nil:
		return nil, err
	}
	return append(all, id), nil
}

func (p program) ageKeyPath() (string, error) {
	dir, err := p.ConfigDir()
	return filepath.Join(dir, ageKeyFile), err
}

// readIdentity reads an identity file, if nobody but its owner can read it, or a pipe.
func readIdentity(path string) (age.Identity, error) {
	text, err := readPrivate(path)
	if err != nil {
		return age.Identity{}, err
	}
	public, _ := readBounded(path+".pub", age.MaxIdentity) // only some SSH keys need it
	return age.Identity{Name: path, Text: vault.NewSecret(text), Public: public}, nil
}

func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0:
		return nil, &key.ModeError{Path: path, Mode: info.Mode()}
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeNamedPipe == 0:
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return readBounded(path, age.MaxIdentity)
}

// readBounded reads a file of at most so many bytes.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return b, err
}

// ownRecipients are the public halves of the person's keys. If there is none, one is made, and the person is told.
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

// makeAgeKey makes the person's own key, and never writes over one.
func (p program) makeAgeKey() (recipient string, err error) {
	path, err := p.ageKeyPath()
	if err != nil {
		return "", err
	}
	text, recipient, err := age.Generate(p.Now())
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(text.Reveal())
	if err := errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return "", err
	}
	if err := os.Link(temporary.Name(), path); err != nil { // unlike a rename, it replaces nothing
		return "", err
	}
	fmt.Fprintf(p.Err, "made your key, which opens your vaults: %s\nkeep a copy of it; it is known as %s\n", path, recipient)
	return recipient, durable.SyncDir(filepath.Dir(path))
}
