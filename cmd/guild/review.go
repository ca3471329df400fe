package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) reviewCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "review",
		Short:   "See and steer what is said in public of providers' work",
		Example: "  guild review ls\n  guild review show npub1…\n  guild review hold npub1… --because \"they object\"",
	}, p.reviewLsCommand(), p.reviewShowCommand(),
		p.reviewVerb("publish", "Publish a review of a provider now", "publish says now what a provider's work is worth, without waiting a day after its\nbenchmark."),
		p.reviewVerb("hold", "Publish nothing of a provider for now", "hold keeps reviews of a provider back until guild review resume."),
		p.reviewVerb("resume", "End a hold", "resume ends a hold; what became due meanwhile is published as it is then."),
		p.reviewVerb("retract", "Take a published review back", "retract asks relays to delete a review of yours (NIP-09)."))
}

func (p *program) reviewLsCommand() *cobra.Command {
	var task string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List your reviews: published, waiting and held",
		Long: `ls lists what this node says of providers in public (kinds 2020 and 32020), and what
it is going to say: a review is published a day after a benchmark, at once when
trust has moved by 0.2, and never while it is held.`,
		Example: "  guild review ls\n  guild review ls --task python --json",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, done, err := p.reader(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			all, err := client.Reviews(cmd.Context(), task)
			if err != nil {
				return err
			}
			return p.showReviews(all, asJSON)
		},
	}
	cmd.Flags().StringVar(&task, "task", "", "only this task")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) showReviews(all []control.Review, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.out, all)
	}
	if len(all) == 0 {
		fmt.Fprintln(p.err, "there are no reviews yet: the first comes a day after a provider's benchmark")
		return nil
	}
	rows := [][]string{{"TASK", "NAME", "PROVIDER", "RATING", "STATE", "WHEN", "WHY"}}
	for _, r := range all {
		rating := "-"
		if r.Rating > 0 {
			rating = fmt.Sprintf("%.1f", r.Rating)
		}
		rows = append(rows, []string{
			cli.Cut(cli.Clean(r.Task), 16), cli.Cut(cli.Clean(r.Name), 12), cli.ShortNpub(r.Npub), rating, r.State, p.when(r.At),
			cli.Cut(cli.Clean(r.Cause), 24),
		})
	}
	return cli.Table(p.out, rows)
}

// when is a moment that has passed or is still to come.
func (p *program) when(ms int64) string {
	switch at := time.UnixMilli(ms); {
	case ms == 0:
		return "-"
	case at.After(p.now()):
		return "in " + age(at, p.now().UnixMilli())
	}
	return age(p.now(), ms)
}

func (p *program) reviewShowCommand() *cobra.Command {
	var task string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show PROVIDER",
		Short: "Show what you and others say of a provider",
		Long: `show puts your own reviews beside those of others. A review by somebody else counts
as far as you trust its author, less the older it is, and less without a receipt
that verifies. Others' reviews never raise trust by themselves.`,
		Example: "  guild review show npub1…\n  guild review show npub1… --task python --json",
		Args:    cli.OneArg("a provider"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runReviewShow(cmd.Context(), args[0], task, asJSON)
		},
	}
	cmd.Flags().StringVar(&task, "task", "", "only this task")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) runReviewShow(ctx context.Context, who, task string, asJSON bool) error {
	client, done, err := p.reader(ctx)
	if err != nil {
		return err
	}
	defer done()
	key, err := namedProvider(ctx, who)
	if err != nil {
		return cli.Usage(err)
	}
	cards, err := client.ReviewCards(ctx, key, task)
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(p.out, cards)
	}
	for _, c := range cards {
		p.showReviewCard(c)
	}
	return nil
}

func (p *program) showReviewCard(c control.ReviewCard) {
	fmt.Fprintf(p.out, "%s  %s  %s\n", cli.Clean(c.Name), c.Npub, cli.Clean(c.D))
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

type reviewOptions struct {
	Task, D, ID, Because string
	GivenD, JSON         bool
}

// reviewVerb makes a verb that does something about the reviews of a provider.
func (p *program) reviewVerb(name, about, long string) *cobra.Command {
	var o reviewOptions
	cmd := &cobra.Command{
		Use:     name + " PROVIDER",
		Short:   about,
		Long:    long + "\n\nA provider is named by its npub, also shortened as market ls shows it, its key in\nhex, or a NIP-05 name.",
		Example: fmt.Sprintf("  guild review %s npub1…\n  guild review %s npub1… --task python", name, name),
		Args:    cli.OneArg("a provider"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.GivenD = cmd.Flags().Changed("d")
			return p.runReviewVerb(cmd.Context(), name, args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Task, "task", "", "which task (default: the only one)")
	f.StringVar(&o.D, "d", "", "which of its services (default: the only one)")
	f.StringVar(&o.Because, "because", "", "the reason, which is kept")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	if name == "retract" {
		f.StringVar(&o.ID, "id", "", "which review (default: the latest)")
	}
	return cmd
}

func (p *program) runReviewVerb(ctx context.Context, act, who string, o reviewOptions) error {
	key, err := resolveProvider(ctx, who)
	if err != nil {
		return cli.Usage(err)
	}
	how := control.ReviewAct{Task: o.Task, ID: o.ID, Reason: o.Because}
	if o.GivenD {
		how.D = &o.D
	}
	return p.acting(ctx, func(client *control.Client, fresh bool) error {
		all, err := onceHeard(ctx, fresh, func() ([]control.Review, error) { return client.Review(ctx, key, act, how) })
		if err != nil {
			return err
		}
		return p.showReviews(all, o.JSON)
	})
}
