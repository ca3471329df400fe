package credential

import (
	"context"
	"errors"
	"io"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
)

// Encrypt returns what encrypts a whole bundle for these recipients. It must be closed.
func Encrypt(ctx context.Context, p *host.Program, recipients []string, w io.Writer) (io.WriteCloser, error) {
	all, err := canonical(recipients)
	if err != nil {
		return nil, err
	}
	s, err := age.New(age.Config{Recipients: all, UI: program{p}.ageUI()})
	if err != nil {
		return nil, cli.Usage(err)
	}
	return s.Writer(ctx, w)
}

// Decrypt returns the content of a bundle that was encrypted as a whole, with the person's own key.
func Decrypt(ctx context.Context, p *host.Program, r io.Reader) (io.Reader, error) {
	own := program{p}
	keys, err := own.ageIdentities(nil)
	if err != nil {
		return nil, err
	}
	s, err := age.New(age.Config{Identities: keys, UI: own.ageUI()})
	if err != nil {
		return nil, cli.Usage(err)
	}
	plain, err := s.Reader(ctx, r)
	if errors.Is(err, vault.ErrNotFor) {
		err = cli.WithHint(errors.New("the bundle is not encrypted for any key at hand"),
			ageKeyVariable+" may hold the text of another key")
	}
	return plain, err
}
