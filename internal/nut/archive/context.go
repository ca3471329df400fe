package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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
		Long: `Print a bundle as one text for an agent's context window: the manifest first, then
as many files as fit, in the order requirements, architecture, references,
additional, and then by role: specification, scaffold, reference, all others.

A file that does not fit is left out whole, and smaller ones after it may still
fit. What is left out, and why, is said on standard error and at the end of the
text. Credentials, hidden tests and dot files are never shown.

The budget is --budget tokens, or the share of --window that the manifest asks for
with harness.context_budget_hint (0.35 if it does not). Tokens are counted with the
vocabulary of the encoding. On a terminal, control characters are replaced.`,
		Example: "  " + p.Hint("context my-task.nut --budget 20000 > prompt.txt") + "\n  " + p.Hint("context my-task --window 128000 --json"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "at most one bundle or directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := p.brief(cmd.Context(), argument(args, "."), o)
			if err != nil {
				return p.briefHint(err)
			}
			if asJSON {
				return p.WriteOutput(output, func(w io.Writer) error { return cli.PrintJSON(w, b) })
			}
			if err := p.WriteOutput(output, func(w io.Writer) error { return printText(w, b.Text) }); err != nil {
				return err
			}
			return p.printLeftOut(b)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&o.Budget, "budget", 0, "tokens at most (default: a share of the window)")
	flags.Int64Var(&o.Window, "window", brief.DefaultWindow, "tokens of the agent's whole context window")
	flags.StringVar(&o.Encoding, "encoding", brief.O200k, "how tokens are counted: "+brief.O200k+" or "+brief.CL100k)
	flags.BoolVar(&asJSON, "json", false, "print the layers and the text as JSON")
	flags.StringVarP(&output, "output", "o", "", "write to a file instead of standard output")
	_ = cmd.RegisterFlagCompletionFunc("encoding", cobra.FixedCompletions([]string{brief.O200k, brief.CL100k}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// argument is the only argument, or what it is without one.
func argument(args []string, without string) string {
	if len(args) == 0 {
		return without
	}
	return args[0]
}

// brief lays out a bundle or a directory. What the .nutignore of a directory names is not part of the bundle.
func (p program) brief(ctx context.Context, path string, o brief.Options) (brief.Brief, error) {
	if o.Budget < 0 || o.Window <= 0 {
		return brief.Brief{}, cli.Usage(errors.New("--budget and --window are numbers of tokens"))
	}
	if _, err := brief.NewCounter(o.Encoding); err != nil {
		return brief.Brief{}, cli.Usage(err)
	}
	tree, done, err := p.OpenTree(ctx, path)
	if err != nil {
		return brief.Brief{}, err
	}
	defer done()
	if info, err := os.Stat(path); err == nil && info.IsDir() {
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

func (p program) briefHint(err error) error {
	if small, ok := errors.AsType[*brief.BudgetError](err); ok {
		return cli.WithHint(err, fmt.Sprintf("allow more with --budget, %d at least", small.Need+small.Need/7+1))
	}
	return err
}

// printText writes text of many lines. On a terminal nothing in it can drive that.
func printText(w io.Writer, text string) error {
	if cli.IsTerminal(w) {
		return printClean(w, text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// printClean writes text of many lines, each safe for a terminal.
func printClean(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		newline := ""
		if end {
			newline = "\n"
		}
		if _, err := io.WriteString(w, cleanTabs(line)+newline); err != nil {
			return err
		}
	}
	return nil
}

// cleanTabs makes a line safe for a terminal, and keeps its tabs.
func cleanTabs(line string) string {
	parts := strings.Split(line, "\t")
	for i := range parts {
		parts[i] = cli.Clean(parts[i])
	}
	return strings.Join(parts, "\t")
}

// printLeftOut tells the person what the agent does not see.
func (p program) printLeftOut(b brief.Brief) error {
	const most = 20
	out := b.LeftOut()
	fmt.Fprintf(p.Err, "%d of %d tokens, %d of %d files\n", b.Used, b.Budget, countIncluded(b.Layers), len(b.Layers))
	for _, l := range out[:min(len(out), most)] {
		fmt.Fprintf(p.Err, "left out: %s (%s): %s\n", cli.Clean(l.Path), l.Role, l.Reason)
	}
	if len(out) > most {
		fmt.Fprintf(p.Err, "and %d more; --json lists them\n", len(out)-most)
	}
	return nil
}

func countIncluded(layers []brief.Layer) (n int) {
	for _, l := range layers {
		if l.Included {
			n++
		}
	}
	return n
}
