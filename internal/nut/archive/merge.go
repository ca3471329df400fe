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
	"guild/nutshell"
	"guild/nutshell/parts"
)

// mergeFlags say what merge makes of the deliveries.
type mergeFlags struct{ output, request, prefer string }

func (p program) mergeCommand() *cobra.Command {
	var f mergeFlags
	cmd := &cobra.Command{
		Use:   "merge DIR|FILE...",
		Short: "Put the deliveries of the parts of a task together into one",
		Long: `Put what was delivered for the parts of a task together into one delivery of the
whole: delivery bundles, or the directories of the parts with a delivery/ in
them.

The result has the worst status of all parts. Tests are added up; checklists,
checkpoints, decisions, issues and credentials used are put one after the other.
Two different files of the same name are an error that names both, unless
--prefer says whose is taken. With a name that ends in .nut, -o makes a bundle.`,
		Example: p.Examples("merge my-task-part-1 my-task-part-2 -o delivery", "merge one.nut two.nut --request my-task -o delivery.nut"),
		Args:    cli.Arity(cobra.MinimumNArgs(1), "the deliveries"),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "the directory to make (default: <title>-delivery)")
	flags.StringVar(&f.request, "request", "", "the whole: its bundle, directory or id, if the parts do not name it")
	flags.StringVar(&f.prefer, "prefer", "", "whose file is taken if two differ: first or last")
	cli.Choices(cmd, "prefer", parts.PreferFirst, parts.PreferLast)
	p.LimitFlag(cmd)
	return p.Verb(cmd, "print what was merged as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		result, err := p.merge(cmd.Context(), args, f)
		_, conflict := errors.AsType[*parts.ConflictError](err)
		switch {
		case conflict:
			err = cli.WithHint(err, "take one side with --prefer first or --prefer last, or rename one of them")
		case errors.Is(err, parts.ErrNoResult):
			err = cli.WithHint(err, "merge takes what was delivered; '"+p.Hint("deliver --help")+"' says how to make it")
		case errors.Is(err, parts.ErrNoParent):
			err = cli.WithHint(err, "name it with --request")
		}
		return result, err
	})
}

func (p program) merge(ctx context.Context, args []string, f mergeFlags) (host.Result, error) {
	if f.prefer != parts.PreferNone && f.prefer != parts.PreferFirst && f.prefer != parts.PreferLast {
		return nil, cli.Usage(fmt.Errorf("--prefer %.40q is neither first nor last", f.prefer))
	}
	if len(args) > parts.MaxParts {
		return nil, cli.Usage(fmt.Errorf("%d deliveries are more than %d", len(args), parts.MaxParts))
	}
	o := parts.MergeOptions{Prefer: f.prefer, Now: p.Now()}
	var err error
	if o.Parent, err = p.wholeID(f.request); err != nil {
		return nil, err
	}
	if o.ID, err = host.NewID(p.Random); err != nil {
		return nil, err
	}
	inputs := make([]parts.Input, len(args))
	for i, name := range args {
		tree, done, err := p.OpenTree(ctx, name)
		if err != nil {
			return nil, err
		}
		defer done()
		inputs[i] = parts.Input{Name: name, Tree: tree}
	}
	m, err := parts.Merge(ctx, inputs, o)
	if err != nil {
		return nil, err
	}
	if f.output == "" {
		manifest, err := nutshell.ReadManifest(m.Tree)
		if err != nil {
			return nil, err
		}
		f.output = host.Slug(manifest.Task().Title, "merged") + "-delivery"
	}
	if err := refuseExisting(f.output); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(f.output, ".nut") {
		err = p.writeTree(ctx, m.Tree, f.output)
	} else if err = p.WriteOutput(f.output, func(w io.Writer) error {
		_, err := nutshell.Pack(ctx, m.Tree, w, nutshell.Options{Limits: p.Limits})
		return err
	}); err != nil {
		err = fmt.Errorf("%s: %w", f.output, err)
	}
	if err != nil {
		return nil, err
	}
	r := m.Result
	return mergeResult{
		Output: f.output, ID: r.ID, RequestID: m.RequestID, Status: r.Status, Percentage: r.CompletionPercentage, Parts: len(m.Parts),
		Missing: append([]int{}, m.Missing...), Replaced: append([]string{}, m.Replaced...), acceptance: r.AcceptanceResults,
	}, nil
}

// wholeID returns the id of the task that was split, from a bundle, a directory or the id itself.
func (p program) wholeID(request string) (string, error) {
	if _, err := os.Stat(request); request == "" || err != nil && strings.HasPrefix(request, "nut-") && !strings.HasSuffix(request, ".nut") {
		return request, nil
	}
	m, err := p.ManifestOf(request)
	if err != nil {
		return "", err
	}
	return m.ID(), nil
}

// mergeResult describes the merged delivery.
type mergeResult struct {
	Output     string   `json:"output"`
	ID         string   `json:"id"`
	RequestID  string   `json:"request_id"`
	Status     string   `json:"status"`
	Percentage float64  `json:"completion_percentage"`
	Parts      int      `json:"parts"`
	Missing    []int    `json:"missing_parts"`
	Replaced   []string `json:"replaced"`

	acceptance nutshell.AcceptanceResults
}

// Print implements host.Result.
func (m mergeResult) Print(p *host.Program) error {
	a := m.acceptance
	fmt.Fprintf(p.Out, "%s: %s, %v %%, %s for %s\n", cli.Clean(m.Output), m.Status, m.Percentage, cli.Count(m.Parts, "part", "parts"), cli.Clean(m.RequestID))
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
