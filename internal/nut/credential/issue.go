package credential

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

func (p program) vaultIssueCommand() *cobra.Command {
	var f vaultFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "issue BUNDLE.nut",
		Short: "Write the vault beside a packed bundle, signed by your key",
		Long: `Write the sealed vault of a directory as BUNDLE.nut.vault, an event signed by
your key, which the manifest of the bundle must name
(credentials.rotation.pubkey). Who has the bundle takes this vault in place of
the one it came with; the bundle stays as it is. It is not opened for that.`,
		Example: "  " + p.Hint("vault issue ../task.nut"),
		Args:    cli.OneArg("a packed bundle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.vaultTree(cmd.Context(), f)
			if err != nil {
				return err
			}
			if len(s.sealed) == 0 {
				return cli.WithHint(fmt.Errorf("%s: %w", f.dir, errNoVault), "make one with '"+p.Hint("add-credential --name NAME")+"'")
			}
			r, err := p.issue(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			return p.printIssued(args[0]+vault.RevisionSuffix, r, asJSON)
		},
	}
	host.DirFlag(cmd.Flags(), &f.dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	cmd.ValidArgsFunction = cobra.FixedCompletions([]string{"nut"}, cobra.ShellCompDirectiveFilterFileExt)
	return cmd
}

// issue writes the vault of a directory beside a packed bundle.
func (p program) issue(ctx context.Context, s *safe, bundle string) (vault.Revision, error) {
	b, _, done, err := p.OpenBundle(bundle)
	if err != nil {
		return vault.Revision{}, err
	}
	defer done()
	if b.Manifest().ID() != s.m.ID() {
		return vault.Revision{}, fmt.Errorf("%s is another bundle: its id is %.140s, not %.140s", bundle, b.Manifest().ID(), s.m.ID())
	}
	return p.writeRevision(ctx, bundle, b.Manifest(), s.form, s.sealed)
}

func (p program) printIssued(path string, r vault.Revision, asJSON bool) error {
	if asJSON {
		at := r.CreatedAt.Time().UTC().Format(time.RFC3339)
		return cli.PrintJSON(p.Out, map[string]any{"file": path, "event": r.ID.Hex(), "created_at": at})
	}
	_, err := fmt.Fprintf(p.Out, "wrote %s\n", cli.Clean(path))
	return err
}

// writeRevision signs a sealed vault as the person and writes it beside a bundle file with this manifest, which must
// name the person's key. It is later than the one that is there, which must be by the same key.
func (p program) writeRevision(ctx context.Context, bundle string, m *nutshell.Manifest, form string, sealed []byte) (vault.Revision, error) {
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
	switch {
	case err == nil:
		if last := known.CreatedAt.Time(); !at.After(last.Add(time.Second)) {
			at = last.Add(time.Second)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return vault.Revision{}, err
	}
	e, err := vault.NewRevision(m.ID(), form, sealed, at)
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
	path := bundle + vault.RevisionSuffix
	if err := durable.WriteBytes(path, raw); err != nil {
		return vault.Revision{}, err
	}
	return r, os.Chmod(path, 0o644) // what is in it is sealed, and others are to read it
}
