package credential

import (
	"github.com/spf13/cobra"

	"guild/internal/cli"
)

func (p program) vaultCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vault",
		Short: "Look after the credentials of a bundle",
		Long: "Look after the vault of a bundle: what is in it, whom it is sealed for, and until\nwhen it is good. '" + p.Hint("add-credential") + "' puts something in.\n\n" +
			"Vaults open with your own key, age.key in the configuration directory, and with\nwhat " + ageKeyVariable + " holds; or, with --identity, with the keys in those files:\nof age, of an age plugin, or a private SSH key.",
		Example: "  " + p.Hint("vault show") + "\n  " + p.Hint("vault audit --dir my-task"),
	}
	return cli.Group(cmd,
		p.vaultShowCommand(), p.vaultGetCommand(), p.vaultEditCommand(), p.vaultRemoveCommand(),
		p.vaultRekeyCommand(), p.vaultRotateCommand(), p.vaultAuditCommand(), p.vaultIssuerCommand(),
		p.vaultIssueCommand(), p.vaultFetchCommand(),
	)
}
