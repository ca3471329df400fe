package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) workJudgedCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "judged",
		Short: "List what customers said of your deliveries",
		Long: `judged lists the verdicts that customers sent you in private messages, the latest
first. guild work object says that one is wrong.`,
		Example: "  guild work judged\n  guild work judged --json",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, done, err := p.reader(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			all, err := client.Judgements(cmd.Context())
			if err != nil {
				return err
			}
			return p.showJudgements(all, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) showJudgements(all []control.Judgement, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.out, all)
	}
	if len(all) == 0 {
		fmt.Fprintln(p.err, "no customer has said anything of a delivery yet")
		return nil
	}
	rows := [][]string{{"REQUEST", "CUSTOMER", "TASK", "OUTCOME", "SCORE", "AGE", "OBJECT UNTIL", "OBJECTION"}}
	for _, j := range all {
		outcome := j.Outcome
		if j.Before != "" {
			outcome = j.Before + " → " + outcome
		}
		rows = append(rows, []string{short(j.Request), cli.ShortNpub(j.Customer), cli.Cut(cli.Clean(j.Task), 14), outcome, fmt.Sprintf("%.2f", j.Score),
			age(p.now(), j.At), p.when(j.Until * 1000), j.State})
	}
	return cli.Table(p.out, rows)
}

func (p *program) workObjectCommand() *cobra.Command {
	var because string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "object REQUEST",
		Short: "Tell a customer that its verdict on your delivery is wrong",
		Long: `object answers the customer's verdict in a private message. A customer that runs
guild judges the delivery again, once, if the objection comes within a day of the
verdict, and says nothing of it in public until then. REQUEST is the beginning of a
request's id, as guild work judged shows it.`,
		Example: "  guild work object 5f21c9aa --because \"the test wants Python 3.12\"",
		Args:    cli.OneArg("one request"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if because == "" {
				return cli.Usage(errors.New("--because is missing: say what is wrong with the verdict"))
			}
			client, err := p.client()
			if err != nil {
				return err
			}
			j, err := client.Object(cmd.Context(), args[0], because)
			if err != nil {
				return err
			}
			return p.showJudgements([]control.Judgement{j}, asJSON)
		},
	}
	cmd.Flags().StringVar(&because, "because", "", "what is wrong with the verdict (required)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) jobDisputeCommand() *cobra.Command {
	var because, attempt string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "dispute JOB",
		Short: "Have the verdict on a delivery given again",
		Long: `dispute has a delivery judged again, within a day of its verdict. A verdict that
comes out otherwise corrects trust, the provider's state and what is said of it in
public, and has a receipt of its own that names the first. What the job came to
stays.`,
		Example:           "  guild job dispute 5f21c9aa --because \"the machine was overloaded\"",
		Args:              cli.OneArg("one job id"),
		ValidArgsFunction: p.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if because == "" {
				return cli.Usage(errors.New("--because is missing: say what is doubtful, for whoever reads the history"))
			}
			return p.acting(cmd.Context(), func(client *control.Client, _ bool) error {
				job, err := client.Dispute(cmd.Context(), args[0], attempt, because)
				if err != nil {
					return err
				}
				if asJSON {
					return cli.PrintJSON(p.out, job)
				}
				fmt.Fprintf(p.out, "%s is judged again; guild job show %s tells how it comes out\n", short(job.ID), short(job.ID))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&because, "because", "", "what is doubtful (required)")
	cmd.Flags().StringVar(&attempt, "attempt", "", "which attempt (default: the last one that has a verdict)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
