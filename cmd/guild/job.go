package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/oa"
)

func (p *program) jobCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "job",
		Short:   "Look at jobs, watch or cancel them, take over the work",
		Example: "  guild job ls\n  guild job watch 5f21c9aa\n  guild job diff 5f21c9aa\n  guild job apply 5f21c9aa",
	}, p.jobLsCommand(),
		call(p, p.reading, control.OneJob, jobVerb("show", "Show one job with its attempts and verdicts"), p.showJob),
		p.jobWatchCommand(),
		call(p, p.running, control.CancelJob, cancelVerb(),
			func(job control.Job) error {
				_, err := fmt.Fprintf(p.out, "job %s: %s\n", short(job.ID), cli.Clean(summary(job)))
				return err
			}),
		p.jobDiffCommand(), p.jobApplyCommand(), p.jobFetchCommand(), p.jobOpenCommand(), p.jobResultCommand(), p.jobDisputeCommand(), p.jobShredCommand())
}

// jobVerb describes a verb that takes one job.
func jobVerb(name, about string) *cobra.Command {
	return &cobra.Command{
		Use:     name + " JOB",
		Short:   about,
		Long:    about + ".\n\nJOB is a job's id or the beginning of one.",
		Example: fmt.Sprintf("  guild job %s 5f21c9aa\n  guild job %s 5f21c9aa --json", name, name),
	}
}

func cancelVerb() *cobra.Command {
	cmd := jobVerb("cancel", "Cancel a job; late results are not judged")
	cmd.Long += `

A job in quarantine is closed as it is: its remaining entries are kept, and
nothing is done for it again. 'guild journal release' lets it go on instead.`
	return cmd
}

func (p *program) jobLsCommand() *cobra.Command {
	return call(p, p.reading, control.Jobs, &cobra.Command{
		Use:     "ls",
		Short:   "List jobs, the newest first",
		Long:    "ls lists jobs, the newest first. guild job show says why one waits.",
		Example: "  guild job ls\n  guild job ls --json | jq -r '.[] | select(.ending == \"\") | .id'",
	}, table(p, "", "JOB,AGE,ENDING,TRIES,RECEIPT,TASK,TITLE", func(j control.Job) []string {
		receipt := ""
		for _, a := range j.Attempts {
			if receipt == "" || a.Verdict != nil { // a receipt of money alone can be younger
				receipt = cmp.Or(a.Receipt, receipt)
			}
		}
		return []string{short(j.ID), age(p.now(), j.Opened), endingShown(j), fmt.Sprint(len(j.Attempts)), cli.Cut(receipt, 10),
			cli.Cut(cli.Clean(j.Task), 14), cli.Cut(cli.Clean(j.Title), 22)}
	}))
}

