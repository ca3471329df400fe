package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) recommendCommand() *cobra.Command {
	var asked control.Recommend
	cmd := send(p, p.acting, control.RecommendProvider, &cobra.Command{
		Use:   "recommend PROVIDER",
		Short: "Publish that you recommend a provider",
		Long: `recommend publishes, under your key, that you recommend a provider's
announcement (NIP-89, kind 31989), one event for each kind of request. Your
followers can see it, and their nodes may try that provider first. Earlier
recommendations for the same kind stay.

A provider is named by its npub, also shortened as market ls shows it, its key
in hex, or a NIP-05 name.`,
		Example: "  guild market recommend npub1…\n  guild market recommend npub1… --task python --d tests",
	}, func(cmd *cobra.Command, args []string) (_ control.Recommend, _ []string, err error) {
		asked.D = givenFlag(cmd, "d")
		asked.Provider, err = resolveProvider(cmd.Context(), args[0])
		return asked, nil, err
	}, p.showRecommendations)
	f := cmd.Flags()
	f.StringVar(&asked.Task, "task", "", "only for the kind of this task")
	f.IntVar(&asked.Kind, "kind", 0, "only for this kind of request (5000 to 5999)")
	f.String("d", "", "which of its services (default: the only one that fits)")
	cli.Exclusive(cmd, "task", "kind")
	return cmd
}

func (p *program) showRecommendations(all []control.Recommendation) error {
	for _, r := range all {
		beside := ""
		if r.Others > 0 {
			beside = fmt.Sprintf(", beside %d others", r.Others)
		}
		fmt.Fprintf(p.out, "recommended  %s  %s  for kind %d%s\n", cli.Cut(cli.Clean(r.Name), 20), cli.ShortNpub(r.Npub), r.Kind, beside)
	}
	return nil
}
