package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) backupCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "backup",
		Short:   "Keep what was learned away from this machine, and get it back",
		Example: "  guild backup now\n  guild backup ls\n  guild backup restore --from-relays",
	}, p.backupNowCommand(), p.backupLsCommand(), p.backupRestoreCommand())
}

func (p *program) backupNowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "now",
		Short: "Back trust and the states of providers up now",
		Long: `now seals the matrix with a key of its own, puts it on the Blossom servers, and
sends a private message to yourself (NIP-17) that names it. A running node does so
by itself after significant changes, at most once an hour.`,
		Example: "  guild backup now",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.acting(cmd.Context(), func(client *control.Client, _ bool) error {
				b, err := client.Backup(cmd.Context())
				if err != nil {
					return err
				}
				return p.showBackups([]control.Backup{b}, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) backupLsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the backups that this node made",
		Example: "  guild backup ls --json",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, done, err := p.reader(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			all, err := client.Backups(cmd.Context())
			if err != nil {
				return err
			}
			return p.showBackups(all, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) showBackups(all []control.Backup, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.out, all)
	}
	if len(all) == 0 {
		fmt.Fprintln(p.err, "no backup was made yet: the first follows the first significant change, or guild backup now")
		return nil
	}
	rows := [][]string{{"BACKUP", "AGE", "STATE", "SIZE", "AT", "WHY"}}
	for _, b := range all {
		rows = append(rows, []string{short(b.ID), age(p.now(), b.At), b.State, cli.Size(b.Size), cli.Count(len(b.URLs), "server", "servers"),
			whyBackedUp(b)})
	}
	return cli.Table(p.out, rows)
}

// whyBackedUp says what made a backup due, and why it failed if it did.
func whyBackedUp(b control.Backup) string {
	why := cli.Cut(strings.TrimSpace(cli.Clean(b.Cause)), 80)
	if reason := strings.TrimSpace(cli.Clean(b.Reason)); reason != "" {
		return strings.TrimPrefix(why+"; failed: ", "; ") + cli.Cut(reason, 80)
	}
	return why
}

func (p *program) backupRestoreCommand() *cobra.Command {
	var fromRelays, force, asJSON bool
	cmd := &cobra.Command{
		Use:   "restore --from-relays",
		Short: "Take over what a lost node had learned",
		Long: `restore reads the private messages that a node with this identity sent to itself,
fetches the newest backup, and takes its trust and states over. Providers that
nobody announces any more are put in quarantine. It wants a node that has learned
nothing yet, unless --force is given.`,
		Example: "  guild init --import < nsec.txt\n  guild backup restore --from-relays",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !fromRelays {
				return cli.WithHint(cli.Usage(errors.New("where from?")), "guild backup restore --from-relays")
			}
			return p.acting(cmd.Context(), func(client *control.Client, _ bool) error {
				return p.runRestore(cmd.Context(), client, force, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&fromRelays, "from-relays", false, "read the backups that relays and Blossom servers have")
	cmd.Flags().BoolVar(&force, "force", false, "also where something was learned already: the backup wins")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) runRestore(ctx context.Context, client *control.Client, force, asJSON bool) error {
	r, err := client.RestoreBackup(ctx, force)
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(p.out, r)
	}
	of := ""
	if !r.Exact {
		of = " is the backup's; this node had learned more, and counts on from there"
	}
	fmt.Fprintf(p.out, "restored  backup %s of %s ago: %s, %d that nobody announces now\nmatrix    %s%s\n",
		short(r.Backup), age(p.now(), r.Made), cli.Count(r.Services, "service", "services"), r.Unclaimed, r.Matrix, of)
	return nil
}
