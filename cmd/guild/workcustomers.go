package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
)

func (p *program) workCustomersCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "customers",
		Short: "List who asked for work, and how they are scored",
		Long: `customers lists those who asked this node for work. SCORE is 0.5 for a stranger; it
rises with what was delivered and accepted, and falls with requests that were taken
back, verdicts that you object to, and asking too often. Below 0.3 a customer has
one request at a time, below 0.1 none. Whom work.allow lists is not scored.`,
		Example: "  guild work customers\n  guild work customers --json",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, done, err := p.reader(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			all, err := client.Customers(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(p.out, all)
			}
			if len(all) == 0 {
				fmt.Fprintln(p.err, "nobody has asked this node for work yet")
				return nil
			}
			rows := [][]string{{"CUSTOMER", "SCORE", "ASKED", "DELIVERED", "ACCEPTED", "DECLINED", "TAKEN BACK", "DISPUTED", "LAST"}}
			for _, c := range all {
				rows = append(rows, []string{cli.ShortNpub(c.Npub), fmt.Sprintf("%.2f", c.Score), fmt.Sprint(c.Asked), fmt.Sprint(c.Delivered),
					fmt.Sprint(c.Accepted), fmt.Sprint(c.Declined), fmt.Sprint(c.Withdrawn), fmt.Sprint(c.Disputed), age(p.now(), c.Last)})
			}
			return cli.Table(p.out, rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
