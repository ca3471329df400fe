package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) workJudgedCommand() *cobra.Command {
	return call(p, p.reading, control.Judgements, &cobra.Command{
		Use:   "judged",
		Short: "List the verdicts of customers on your deliveries",
		Long: `judged lists the verdicts that customers sent you in private messages, the
latest first. Object to one with guild work object.`,
		Example: "  guild work judged\n  guild work judged --json",
	}, p.showJudgements)
}

func (p *program) showJudgements(all []control.Judgement) error {
	const head = "REQUEST,CUSTOMER,TASK,OUTCOME,SCORE,AGE,OBJECT UNTIL,OBJECTION"
	return table(p, "no customer has said anything of a delivery yet", head, func(j control.Judgement) []string {
		outcome := j.Outcome
		if j.Before != "" {
			outcome = j.Before + " → " + outcome
		}
		return []string{short(j.Request), cli.ShortNpub(j.Customer), cli.Cut(cli.Clean(j.Task), 14), outcome, fmt.Sprintf("%.2f", j.Score),
			age(p.now(), j.At), p.when(j.Until * 1000), j.State}
	})(all)
}

func (p *program) workObjectCommand() *cobra.Command {
	var because string
	cmd := send(p, p.running, control.ObjectTo, &cobra.Command{
		Use:   "object REQUEST",
		Short: "Object to a customer's verdict on your delivery",
		Long: `object answers the customer's verdict in a private message. A customer that runs
guild judges the delivery again, once, if the objection comes within a day of
the verdict, and publishes no review of it until then. REQUEST is the beginning
of a request's id, as guild work judged shows it.`,
		Example: "  guild work object 5f21c9aa --because \"the test wants Python 3.12\"",
		Args:    cli.OneArg("one request"),
	}, func(_ *cobra.Command, args []string) (control.Reason, []string, error) {
		if because == "" {
			return control.Reason{}, nil, errors.New("--because is missing: say what is wrong with the verdict")
		}
		return control.Reason{Reason: because}, args, nil
	}, func(j control.Judgement) error { return p.showJudgements([]control.Judgement{j}) })
	cmd.Flags().StringVar(&because, "because", "", "what is wrong with the verdict (required)")
	return cmd
}

func (p *program) jobDisputeCommand() *cobra.Command {
	var because, attempt string
	cmd := send(p, p.acting, control.DisputeJob, &cobra.Command{
		Use:   "dispute JOB",
		Short: "Have a delivery judged again",
		Long: `dispute has a delivery judged again, within a day of its verdict. A different
verdict corrects trust, the provider's state and its public review, and has a
receipt of its own that names the first. The ending of the job does not change.`,
		Example: "  guild job dispute 5f21c9aa --because \"the machine was overloaded\"",
	}, func(_ *cobra.Command, args []string) (control.Reason, []string, error) {
		if because == "" {
			return control.Reason{}, nil, errors.New("--because is missing: say what is doubtful, for whoever reads the history")
		}
		return control.Reason{Reason: because, Attempt: attempt}, args, nil
	}, func(job control.Job) error {
		_, err := fmt.Fprintf(p.out, "%s is judged again; guild job show %s tells how it comes out\n", short(job.ID), short(job.ID))
		return err
	})
	cmd.Flags().StringVar(&because, "because", "", "what is doubtful (required)")
	cmd.Flags().StringVar(&attempt, "attempt", "", "which attempt (default: the last one that has a verdict)")
	return cmd
}
