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
	"guild/internal/durable"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/parts"
)

// mergeFlags is what merge was asked to do.
type mergeFlags struct {
	output, request, prefer string
	asJSON                  bool
}

func (p program) mergeCommand() *cobra.Command {
	var f mergeFlags
	cmd := &cobra.Command{
		Use:   "merge DIR|FILE...",
		Short: "Put the deliveries of the parts of a task together into one",
		Long: `Put what was delivered for the parts of a task together into one delivery of the
whole: delivery bundles, or the directories of the parts with a delivery/ in them.

The result has the worst status of all parts. Tests are added up; checklists,
checkpoints, decisions, issues and credentials used are put one after the other.
Two different files of the same name are an error that names both, unless --prefer
says whose is taken. With a name that ends in .nut, -o makes a bundle.`,
		Example: "  " + p.Hint("merge my-task-part-1 my-task-part-2 -o delivery") + "\n" +
			"  " + p.Hint("merge one.nut two.nut --request my-task -o delivery.nut"),
		Args: cli.Arity(cobra.MinimumNArgs(1), "the deliveries"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, output, err := p.merge(cmd.Context(), args, f)
			if err != nil {
				return p.mergeHint(err)
			}
			return p.printMerged(m, output, f.asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "the directory to make (default: <title>-delivery)")
	flags.StringVar(&f.request, "request", "", "the whole: its bundle, directory or id, if the parts do not name it")
	flags.StringVar(&f.prefer, "prefer", "", "whose file is taken if two differ: first or last")
	flags.BoolVar(&f.asJSON, "json", false, "print what was merged as JSON")
	_ = cmd.RegisterFlagCompletionFunc("prefer", cobra.FixedCompletions([]string{parts.PreferFirst, parts.PreferLast}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (p program) merge(ctx context.Context, args []string, f mergeFlags) (*parts.Merged, string, error) {
	if f.prefer != parts.PreferNone && f.prefer != parts.PreferFirst && f.prefer != parts.PreferLast {
		return nil, "", cli.Usage(fmt.Errorf("--prefer %.40q is neither first nor last", f.prefer))
	}
	if len(args) > parts.MaxParts {
		return nil, "", cli.Usage(fmt.Errorf("%d deliveries are more than %d", len(args), parts.MaxParts))
	}
	o := parts.MergeOptions{Prefer: f.prefer, Now: p.Now()}
	var err error
	if o.Parent, err = p.wholeID(ctx, f.request); err != nil {
		return nil, "", err
	}
	if o.ID, err = host.NewID(p.Random); err != nil {
		return nil, "", err
	}
	inputs := make([]parts.Input, len(args))
	for i, name := range args {
		tree, done, err := p.OpenTree(ctx, name)
		if err != nil {
			return nil, "", err
		}
		defer done()
		inputs[i] = parts.Input{Name: name, Tree: tree}
	}
	m, err := parts.Merge(ctx, inputs, o)
	if err != nil {
		return nil, "", err
	}
	output, err := mergedOutput(m, f.output)
	if err != nil {
		return nil, "", err
	}
	return m, output, writeMerged(ctx, m, output)
}

// wholeID is the id of the task that was split, from a bundle, a directory or the id itself.
func (p program) wholeID(ctx context.Context, request string) (string, error) {
	if _, err := os.Stat(request); request == "" || err != nil && strings.HasPrefix(request, "nut-") && !strings.HasSuffix(request, ".nut") {
		return request, nil
	}
	tree, done, err := p.OpenTree(ctx, request)
	if err != nil {
		return "", err
	}
	defer done()
	m, err := nutshell.ReadManifest(tree)
	if err != nil {
		return "", fmt.Errorf("%s: %w", request, err)
	}
	return m.ID(), nil
}

// mergedOutput is where the merged delivery goes. Nothing may be there.
func mergedOutput(m *parts.Merged, output string) (string, error) {
	if output == "" {
		manifest, err := nutshell.ReadManifest(m.Tree)
		if err != nil {
			return "", err
		}
		output = host.Slug(manifest.Task().Title, "merged") + "-delivery"
	}
	return output, refuseExisting(output)
}

func writeMerged(ctx context.Context, m *parts.Merged, output string) error {
	if !strings.HasSuffix(output, ".nut") {
		return writeTree(ctx, m.Tree, output)
	}
	err := durable.Write(output, func(w io.Writer) error {
		_, err := nutshell.Pack(ctx, m.Tree, w, nutshell.Options{})
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", output, err)
	}
	return os.Chmod(output, 0o644)
}

func (p program) mergeHint(err error) error {
	_, conflict := errors.AsType[*parts.ConflictError](err)
	switch {
	case conflict:
		return cli.WithHint(err, "take one side with --prefer first or --prefer last, or rename one of them")
	case errors.Is(err, parts.ErrNoResult):
		return cli.WithHint(err, "merge takes what was delivered; '"+p.Hint("deliver --help")+"' says how to make it")
	case errors.Is(err, parts.ErrNoParent):
		return cli.WithHint(err, "name it with --request")
	}
	return err
}

// mergedJSON is what merge prints for a program.
type mergedJSON struct {
	Output     string   `json:"output"`
	ID         string   `json:"id"`
	RequestID  string   `json:"request_id"`
	Status     string   `json:"status"`
	Percentage float64  `json:"completion_percentage"`
	Parts      int      `json:"parts"`
	Missing    []int    `json:"missing_parts"`
	Replaced   []string `json:"replaced"`
}

func (p program) printMerged(m *parts.Merged, output string, asJSON bool) error {
	r := m.Result
	if asJSON {
		return cli.PrintJSON(p.Out, mergedJSON{output, r.ID, m.RequestID, r.Status, r.CompletionPercentage, len(m.Parts),
			append([]int{}, m.Missing...), append([]string{}, m.Replaced...)})
	}
	a := r.AcceptanceResults
	fmt.Fprintf(p.Out, "%s: %s, %v %%, %s for %s\n", cli.Clean(output), r.Status, r.CompletionPercentage,
		cli.Count(len(m.Parts), "part", "parts"), cli.Clean(m.RequestID))
	fmt.Fprintf(p.Out, "tests: %d passed, %d failed, %d skipped; %s\n", a.TestsPassed, a.TestsFailed, a.TestsSkipped,
		cli.Count(len(a.Checklist), "checklist item", "checklist items"))
	for _, part := range m.Missing {
		fmt.Fprintf(p.Err, "warning: part %d is missing\n", part)
	}
	for _, name := range m.Replaced {
		fmt.Fprintf(p.Err, "warning: %s differs, and one was taken\n", cli.Clean(name))
	}
	return nil
}
