package nut

import (
	"context"
	"errors"

	"fiatjaf.com/nostr"

	"guild/internal/cli"
	"guild/internal/hand/key"
)

// Signer loads the Nostr key of an identity directory, asking for its passphrase if it has one.
func Signer(_ context.Context, dir string) (nostr.Keyer, error) {
	id, err := key.Load(dir, func() ([]byte, error) { return cli.AskSecret("Passphrase: ") }, key.TakeEnv)
	switch {
	case errors.Is(err, key.ErrNone):
		return nil, cli.WithHint(err, "make one with 'guild init', or set NOSTR_SECRET_KEY")
	case errors.Is(err, cli.ErrNoTerminal):
		return nil, cli.WithHint(err, "set GUILD_PASSPHRASE")
	case err != nil:
		return nil, err
	case id.Bunker != "":
		return nil, cli.WithHint(errors.New("the identity is with a remote signer, which this verb cannot ask"), "set NOSTR_SECRET_KEY")
	}
	return id.Signer, nil
}
