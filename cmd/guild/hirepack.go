package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"guild"
	"guild/internal/cli"
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/ignore"
	vaultage "guild/nutshell/vault/age"
)

// packBundle returns the bundle as it goes out: a directory is packed, a file is taken as it is.
func packBundle(ctx context.Context, source string, hidden []guild.Commitment) ([]byte, []nutshell.Skipped, error) {
	info, err := os.Stat(source)
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	if !info.IsDir() {
		if filepath.Ext(source) != ".nut" {
			hint := "give a directory with a nutshell.json, or a .nut file"
			if filepath.Ext(source) == ".json" {
				hint = "if it is the request of a typed job, name the job type with --type; guild oa ls lists them"
			}
			return nil, nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is not a bundle", source)), hint)
		}
		packed, err := os.ReadFile(source)
		return packed, nil, err
	}
	var b bytes.Buffer
	skipped, err := packDir(ctx, source, &b, hidden)
	switch {
	case errors.Is(err, nutshell.ErrNoManifest):
		err := fmt.Errorf("%s is not a bundle: no nutshell.json", source)
		return nil, nil, cli.WithHint(cli.Usage(err), "of a project, say what is to be done: guild hire "+source+` --test 'pytest -q' "make the parser accept ISO dates"`)
	case err != nil:
		return nil, nil, fmt.Errorf("pack %s: %w", source, err)
	}
	return b.Bytes(), skipped, nil
}

// refuseEncrypted returns an error for a file that is a bundle encrypted as a whole. Others report what cannot be read.
func refuseEncrypted(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, len(vaultage.Begin))
	n, _ := io.ReadFull(f, head)
	if !vaultage.IsFile(head[:n]) {
		return nil
	}
	return cli.WithHint(cli.Usage(fmt.Errorf("%s is encrypted as a whole, and no provider or judge could read it", file)),
		"guild nut unpack "+file+" opens it with your age key; hire for the directory that it makes")
}

// packDir packs a directory without what its .nutignore names and without its vault, which travels beside the bundle. It
// returns what was left out.
func packDir(ctx context.Context, dir string, to io.Writer, hidden []guild.Commitment) ([]nutshell.Skipped, error) {
	tree := os.DirFS(dir)
	raw, err := fs.ReadFile(tree, nutshell.ManifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nutshell.ErrNoManifest
	}
	if err != nil {
		return nil, err
	}
	m, err := nutshell.ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	if raw, err = fs.ReadFile(tree, ignore.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	patterns, err := ignore.Parse(raw)
	if err != nil {
		return nil, err
	}
	if err := draft.Complete(&host.Program{}, tree, m); err != nil {
		return nil, err
	}
	tree = host.WithFile(tree, nutshell.ManifestFile, m.Bytes())
	beside := m.Credentials().Vault != ""
	o := nutshell.Options{
		Hidden: hidden, Exclude: patterns.Match, VaultBeside: beside, InsecurePlaintext: beside, // the vault stays here
	}
	packed, err := nutshell.Pack(ctx, tree, to, o)
	return packed.Skipped, err
}
