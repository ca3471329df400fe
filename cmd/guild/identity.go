package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"guild/internal/config"
	"guild/internal/key"
)

// identity loads who this node is. It asks for a passphrase when the key rests sealed.
func (p *program) identity(c config.Config) (key.Identity, error) {
	return key.Load(c.Paths.Data, func() ([]byte, error) { return askPassphrase("Passphrase: ") }, key.TakeEnv)
}

// askPassphrase reads a passphrase from the terminal itself, without echo, wherever the streams go.
func askPassphrase(prompt string) ([]byte, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, withHint(errors.New("no terminal to ask for the passphrase on"), "set GUILD_PASSPHRASE")
	}
	defer tty.Close()
	fmt.Fprint(tty, prompt)
	passphrase, err := term.ReadPassword(int(tty.Fd()))
	fmt.Fprintln(tty)
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
		return nil, usage(errors.New("the passphrase is empty"))
	}
	second, err := askPassphrase("Again: ")
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(first, second) {
		return nil, usage(errors.New("the two passphrases differ"))
	}
	return first, nil
}
