package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) walletArbiterCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "judge",
		Short: "Let a third node rule on escrow, or be that node",
		Long: `A customer can name a third node as the judge of an escrow: guild hire --judge.
Providers accept it by its npub (judges under [work] in the configuration), and
any two of the three keys open the lock. Then the customer gets the rest back
only when a day has passed after its verdict. Until then the provider can ask
the judge, or when no verdict comes within an hour of the deadline. The judge
has two more days, and its ruling gives each of them its part.`,
		Example: "  guild wallet judge announce\n  guild wallet judge cases\n  guild wallet judge rule 5f21ab03 300test --because \"9 of 10 tests pass\"",
	}, p.arbiterAnnounceCommand(), p.arbiterAskCommand(), p.arbiterCasesCommand(), p.arbiterRuleCommand())
}

func (p *program) arbiterAnnounceCommand() *cobra.Command {
	var off bool
	cmd := send(p, p.acting, control.AnnounceArbiter, &cobra.Command{
		Use:   "announce",
		Short: "Offer to rule on the escrow of others",
		Long: `announce publishes the key with which this node signs its rulings; it is derived
from the wallet's words. From then on customers can name your npub.`,
		Example: "  guild wallet judge announce\n  guild wallet judge announce --off",
	}, func(*cobra.Command, []string) (control.ArbiterOffer, []string, error) {
		return control.ArbiterOffer{Off: off}, nil, nil
	}, func(o control.ArbiterOffer) error {
		if o.Off {
			_, err := fmt.Fprintln(p.out, "taken back  what is locked with your key you can still rule on")
			return err
		}
		_, err := fmt.Fprintf(p.out, "announced  customers name you by guild hire --judge %s\n", o.Npub)
		return err
	})
	cmd.Flags().BoolVar(&off, "off", false, "take the offer back")
	return cmd
}

func (p *program) arbiterAskCommand() *cobra.Command {
	var because string
	cmd := send(p, p.acting, control.AskArbiter, &cobra.Command{
		Use:   "ask REQUEST",
		Args:  cli.OneArg("a request, as guild wallet owed shows it"),
		Short: "Ask the judge of an escrow to rule on what you were paid",
		Long: `ask sends the judge what is needed to give you more of what the customer has
locked. guild work object asks the customer to judge again; do that first. Send
the judge your delivery as well: guild work show REQUEST --delivery.`,
		Example: "  guild wallet judge ask 5f21ab03 --because \"the tests want Python 3.12\"",
	}, func(_ *cobra.Command, args []string) (control.PaymentObjection, []string, error) {
		if because == "" {
			return control.PaymentObjection{}, nil, errors.New("--because is missing: say what is wrong with the payment")
		}
		return control.PaymentObjection{Request: args[0], Reason: because}, nil, nil
	}, func(o control.Payment) error {
		_, err := fmt.Fprintf(p.out, "asked  the judge has until %s\n", p.until(o))
		return err
	})
	cmd.Flags().StringVar(&because, "because", "", "what is wrong with the payment (required)")
	return cmd
}

func (p *program) arbiterCasesCommand() *cobra.Command {
	return call(p, p.acting, control.Cases, &cobra.Command{
		Use:   "cases",
		Short: "What you are asked to rule on",
		Long: `cases lists the objections whose locktime is not over. Have the customer send
you the bundle with its hidden tests, and the provider its delivery: guild judge
run judges that again.`,
		Example: "  guild wallet judge cases --json",
	}, table(p, "nobody asks you to rule", "CASE,PROVIDER,CUSTOMER,LOCKED,RELEASED,UNTIL,RULING,REASON", func(c control.Case) []string {
		ruling := "-"
		if c.Ruling != nil {
			ruling = fmt.Sprintf("%d %s", c.Ruling.Amount, unitName(c.Unit))
		}
		return []string{
			short(c.Case), cli.ShortNpub(c.Provider), cli.ShortNpub(c.Customer), fmt.Sprintf("%d %s", c.Amount, unitName(c.Unit)), fmt.Sprintf("%d %s", c.Released, unitName(c.Unit)),
			p.until(control.Payment{Until: c.Until}), ruling, cli.Cut(cli.Clean(c.Reason), 60),
		}
	}))
}

func (p *program) arbiterRuleCommand() *cobra.Command {
	var because string
	cmd := send(p, p.acting, control.RuleCase, &cobra.Command{
		Use:   "rule CASE AMOUNT",
		Args:  cli.Arity(cobra.ExactArgs(2), "a case of guild wallet judge cases, and what the provider gets"),
		Short: "Rule on a case: what the provider gets of what is locked",
		Long: `rule signs AMOUNT for the provider, the rest for the customer, and tells both.
It is final. What the customer has released already, the provider keeps. The
amount must be a sum of the first locked coins, as 0, all of it and each share
of the order are. Between them are steps; an error names the nearest.`,
		Example: "  guild wallet judge rule 5f21ab03 500test --because \"all tests pass here\"\n  guild wallet judge rule 5f21ab03 0test",
	}, func(_ *cobra.Command, args []string) (control.Ruling, []string, error) {
		want, err := amountArg(args[1], "")
		return control.Ruling{Case: args[0], Amount: want.Amount, Unit: want.Unit, Reason: because}, nil, err
	}, func(c control.Case) error {
		_, err := fmt.Fprintf(p.out, "ruled  the provider gets %d of %d %s\n", c.Ruling.Amount, c.Amount, unitName(c.Unit))
		return err
	})
	cmd.Flags().StringVar(&because, "because", "", "the reason, which both are told")
	return cmd
}
