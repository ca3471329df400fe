package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/clawnet"
	"guild/nutshell/vault"
)

// Shared is a directory that was packed for others.
type Shared struct {
	File     *os.File // without a name
	Manifest *nutshell.Manifest
	Info     nutshell.Info
	Vault    string // the path of the vault that stays; empty if there is none
}

func (p program) share(ctx context.Context, dir string, e clawnet.Extension) (*Shared, error) {
	tree, m, err := p.OwnTree(dir)
	if err != nil {
		return nil, err
	}
	s := &Shared{Manifest: m, Vault: m.Credentials().Vault}
	if err := p.refusePlaintext(tree, m); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := m.SetExtension(clawnet.Name, e.Unpublished()); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	shown := host.WithFile(tree, nutshell.ManifestFile, m.Bytes())
	f := packFlags{dir: dir, vaultBeside: s.Vault != ""}
	o, err := p.packOptions(ctx, shown, f)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	o.Exclude = withoutSecrets(m, o.Exclude)
	if s.File, err = host.Unnamed(); err != nil {
		return nil, err
	}
	if s.Info, err = nutshell.Pack(ctx, shown, s.File, o); err != nil {
		s.File.Close()
		return nil, p.packHint(fmt.Errorf("pack %s: %w", dir, err), f)
	}
	return s, nil
}

// withoutSecrets excludes all credentials, beside what also excludes.
func withoutSecrets(m *nutshell.Manifest, also func(string, bool) bool) func(string, bool) bool {
	secrets := []string{path.Dir(vault.File), path.Clean(m.Credentials().Vault), path.Clean(m.APIs().CredentialRef)}
	return func(name string, isDir bool) bool {
		return slices.Contains(secrets, name) || also != nil && also(name, isDir)
	}
}

// refusePlaintext refuses a bundle whose vault anybody can read: it must not get onto a network.
func (p program) refusePlaintext(tree fs.FS, m *nutshell.Manifest) error {
	c := m.Credentials()
	plain := c.Vault != "" && c.Encryption == vault.Plaintext
	sealed, err := readVault(tree, c.Vault)
	if err != nil {
		return err
	}
	if plain || vault.InClear(sealed) {
		err := fmt.Errorf("the vault %s is not encrypted, and such a bundle is not shared", cli.Clean(c.Vault))
		return cli.WithHint(err, "seal it first: '"+p.Hint("vault --help")+"' says how")
	}
	return nil
}

// readVault reads the vault of a tree. It returns nil if there is none.
func readVault(tree fs.FS, name string) ([]byte, error) {
	name = path.Clean(name)
	if !fs.ValidPath(name) || name == "." {
		return nil, nil
	}
	f, err := tree.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, vault.MaxSealed+1))
}

// Content reads the packed file from its beginning.
func (s *Shared) Content() io.Reader { return io.NewSectionReader(s.File, 0, s.Info.Size) }