func (p *program) jobWatchCommand() *cobra.Command {
	cmd := jobVerb("watch", "Follow a job until it ends; exit codes as of guild hire")
	p.setArgs(cmd)
	cli.JSONFlag(cmd, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.running(cmd.Context(), func(client *control.Client, _ bool) error {
			job, err := control.OneJob.Call(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			_, err = p.watch(cmd.Context(), client, job, cli.AsJSON(cmd))
			return err
		})
	}
	return cmd
}

func endingWord(e guild.Ending) string {
	if e == guild.Open {
		return "open"
	}
	return string(e)
}

// endingShown returns the ending of a job, and whether it is in quarantine or shredded, or waits for something that job show names.
func endingShown(j control.Job) string {
	switch {
	case j.Quarantined:
		return endingWord(j.Ending) + " (quarantined)"
	case j.Waits != "":
		return endingWord(j.Ending) + ", waits"
	case j.Shredded != 0:
		return endingWord(j.Ending) + ", shredded"
	}
	return endingWord(j.Ending)
}

func (p *program) showJob(job control.Job) error {
	fmt.Fprintf(p.out, "job      %s\ntask     %s\ntitle    %s\nopened   %s\nending   %s\nbundle   %s, %d bytes\n",
		job.ID, cli.Clean(job.Task), cli.Clean(job.Title), time.UnixMilli(job.Opened).Format(time.DateTime),
		cli.Clean(summary(job)), job.Bundle, job.Size)
	if n := job.Criticality.Replicas(); n > 1 {
		fmt.Fprintf(p.out, "level    %s: %d at once, %s\n", job.Criticality, n, decision(job))
	}
	if job.Quarantined {
		fmt.Fprintf(p.out, "held     quarantined: entries of it are lost, and nothing is done for it\n         until '%s job.%s'; 'guild job cancel %s' closes it\n", journal.Releasing, job.ID, short(job.ID))
	}
	if text := shreddedWords(job); text != "" {
		fmt.Fprintf(p.out, "words    %s\n", text)
	}
	if job.Waits != "" {
		fmt.Fprintf(p.out, "waits    %s\n", cli.Clean(job.Waits))
	}
	for _, a := range job.Attempts {
		p.showAttempt(job, a)
	}
	return nil
}

// decision returns how a job with several deliveries is decided.
func decision(job control.Job) string {
	if how := oa.Adjudication(job.Compare); how.Together() {
		return string(how) + " decides"
	}
	return fmt.Sprintf("%d must agree", job.Criticality.Quorum())
}

func (p *program) showAttempt(job control.Job, a control.Attempt) {
	fmt.Fprintf(p.out, "\nattempt  %s  %s\nasked    %s %s\n", short(a.ID), cli.Clean(a.State), cli.Clean(a.Name), cli.ShortNpub(a.Npub))
	if place := placeOf(job, a); place != "" {
		fmt.Fprintf(p.out, "counts   %s\n", place)
	}
	if a.Reason != "" {
		fmt.Fprintf(p.out, "reason   %s\n", cli.Clean(a.Reason))
	}
	if price := priceShown(a); price != "" {
		fmt.Fprintf(p.out, "price    %s\n", price)
	}
	if a.Money != nil {
		fmt.Fprintf(p.out, "money    %s\n", moneyText(*a.Money))
	}
	if n := a.NudgesLeftOut; n > 0 {
		fmt.Fprintf(p.out, "nudges   %d left out by the provider: it decides whose apply\n", n)
	}
	if v := a.Verdict; v != nil {
		fmt.Fprintf(p.out, "verdict  %s, score %s, %d of %d passed, %s in %s\n", v.Outcome, v.Score, v.Passed, v.Expected, v.Strength, v.Tier)
		if v.Strengths != nil {
			fmt.Fprintf(p.out, "rests on %s\n", restsOn(*v.Strengths))
		}
		for _, t := range v.Tests {
			fault := ""
			if t.Blame != "" && t.Blame != guild.BlameDelivery {
				fault = fmt.Sprintf(" [at fault: %s]", t.Blame)
			}
			fmt.Fprintf(p.out, "  %s %s %s%s\n", testMark(t.State), cli.Clean(t.ID), cli.Cut(cli.Clean(t.Message), 100), fault)
		}
		for _, b := range v.Breaches {
			fmt.Fprintf(p.out, "  ✗ violation: %s %s\n", cli.Clean(b.Syscall), cli.Clean(b.Detail))
		}
	}
	if a.TrustFrom != nil && a.TrustTo != nil {
		fmt.Fprintf(p.out, "trust    %.2f → %.2f\n", *a.TrustFrom, *a.TrustTo)
	}
	if a.Receipt != "" {
		fmt.Fprintf(p.out, "receipt  %s\n", cli.Clean(a.Receipt))
	}
}

// priceShown returns what the provider of an attempt asked for, "" if that is not known: a quote in play money that was never locked.
func priceShown(a control.Attempt) string {
	switch {
	case a.Money != nil && a.Money.Held > 0:
		return amountOf(a.Money.Held, a.Money.Asset)
	case a.Price > 0:
		return guild.Msat(a.Price).String()
	}
	return ""
}

// placeOf says how the delivery of an attempt compares with the others of its job.
func placeOf(job control.Job, a control.Attempt) string {
	if job.Criticality.Replicas() == 1 {
		return ""
	}
	var words []string
	if a.ID == job.Chosen {
		words = append(words, "this delivery is the job's")
	}
	switch {
	case a.Agrees == "":
	case a.Agrees != a.ID:
		words = append(words, "agrees with "+short(a.Agrees))
	case !slices.ContainsFunc(job.Attempts, func(b control.Attempt) bool { return b.Agrees == a.ID && b.ID != a.ID }):
		words = append(words, "no other agrees")
	}
	return strings.Join(words, "; ")
}

func testMark(state string) string {
	switch state {
	case guild.TestPassed:
		return "✓"
	case guild.TestSkipped:
		return "⚠"
	}
	return "✗"
}

// complete completes the first argument in a shell with the words of a list, of the running node or of a stopped one.
func complete[T any](p *program, list control.Resource[[]T], word func(T) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (words []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), time.Second)
		defer cancel()
		_ = p.reading(ctx, func(client *control.Client, _ bool) error { // completion has no place for an error
			all, err := list.Call(ctx, client)
			for _, one := range all {
				words = append(words, word(one))
			}
			return err
		})
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeJobs offers the ids of jobs.
func (p *program) completeJobs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return complete(p, control.Jobs, func(j control.Job) string {
		return short(j.ID) + "\t" + endingWord(j.Ending) + " " + cli.Cut(cli.Clean(j.Title), 40)
	})(cmd, args, begun)
}
