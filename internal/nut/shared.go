package nut

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"guild/internal/cli"
	"guild/nutshell"
	"guild/nutshell/clawnet"
	"guild/nutshell/ignore"
	"guild/nutshell/vault"
)

// sharedBundle is a directory as others get it: without its vault, and without the notes of where it was published.
type sharedBundle struct {
	file     *os.File // without a name
	manifest *nutshell.Manifest
	info     nutshell.Info
	vault    string // the path of the vault that stays; empty if there is none
}

// share packs a directory for others. The extension is written into its manifest, without the notes.
func (p *Program) share(ctx context.Context, dir string, e clawnet.Extension) (*sharedBundle, error) {
	tree, m, err := p.ownTree(dir)
	if err != nil {
		return nil, err
	}
	s := &sharedBundle{manifest: m, vault: m.Credentials().Vault}
	if err := p.refusePlaintext(tree, m); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := m.SetExtension(clawnet.Name, e.Unpublished()); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	shown := withManifest{tree, m.Bytes()}
	f := packFlags{dir: dir, vaultBeside: s.vault != ""}
	o, err := p.packOptions(ctx, shown, f)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	o.Exclude = withoutSecrets(m, o.Exclude)
	if s.file, err = unnamed(); err != nil {
		return nil, err
	}
	if s.info, err = nutshell.Pack(ctx, shown, s.file, o); err != nil {
		s.file.Close()
		return nil, p.packHint(fmt.Errorf("pack %s: %w", dir, err), f)
	}
	return s, nil
}

// withoutSecrets leaves out all credentials, beside what else is left out.
func withoutSecrets(m *nutshell.Manifest, also func(string, bool) bool) func(string, bool) bool {
	secrets := []string{path.Dir(vault.File), path.Clean(m.Credentials().Vault), path.Clean(m.APIs().CredentialRef)}
	return func(name string, isDir bool) bool {
		return slices.Contains(secrets, name) || also != nil && also(name, isDir)
	}
}

// refusePlaintext refuses a bundle whose vault anybody can read: it is not to be near a network.
func (p *Program) refusePlaintext(tree fs.FS, m *nutshell.Manifest) error {
	c := m.Credentials()
	plain := c.Vault != "" && c.Encryption == vault.Plaintext
	sealed, err := readVault(tree, c.Vault)
	if err != nil {
		return err
	}
	if plain || vault.InClear(sealed) {
		err := fmt.Errorf("the vault %s is not encrypted, and such a bundle is not shared", cli.Clean(c.Vault))
		return cli.WithHint(err, "seal it first: '"+p.hint("vault --help")+"' says how")
	}
	return nil
}

// readVault reads the vault of a tree; none is nothing.
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

// ignoredIn are the patterns of the tree's .nutignore; without one they match nothing.
func ignoredIn(tree fs.FS) (*ignore.Patterns, error) {
	raw, err := fs.ReadFile(tree, ignore.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return ignore.Parse(raw)
}

// withManifest is a tree with another manifest in it.
type withManifest struct {
	fs.FS
	text []byte
}

// Open implements fs.FS.
func (t withManifest) Open(name string) (fs.File, error) {
	if name != nutshell.ManifestFile {
		return t.FS.Open(name)
	}
	return &textFile{bytes.NewReader(t.text), name}, nil
}

// content is the packed file from its beginning.
func (s *sharedBundle) content() io.Reader { return io.NewSectionReader(s.file, 0, s.info.Size) }
