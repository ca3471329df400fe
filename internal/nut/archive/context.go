package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell/brief"
)

func (p program) contextCommand() *cobra.Command {
	var o brief.Options
	var asJSON bool
	var output string
	cmd := &cobra.Command{
		Use:   "context [FILE|DIR]",
		Short: "Print a bundle as one text for an agent's context window",
		Long: `Print a bundle as one text for an agent's context window: the manifest first,
then as many files as fit, in the order requirements, architecture, references,
additional, and then by role: specification, scaffold, reference, all others.

A file that does not fit is left out whole, and smaller ones after it may still
fit. What is left out, and why, is said on standard error and at the end of the
text. Credentials, hidden tests and dot files are never shown.

The budget is --budget tokens, or the share of --window that the manifest asks
for with harness.context_budget_hint (0.35 if it does not). Tokens are counted
with the vocabulary of the encoding. On a terminal, control characters are
replaced.`,
		Example: p.Examples("context my-task.nut --budget 20000 > prompt.txt", "context my-task --window 128000 --json"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "at most one bundle or directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := p.brief(cmd.Context(), append(args, ".")[0], o)
			if err != nil {
				if small, ok := errors.AsType[*brief.BudgetError](err); ok {
					return cli.WithHint(err, fmt.Sprintf("allow more with --budget, %d at least", small.Need+small.Need/7+1))
				}
				return err
			}
			if asJSON {
				return p.WriteOutput(output, func(w io.Writer) error { return cli.PrintJSON(w, b) })
			}
			err = p.WriteOutput(output, func(w io.Writer) error {
				if cli.IsTerminal(w) {
					b.Text = cleanText(b.Text) // nothing in it may control the terminal
				}
				_, err := io.WriteString(w, b.Text)
				return err
			})
			if err != nil {
				return err
			}
			return p.printLeftOut(b)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&o.Budget, "budget", 0, "tokens at most (default: a share of the window)")
	flags.Int64Var(&o.Window, "window", brief.DefaultWindow, "tokens of the agent's whole context window")
	flags.BoolVar(&asJSON, "json", false, "print the layers and the text as JSON")
	flags.StringVarP(&output, "output", "o", "", "write to a file instead of standard output")
	p.LimitFlag(cmd)
	return cmd
}

// brief lays out a bundle or a directory, without what its .nutignore names.
func (p program) brief(ctx context.Context, path string, o brief.Options) (brief.Brief, error) {
	if o.Budget < 0 || o.Window <= 0 {
		return brief.Brief{}, cli.Usage(errors.New("--budget and --window are numbers of tokens"))
	}
	tree, done, err := p.OpenTree(ctx, path)
	if err != nil {
		return brief.Brief{}, err
	}
	defer done()
	if !host.IsFile(path) {
		patterns, err := host.Ignored(tree)
		if err != nil {
			return brief.Brief{}, err
		}
		o.Exclude = patterns.Match
	}
	b, err := brief.Layers(ctx, tree, o)
	if err != nil {
		return brief.Brief{}, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// cleanText makes a text safe for a terminal, and keeps its lines and tabs.
func cleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		clean, _ := utf8.DecodeRuneInString(cli.Clean(string(r)))
		return clean
	}, text)
}

// printLeftOut lists the files that the agent does not see.
func (p program) printLeftOut(b brief.Brief) error {
	const most = 20
	out := b.LeftOut()
	included := 0
	for _, l := range b.Layers {
		if l.Included {
			included++
		}
	}
	fmt.Fprintf(p.Err, "%d of %d tokens, %d of %d files\n", b.Used, b.Budget, included, len(b.Layers))
	for _, l := range out[:min(len(out), most)] {
		fmt.Fprintf(p.Err, "left out: %s (%s): %s\n", cli.Clean(l.Path), l.Role, l.Reason)
	}
	if len(out) > most {
		fmt.Fprintf(p.Err, "and %d more; --json lists them\n", len(out)-most)
	}
	return nil
}
