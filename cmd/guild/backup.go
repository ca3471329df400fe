package main

import (
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
		Short:   "Back up trust and the states of providers, and restore them",
		Example: "  guild backup now\n  guild backup ls\n  guild backup restore --from-relays",
	}, p.backupNowCommand(), p.backupLsCommand(), p.backupRestoreCommand())
}

func (p *program) backupNowCommand() *cobra.Command {
	return call(p, p.acting, control.MakeBackup, &cobra.Command{
		Use:   "now",
		Short: "Back up trust and the states of providers now",
		Long: `now encrypts the matrix with a key of its own, puts it on the Blossom servers,
and sends a private message to yourself (NIP-17) that names it. A running node
does so by itself after significant changes, at most once an hour.`,
		Example: "  guild backup now",
	}, func(b control.Backup) error { return p.showBackups([]control.Backup{b}) })
}

func (p *program) backupLsCommand() *cobra.Command {
	return call(p, p.reading, control.Backups, &cobra.Command{
		Use:     "ls",
		Short:   "List the backups that this node made",
		Example: "  guild backup ls --json",
	}, p.showBackups)
}

func (p *program) showBackups(all []control.Backup) error {
	none := "no backup was made yet: the first follows the first significant change, or guild backup now"
	return table(p, none, "BACKUP,AGE,STATE,SIZE,AT,WHY", func(b control.Backup) []string {
		return []string{short(b.ID), age(p.now(), b.At), b.State, cli.Size(b.Size), cli.Count(len(b.URLs), "server", "servers"),
			whyBackedUp(b)}
	})(all)
}

// whyBackedUp returns the cause of a backup, and why it failed if it did.
func whyBackedUp(b control.Backup) string {
	why := cli.Cut(strings.TrimSpace(cli.Clean(b.Cause)), 80)
	if reason := strings.TrimSpace(cli.Clean(b.Reason)); reason != "" {
		return strings.TrimPrefix(why+"; failed: ", "; ") + cli.Cut(reason, 80)
	}
	return why
}

func (p *program) backupRestoreCommand() *cobra.Command {
	var fromRelays, force bool
	cmd := send(p, p.acting, control.RestoreBackup, &cobra.Command{
		Use:   "restore --from-relays",
		Short: "Restore the backup of a lost node",
		Long: `restore reads the private messages that a node with this identity sent to
itself, fetches the newest backup, and restores its trust and states. Providers
that are not announced any more become stale, and are not asked, once the node
has been connected for a minute. The node must not have learned anything yet,
unless --force is given.`,
		Example: "  guild init --import < nsec.txt\n  guild backup restore --from-relays",
	}, func(*cobra.Command, []string) (control.Restore, []string, error) {
		if !fromRelays {
			return control.Restore{}, nil, cli.WithHint(errors.New("where from?"), "guild backup restore --from-relays")
		}
		return control.Restore{Force: force}, nil, nil
	}, func(r control.Restored) error {
		of := ""
		if !r.Exact {
			of = " is the backup's; this node had learned more, and counts on from there"
		}
		_, err := fmt.Fprintf(p.out, "restored  backup %s of %s ago: %s, %d that nobody announces now\nmatrix    %s%s\n",
			short(r.Backup), age(p.now(), r.Made), cli.Count(r.Services, "service", "services"), r.Unclaimed, r.Matrix, of)
		return err
	})
	cmd.Flags().BoolVar(&fromRelays, "from-relays", false, "read the backups that relays and Blossom servers have")
	cmd.Flags().BoolVar(&force, "force", false, "also where something was learned already: the backup wins")
	return cmd
}
