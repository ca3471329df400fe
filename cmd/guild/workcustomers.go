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
		Short: "List customers with their scores",
		Long: `customers lists the customers that asked this node for work. SCORE is 0.5 for a
stranger; it rises with accepted deliveries (ACCEPTED of those made) and prices
paid (PAID of those locked), and falls with requests that were taken back,
verdicts that you object to, prices that were locked and never released, and
asking too often. Below work.prepaid_below a customer pays before the work,
below 0.3 it may have one request at a time, below 0.1 none.
Customers of work.allow are not scored.`,
		Example: "  guild work customers\n  guild work customers --json",
	}, table(p, "nobody has asked this node for work yet", "CUSTOMER,SCORE,ASKED,ACCEPTED,REFUSED,WITHDREW,DISPUTED,PAID,AGO",
		func(c control.KnownCustomer) []string {
			return []string{cli.ShortNpub(c.Npub), fmt.Sprintf("%.2f", c.Score), fmt.Sprint(c.Asked), outOf(c.Accepted, c.Delivered),
				fmt.Sprint(c.Declined), fmt.Sprint(c.Withdrawn), fmt.Sprint(c.Disputed), outOf(c.Paid, c.Paid+c.Unpaid), age(p.now(), c.Last)}
		}))
}

// outOf writes a part of a number of things, as in "3/4".
func outOf(part, all int) string { return fmt.Sprintf("%d/%d", part, all) }
