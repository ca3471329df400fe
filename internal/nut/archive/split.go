package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/hand/workdir"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/parts"
)

// splitFlags say how a task is split.
type splitFlags struct {
	dir, output string
	n           int
	withVault   bool
}

func (p program) splitCommand() *cobra.Command {
	var f splitFlags
	cmd := &cobra.Command{
		Use:   "split",
		Short: "Split a task into parts that can be done at the same time",
		Long: `Split a task into parts that can be done at the same time, each a directory of
its own: <dir>-part-1, <dir>-part-2 and so on. Acceptance criteria, checklist
items and test scripts are dealt out one after the other; context and files are
in every part.

Each part names the task as its parent_id. The reward and hidden tests stay with
the whole, and so do credentials, unless --with-vault gives them to every part.
What the parts deliver is put together again with '` + p.Hint("merge") + `'.`,
		Example: p.Examples("split --dir my-task -n 3", "split --dir my-task -n 2 -o parts --with-vault"),
		Args:    cli.NoArgs(),
	}
	host.DirFlag(cmd.Flags(), &f.dir)
	cmd.Flags().IntVarP(&f.n, "parts", "n", 2, "how many parts")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "the directory to make them in (default: the one that --dir is in)")
	cmd.Flags().BoolVar(&f.withVault, "with-vault", false, "put the vault into every part")
	p.LimitFlag(cmd)
	return p.Verb(cmd, "print the parts as JSON", func(cmd *cobra.Command, _ []string) (host.Result, error) {
		made, err := p.split(cmd.Context(), f)
		if few, ok := errors.AsType[*parts.TooFewError](err); ok && few.Have < 2 {
			return nil, cli.WithHint(err, "add what is to be done: "+p.Hint("set acceptance.checklist.- 'A thing to do'"))
		} else if ok {
			return nil, cli.WithHint(err, fmt.Sprintf("make fewer parts, as in -n %d", few.Have))
		}
		if err != nil {
			return nil, err
		}
		return splitResult{Parts: made}, nil
	})
}

// splitResult lists the parts of a task.
type splitResult struct {
	Parts []splitPart `json:"parts"`
}

// splitPart is a part that was written.
type splitPart struct {
	Dir       string   `json:"dir"`
	Part      int      `json:"part"`
	ID        string   `json:"id"`
	ParentID  string   `json:"parent_id"`
	Title     string   `json:"title"`
	Criteria  []string `json:"criteria"`
	Checklist []string `json:"checklist"`
	Scripts   []string `json:"test_scripts"`
}

// Print implements host.Result.
func (s splitResult) Print(p *host.Program) error {
	for _, part := range s.Parts {
		_, err := fmt.Fprintf(p.Out, "%s: %s, %s, %s\n", cli.Clean(shownPath(part.Dir)), cli.Count(len(part.Criteria), "criterion", "criteria"),
			cli.Count(len(part.Checklist), "checklist item", "checklist items"), cli.Count(len(part.Scripts), "test script", "test scripts"))
		if err != nil {
			return err
		}
	}
	return nil
}

func (p program) split(ctx context.Context, f splitFlags) ([]splitPart, error) {
	if f.n < 2 || f.n > parts.MaxParts {
		return nil, cli.Usage(fmt.Errorf("-n %d is not between 2 and %d", f.n, parts.MaxParts))
	}
	tree, done, err := p.OpenTree(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := nutshell.ReadManifest(tree)
	if err != nil {
		return nil, err
	}
	if _, err := m.Validate(); err != nil {
		return nil, err
	}
	patterns, err := host.Ignored(tree)
	if err != nil {
		return nil, err
	}
	o := parts.SplitOptions{WithVault: f.withVault, Exclude: patterns.Match}
	all, err := parts.Split(ctx, m, tree, f.n, o, func() (string, error) { return host.NewID(p.Random) })
	if err != nil {
		return nil, err
	}
	return p.writeParts(ctx, all, m.ID(), f)
}

// writeParts writes all parts, or none.
func (p program) writeParts(ctx context.Context, all []parts.Part, parent string, f splitFlags) (made []splitPart, err error) {
	whole, err := filepath.Abs(f.dir)
	if err != nil {
		return nil, err
	}
	in := filepath.Dir(whole)
	if f.output != "" {
		in = f.output
		if err := os.MkdirAll(in, 0o755); err != nil {
			return nil, err
		}
	}
	dirs := make([]string, len(all))
	for i, part := range all {
		dirs[i] = filepath.Join(in, fmt.Sprintf("%s-part-%d", filepath.Base(whole), part.Number.Part))
		if err := refuseExisting(dirs[i]); err != nil {
			return nil, err
		}
	}
	defer func() {
		for _, part := range made {
			if err != nil {
				err = errors.Join(err, os.RemoveAll(part.Dir))
			}
		}
	}()
	for i, part := range all {
		if err := p.writeTree(ctx, part.Tree, dirs[i]); err != nil {
			return made, err
		}
		made = append(made, splitPart{
			Dir: dirs[i], Part: part.Number.Part, ID: part.ID, ParentID: parent, Title: part.Title,
			Criteria: part.Criteria, Checklist: part.Checklist, Scripts: part.Scripts,
		})
	}
	return made, nil
}

// refuseExisting returns an error if there is something at path.
func refuseExisting(path string) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return cli.WithHint(fmt.Errorf("%s: %w", path, fs.ErrExist), "remove it, or choose another place with -o")
}

// writeTree writes a tree as a directory, whole or not at all. It packs the tree first, so that what must never be packed
// is not written, and the manifest lists the files.
func (p program) writeTree(ctx context.Context, tree fs.FS, dir string) error {
	f, err := host.Unnamed()
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := nutshell.Pack(ctx, tree, f, nutshell.Options{Compression: nutshell.None, Limits: p.Limits})
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	_, err = workdir.Extract(ctx, f, info.Size, p.Limits, dir)
	return err
}

// shownPath returns a path relative to the working directory, if that is shorter.
func shownPath(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && len(rel) < len(path) {
			return rel
		}
	}
	return path
}
