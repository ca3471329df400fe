package main

import (
	"bytes"
	"errors"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/hand/key"
)

// identity loads the node's key. It asks for a passphrase if the key is encrypted.
func (p *program) identity(c config.Config) (key.Identity, error) {
	return key.Load(c.Paths.Data, func() ([]byte, error) { return askPassphrase("Passphrase: ") }, key.TakeEnv)
}

// askPassphrase reads a passphrase from the terminal.
func askPassphrase(prompt string) ([]byte, error) {
	passphrase, err := cli.AskSecret(prompt)
	if errors.Is(err, cli.ErrNoTerminal) {
		err = cli.WithHint(err, "set GUILD_PASSPHRASE")
	}
	return passphrase, err
}

// newPassphrase is GUILD_PASSPHRASE, or asked for twice.
func newPassphrase() ([]byte, error) {
	if set := key.TakeEnv("GUILD_PASSPHRASE"); set != "" {
		return []byte(set), nil
	}
	first, err := askPassphrase("New passphrase: ")
	if err != nil {
		return nil, err
	}
	if len(first) == 0 {
		return nil, cli.Usage(errors.New("the passphrase is empty"))
	}
	second, err := askPassphrase("Again: ")
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(first, second) {
		return nil, cli.Usage(errors.New("the two passphrases differ"))
	}
	return first, nil
}
