package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"guild/internal/cli"
	"guild/internal/nut/draft"
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

// Share packs a directory for others: without its vault, and with this extension in its manifest, but without the notes
// of where it was published. The caller closes the file.
func Share(ctx context.Context, own *host.Program, dir string, e clawnet.Extension) (*Shared, error) {
	p := program{own}
	tree, m, err := p.OwnTree(dir)
	if err != nil {
		return nil, err
	}
	s := &Shared{Manifest: m, Vault: m.Credentials().Vault}
	if err := p.refusePlaintext(tree, m); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := e.Unpublished().Write(m); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := draft.Complete(own, tree, m); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	shown := host.WithFile(tree, nutshell.ManifestFile, m.Bytes())
	f := packFlags{dir: dir, vaultBeside: s.Vault != ""}
	o, err := p.packOptions(ctx, shown, f)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	ignored := o.Exclude
	o.Exclude = func(name string, isDir bool) bool { return m.HoldsCredentials(name) || ignored(name, isDir) }
	if s.File, err = host.Unnamed(); err != nil {
		return nil, err
	}
	if s.Info, err = nutshell.Pack(ctx, shown, s.File, o); err != nil {
		s.File.Close()
		return nil, p.packHint(fmt.Errorf("pack %s: %w", dir, err), f)
	}
	return s, nil
}

// refusePlaintext refuses a bundle whose vault anybody can read: it must not get onto a network.
func (p program) refusePlaintext(tree fs.FS, m *nutshell.Manifest) error {
	c := m.Credentials()
	isClear := c.Vault != "" && c.Encryption == vault.Plaintext
	if name := path.Clean(c.Vault); fs.ValidPath(name) && name != "." {
		f, err := tree.Open(name)
		if err == nil {
			defer f.Close()
			var sealed []byte
			sealed, err = io.ReadAll(io.LimitReader(f, vault.MaxSealed+1))
			isClear = isClear || vault.InClear(sealed)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !isClear {
		return nil
	}
	err := fmt.Errorf("the vault %s is not encrypted, and such a bundle is not shared", cli.Clean(c.Vault))
	return cli.WithHint(err, "seal it first: '"+p.Hint("vault --help")+"' says how")
}

// Content reads the packed file from its beginning.
func (s *Shared) Content() io.Reader { return io.NewSectionReader(s.File, 0, s.Info.Size) }
