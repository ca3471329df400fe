package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) workCustomersCommand() *cobra.Command {
	return call(p, p.reading, control.Customers, &cobra.Command{
		Use:   "customers",
		Short: "List who asked for work, and how they are scored",
		Long: `customers lists those who asked this node for work. SCORE is 0.5 for a stranger; it
rises with what was delivered and accepted, and falls with requests that were taken
back, verdicts that you object to, and asking too often. Below 0.3 a customer has
one request at a time, below 0.1 none. Whom work.allow lists is not scored.`,
		Example: "  guild work customers\n  guild work customers --json",
	}, table(p, "nobody has asked this node for work yet", "CUSTOMER,SCORE,ASKED,DELIVERED,ACCEPTED,DECLINED,TAKEN BACK,DISPUTED,LAST",
		func(c control.KnownCustomer) []string {
			return []string{cli.ShortNpub(c.Npub), fmt.Sprintf("%.2f", c.Score), fmt.Sprint(c.Asked), fmt.Sprint(c.Delivered),
				fmt.Sprint(c.Accepted), fmt.Sprint(c.Declined), fmt.Sprint(c.Withdrawn), fmt.Sprint(c.Disputed), age(p.now(), c.Last)}
		}))
}
