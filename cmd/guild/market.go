package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

type marketOptions struct {
	Task string // only providers of this task
	JSON bool
}

func (p *program) marketCommand() *cobra.Command {
	var o marketOptions
	ls := &cobra.Command{
		Use:     "ls",
		Short:   "List known providers, what they offer and how far they are trusted",
		Example: "  guild market ls\n  guild market ls --task python",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runMarketLs(cmd.Context(), o) },
	}
	ls.Flags().StringVar(&o.Task, "task", "", "only those who offer this task")
	ls.Flags().BoolVar(&o.JSON, "json", false, "print JSON")
	return cli.Group(&cobra.Command{
		Use:     "market",
		Short:   "Look at who offers what",
		Example: "  guild market ls",
	}, ls)
}

func (p *program) runMarketLs(ctx context.Context, o marketOptions) error {
	client, done, err := p.reader(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := client.Providers(ctx, o.Task)
	if err != nil {
		return err
	}
	if o.JSON {
		return cli.PrintJSON(p.out, all)
	}
	rows := [][]string{{"NAME", "PROVIDER", "STATE", "SEEN", "TASKS", "TRUST"}}
	for _, v := range all {
		rows = append(rows, []string{
			cli.Cut(cli.Clean(v.Name), 14), shortNpub(v.Npub), v.State, age(p.now(), v.Seen*1000),
			cli.Cut(cli.Clean(strings.Join(v.Tasks, ",")), 18), describeTrust(v),
		})
	}
	return cli.Table(p.out, rows)
}

// describeTrust is the trust of each task that the provider has been judged on.
func describeTrust(v control.Provider) string {
	var parts []string
	for _, task := range slices.Sorted(maps.Keys(v.Trust)) {
		parts = append(parts, fmt.Sprintf("%.2f", v.Trust[task]))
	}
	if len(parts) == 0 {
		return "new"
	}
	return strings.Join(parts, " ")
}
