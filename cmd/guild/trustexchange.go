package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/step/trust/exchange"
)

// decimal reads a number as people write it.
func decimal(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

func (p *program) trustExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Export trust for another guild",
		Long: `export writes trust with its vector clocks, signed with your key, to standard
output or a file. A guild that imports it takes over what is new to it. If both
have learned something independently, the lower trust counts.`,
		Example: "  guild trust export team.json\n  guild trust export | ssh other guild trust import -",
		Args:    cli.Arity(cobra.MaximumNArgs(1), "at most one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runTrustExport(cmd.Context(), append(args, "-")[0])
		},
	}
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}

func (p *program) runTrustExport(ctx context.Context, to string) error {
	return p.acting(ctx, func(client *control.Client, _ bool) error {
		document, err := control.ExportTrust.Call(ctx, client)
		if err != nil {
			return err
		}
		if to == "-" {
			_, err = fmt.Fprintf(p.out, "%s\n", document)
			return err
		}
		if err := durable.WriteBytes(to, append(document, '\n')); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		fmt.Fprintf(p.err, "wrote %s, %s\n", to, cli.Size(int64(len(document))))
		return nil
	})
}

type trustImportOptions struct {
	From     string
	Unsigned bool
}

func (p *program) trustImportCommand() *cobra.Command {
	var o trustImportOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import trust of another guild",
		Long: `import reads the output of another guild's trust export; - is standard input.
Nothing is trusted more for it than a first benchmark would earn, unless that
guild knew all that this one had learned. Providers that you removed stay
removed.

A document that was changed, that names another guild than the one that signed
it, that was imported before, or that is older than an imported one is refused.
Anybody can sign a document of their own: --from says whose it must be.`,
		Example: "  guild trust import team.json --from npub1…",
		Args:    cli.OneArg("one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runTrustImport(cmd.Context(), args[0], o, cli.AsJSON(cmd))
		},
	}
	cmd.Flags().StringVar(&o.From, "from", "", "npub, hex or NIP-05 name of the guild that must have signed it")
	cmd.Flags().BoolVar(&o.Unsigned, "unsigned", false, "import also a document without a signature")
	cmd.MarkFlagsMutuallyExclusive("from", "unsigned")
	cli.JSONFlag(cmd, "print JSON")
	return cmd
}

func (p *program) runTrustImport(ctx context.Context, from string, o trustImportOptions, asJSON bool) error {
	document, err := p.readBounded(from, exchange.MaxDocument)
	if err != nil {
		return cli.Usage(fmt.Errorf("import: %w", err))
	}
	if o.From != "" {
		if o.From, err = resolveProvider(ctx, o.From); err != nil {
			return cli.Usage(fmt.Errorf("--from: %w", err))
		}
	}
	unsigned := ""
	if o.Unsigned {
		unsigned = "true"
	}
	return p.acting(ctx, func(client *control.Client, _ bool) error {
		changed, err := control.ImportTrust.Call(ctx, client, bytes.NewReader(document), o.From, unsigned)
		if err != nil {
			return err
		}
		if changed.Guild == "" {
			fmt.Fprintln(p.err, "not signed: nothing proves which guild wrote it")
		} else {
			fmt.Fprintf(p.err, "signed by %s, %s\n", changed.Guild, time.UnixMilli(changed.Signed).UTC().Format(time.RFC3339))
		}
		for _, why := range changed.Skipped {
			fmt.Fprintln(p.err, "left as it was:", cli.Clean(why))
		}
		return printed(p, asJSON, changed, p.showChange)
	})
}

// readBounded reads a file, or standard input if it is named -.
func (p *program) readBounded(name string, most int64) ([]byte, error) {
	in, err := p.input(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s is larger than %s", name, cli.Size(most))
	}
	return b, err
}

func (p *program) showChange(c control.MatrixChange) error {
	_, err := fmt.Fprintf(p.out, "%s changed; the matrix is %s\n", cli.Count(c.Entries, "entry", "entries"), c.Hash)
	return err
}

func (p *program) trustRollbackCommand() *cobra.Command {
	var to, task string
	cmd := send(p, p.acting, control.RollBack, &cobra.Command{
		Use:   "rollback --to WHEN",
		Short: "Restore trust as it was at an earlier time",
		Long: `rollback restores all trust, or that of one task, as it was at a time: a
duration ago, as 2h, or a moment, as 2026-11-20T06:00:00Z. Later changes stay in
the history and can be restored in turn.`,
		Example: "  guild trust rollback --to 2h\n  guild trust rollback --to 2026-11-20T06:00:00Z --task python",
	}, func(*cobra.Command, []string) (control.Rollback, []string, error) {
		at, err := p.moment(to)
		if err != nil {
			return control.Rollback{}, nil, fmt.Errorf("--to %w", err)
		}
		return control.Rollback{To: at.UnixMilli(), Task: task}, nil, nil
	}, p.showChange)
	cmd.Flags().StringVar(&to, "to", "", "when: a duration ago, or a moment (required)")
	cmd.Flags().StringVar(&task, "task", "", "only this task")
	return cmd
}

// moment reads a duration before now, or a time.
func (p *program) moment(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return p.now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("%.40q: want a duration ago as 2h, or a moment as 2026-11-20T06:00:00Z", text)
	case t.After(p.now()):
		return time.Time{}, fmt.Errorf("%.40q: that is to come", text)
	}
	return t, nil
}

func (p *program) trustPolicyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Print the policy that the node decides by",
		Long: `policy prints, as canonical JSON, every number that providers are chosen and
learned about by. Its hash stands in each change of trust and in each receipt,
as policy_bundle_id. [trust] policy in the configuration chooses another one.`,
		Example: "  guild trust policy | jq .routing",
		Args:    cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.reading(cmd.Context(), func(client *control.Client, _ bool) error {
				document, err := control.Policy.Call(cmd.Context(), client)
				if err != nil {
					return err
				}
				return cli.PrintJSON(p.out, json.RawMessage(document))
			})
		},
	}
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}
