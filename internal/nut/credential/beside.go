package credential

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// rotationKey returns the key that may issue vaults for a bundle.
func rotationKey(m *nutshell.Manifest) (nostr.PubKey, error) {
	r := m.Credentials().Rotation
	if r == nil {
		return nostr.PubKey{}, errors.New("the manifest names no key that may issue vaults (credentials.rotation.pubkey)")
	}
	k, err := nostr.PubKeyFromHex(r.PubKey)
	if err != nil {
		return nostr.PubKey{}, errors.New("credentials.rotation.pubkey is not a public key")
	}
	return k, nil
}

// readRevision reads the vault beside a bundle file, which the key named in the manifest must have signed. The error is
// fs.ErrNotExist if there is none. Whoever sent the bundle may have sent anything under that name.
func readRevision(bundle string, m *nutshell.Manifest) (vault.Revision, error) {
	path := bundle + vault.RevisionSuffix
	f, err := host.OpenRegular(path)
	if err != nil {
		return vault.Revision{}, err
	}
	defer f.Close()
	raw, err := host.ReadAtMost(f, vault.MaxRevision, fmt.Errorf("%s: %w", path, vault.ErrTooLarge))
	if err != nil {
		return vault.Revision{}, err
	}
	by, err := rotationKey(m)
	if err != nil {
		return vault.Revision{}, fmt.Errorf("%s: %w", path, err)
	}
	r, err := vault.ParseRevision(raw, m.ID(), by)
	if err != nil {
		return vault.Revision{}, cli.WithHint(fmt.Errorf("%s: %w", path, err), "ask the publisher for it again, or take it away")
	}
	return r, nil
}

// writeRevision writes a vault beside a bundle file, for others to read: what is in it is sealed.
func writeRevision(bundle string, raw []byte) error {
	path := bundle + vault.RevisionSuffix
	if err := durable.WriteBytes(path, raw); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

// issue signs the sealed vault of a directory as the person, whose key the manifest of the packed bundle must name,
// and writes it beside that bundle. It gets a later time than the one that is there.
func (p program) issue(ctx context.Context, s *safe, bundle string) (vault.Revision, error) {
	b, err := p.OpenBundle(bundle)
	if err != nil {
		return vault.Revision{}, err
	}
	defer b.Close()
	m := b.Manifest()
	if m.ID() != s.m.ID() {
		return vault.Revision{}, fmt.Errorf("%s is another bundle: its id is %.140s, not %.140s", bundle, m.ID(), s.m.ID())
	}
	by, err := rotationKey(m)
	if err != nil {
		return vault.Revision{}, cli.WithHint(fmt.Errorf("%s: %w", bundle, err), "name the key with '"+p.Hint("vault issuer")+"' before you pack the bundle")
	}
	signer, err := p.Signer(ctx)
	if err != nil {
		return vault.Revision{}, err
	}
	own, err := signer.GetPublicKey(ctx)
	if err != nil {
		return vault.Revision{}, err
	}
	if own != by {
		return vault.Revision{}, fmt.Errorf("%s: %w: %.8s, not yours, %.8s", bundle, vault.ErrForeignKey, by.Hex(), own.Hex())
	}
	at := p.Now()
	known, err := readRevision(bundle, m)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return vault.Revision{}, err
	}
	if last := known.CreatedAt.Time(); err == nil && !at.After(last.Add(time.Second)) {
		at = last.Add(time.Second)
	}
	e, err := vault.NewRevision(m.ID(), s.form, s.sealed, at)
	if err != nil {
		return vault.Revision{}, err
	}
	signed, err := guild.Sign(ctx, signer, e)
	if err != nil {
		return vault.Revision{}, err
	}
	r, err := vault.RevisionOf(signed, m.ID(), by)
	if err != nil {
		return vault.Revision{}, err
	}
	raw, err := vault.MarshalRevision(signed)
	if err != nil {
		return vault.Revision{}, err
	}
	return r, writeRevision(bundle, raw)
}
