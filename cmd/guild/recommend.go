package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

type recommendOptions struct {
	Task   string
	Kind   int // NIP-90 kind of requests
	D      string
	GivenD bool // D was given, possibly empty
	JSON   bool
}

func (p *program) recommendCommand() *cobra.Command {
	var o recommendOptions
	cmd := &cobra.Command{
		Use:   "recommend PROVIDER",
		Short: "Tell everybody that you recommend a provider",
		Long: `recommend publishes, under your key, that you recommend a provider's announcement
(NIP-89, kind 31989), one event for each kind of request. Who follows you can see
it, and their nodes may try that provider first. What you recommended before for
the same kind stays.

A provider is named by its npub, also shortened as market ls shows it, its key in
hex, or a NIP-05 name.`,
		Example: "  guild market recommend npub1…\n  guild market recommend npub1… --task python --d tests",
		Args:    cli.OneArg("a provider"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.GivenD = cmd.Flags().Changed("d")
			return p.runRecommend(cmd.Context(), args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Task, "task", "", "only for the kind of this task")
	f.IntVar(&o.Kind, "kind", 0, "only for this kind of request (5000 to 5999)")
	f.StringVar(&o.D, "d", "", "which of its services (default: the only one that fits)")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	cli.Exclusive(cmd, "task", "kind")
	return cmd
}

func (p *program) runRecommend(ctx context.Context, who string, o recommendOptions) error {
	key, err := resolveProvider(ctx, who)
	if err != nil {
		return cli.Usage(err)
	}
	client, own, err := p.anyNode(ctx)
	if err != nil {
		return err
	}
	asked := control.Recommend{Provider: key, Task: o.Task, Kind: o.Kind}
	if o.GivenD {
		asked.D = &o.D
	}
	all, err := onceHeard(ctx, own != nil, func() ([]control.Recommendation, error) { return client.Recommend(ctx, asked) })
	if err == nil {
		err = p.showRecommendations(all, o.JSON)
	}
	if own == nil {
		return err
	}
	return errors.Join(err, own())
}

func (p *program) showRecommendations(all []control.Recommendation, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.out, all)
	}
	for _, r := range all {
		beside := ""
		if r.Others > 0 {
			beside = fmt.Sprintf(", beside %d others", r.Others)
		}
		fmt.Fprintf(p.out, "recommended  %s  %s  for kind %d%s\n", cli.Cut(cli.Clean(r.Name), 20), cli.ShortNpub(r.Npub), r.Kind, beside)
	}
	return nil
}
