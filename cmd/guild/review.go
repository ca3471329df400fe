package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) reviewCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "review",
		Short:   "Control your public reviews of providers",
		Example: "  guild review ls\n  guild review show npub1…\n  guild review hold npub1… --because \"they object\"",
	}, p.reviewLsCommand(), p.reviewShowCommand(),
		p.reviewVerb("publish", "Publish a review of a provider now", "publish says now what a provider's work is worth, without waiting a day after\nits benchmark."),
		p.reviewVerb("hold", "Hold back reviews of a provider", "hold keeps reviews of a provider back until guild review resume."),
		p.reviewVerb("resume", "End a hold", "resume ends a hold; what became due meanwhile is published as it is then."),
		p.reviewVerb("retract", "Retract a published review", "retract asks relays to delete a review of yours (NIP-09)."))
}

func (p *program) reviewLsCommand() *cobra.Command {
	cmd := call(p, p.reading, control.Reviews, &cobra.Command{
		Use:   "ls",
		Short: "List your reviews: published, waiting and held",
		Long: `ls lists this node's public reviews of providers (kinds 2020 and 32020), and the
coming ones: a review is published a day after a benchmark, at once when trust
has moved by 0.2, and never while it is held.`,
		Example: "  guild review ls\n  guild review ls --task python --json",
	}, p.showReviews)
	cmd.Flags().String("task", "", "only this task")
	return cmd
}

func (p *program) showReviews(all []control.Review) error {
	none := "there are no reviews yet: the first comes a day after a provider's benchmark"
	return table(p, none, "TASK,NAME,PROVIDER,RATING,STATE,WHEN,WHY", func(r control.Review) []string {
		rating := "-"
		if r.Rating > 0 {
			rating = fmt.Sprintf("%.1f", r.Rating)
		}
		return []string{cli.Cut(cli.Clean(r.Task), 16), cli.Cut(cli.Clean(r.Name), 12), cli.ShortNpub(r.Npub), rating, r.State, p.when(r.At),
			cli.Cut(cli.Clean(r.Cause), 24)}
	})(all)
}

// when returns the time until or since a moment: "in 5m" or "5m".
func (p *program) when(ms int64) string {
	at := time.UnixMilli(ms)
	switch {
	case ms == 0:
		return "-"
	case at.After(p.now()):
		return "in " + age(at, p.now().UnixMilli())
	}
	return age(p.now(), ms)
}

func (p *program) reviewShowCommand() *cobra.Command {
	cmd := call(p, p.reading, control.ReviewCards, &cobra.Command{
		Use:   "show PROVIDER",
		Short: "Show reviews of a provider, yours and others'",
		Long: `show lists your own reviews beside those of others. A review by somebody else is
weighted by your trust in its author, less with age, and less without a receipt
that verifies. Others' reviews never raise trust by themselves.`,
		Example: "  guild review show npub1…\n  guild review show npub1… --task python --json",
	}, func(cards []control.ReviewCard) error {
		for _, c := range cards {
			p.showReviewCard(c)
		}
		return nil
	})
	cmd.Flags().String("task", "", "only this task")
	return cmd
}

func (p *program) showReviewCard(c control.ReviewCard) {
	fmt.Fprintf(p.out, "%s  %s  %s\n", cli.Clean(c.Name), c.Npub, cli.Clean(c.D))
	if len(c.Owners) > 0 {
		fmt.Fprintf(p.out, "  owner    %s\n", ownersText(c.Owners))
	}
	for _, r := range c.Ours {
		fmt.Fprintf(p.out, "  we say   %s: %.1f of 5, %s %s  %s\n", cli.Clean(r.Task), r.Rating, r.State, p.when(r.At), cli.Cut(cli.Clean(r.Summary), 60))
	}
	for _, about := range c.Others {
		task := cli.Clean(about.Task)
		if task == "" {
			task = "all tasks"
		}
		fmt.Fprintf(p.out, "  others   %s: ", task)
		if about.Counted == 0 {
			fmt.Fprintf(p.out, "%s, none by anybody whom you trust or follow\n", cli.Count(about.Count, "review", "reviews"))
			continue
		}
		fmt.Fprintf(p.out, "%.1f of 5 in %s that count, of %d\n", about.Rating, cli.Count(about.Counted, "review", "reviews"), about.Count)
		for _, r := range about.Reviews {
			fmt.Fprintf(p.out, "    %.1f  weight %.2f  %s  %s  %s\n", r.Rating, r.Weight, cli.ShortNpub(r.Reviewer), age(p.now(), r.At*1000), cli.Cut(cli.Clean(r.Why), 40))
		}
	}
}

// reviewVerb makes a verb that does something about the reviews of a provider.
func (p *program) reviewVerb(name, about, long string) *cobra.Command {
	var how control.ReviewAct
	cmd := send(p, p.acting, control.ChangeReview, &cobra.Command{
		Use:     name + " PROVIDER",
		Short:   about,
		Long:    long + "\n\nA provider is named by its npub, also shortened as market ls shows it, its key\nin hex, or a NIP-05 name.",
		Example: fmt.Sprintf("  guild review %s npub1…\n  guild review %s npub1… --task python", name, name),
	}, func(cmd *cobra.Command, args []string) (control.ReviewAct, []string, error) {
		how.D = givenFlag(cmd, "d")
		key, err := resolveProvider(cmd.Context(), args[0])
		return how, []string{key, name}, err
	}, p.showReviews)
	f := cmd.Flags()
	f.StringVar(&how.Task, "task", "", "which task (default: the only one)")
	f.String("d", "", "which of its services (default: the only one)")
	f.StringVar(&how.Reason, "because", "", "the reason, which is kept")
	if name == "retract" {
		f.StringVar(&how.ID, "id", "", "which review (default: the latest)")
	}
	return cmd
}
