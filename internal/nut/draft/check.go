package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/credential"
	"guild/internal/nut/host"
	"guild/nutshell/check"
	"guild/nutshell/ignore"
	"guild/nutshell/vault"
)

// checkFlags is what check was asked to do.
type checkFlags struct {
	dir              string
	json, write, fix bool
}

func (p program) checkCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [DIR|FILE.nut]",
		Short: "Say what a bundle still lacks before an agent can start",
		Long: `Look at the manifest and the files beside it, and say what is there, what is
missing, and what would help. Nothing is changed without --write or --fix.

Exit code 0: ready. 1: something is missing, or there is no bundle.`,
		Example: "  " + p.Hint("check") + "\n  " + p.Hint("check my-task --fix") + "\n  " + p.Hint("check --dir my-task --json"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one directory or bundle at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && cmd.Flags().Changed("dir") {
				return cli.WithHint(cli.Usage(errors.New("the directory is given twice")), "leave out --dir")
			}
			if len(args) == 1 {
				f.dir = args[0]
			}
			return p.check(cmd, f)
		},
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.BoolVar(&f.json, "json", false, "print it as JSON")
	flags.BoolVar(&f.write, "write", false, "write the answer into completeness of the manifest")
	flags.BoolVar(&f.fix, "fix", false, "go through what is missing, with questions; write files and the answer")
	cli.Exclusive(cmd, "json", "fix")
	return cmd
}

func (p program) check(cmd *cobra.Command, f checkFlags) error {
	packed := host.IsFile(f.dir)
	if packed && (f.write || f.fix) {
		return cli.WithHint(cli.Usage(fmt.Errorf("%s is packed: only a directory can be changed", f.dir)), "unpack it with '"+p.Hint("unpack "+f.dir)+"'")
	}
	if f.fix {
		if err := p.fix(cmd.Context(), f.dir); err != nil {
			return err
		}
	}
	tree, done, err := p.OpenTree(cmd.Context(), f.dir)
	if err != nil {
		return err
	}
	defer done()
	report, err := p.completeness(tree, packed)
	if err != nil {
		return fmt.Errorf("%s: %w", f.dir, err)
	}
	if f.write || f.fix {
		if err := writeCompleteness(f.dir, report); err != nil {
			return err
		}
	}
	if err := Print(p.Out, report, f.json); err != nil || report.Ready() {
		return err
	}
	return p.incomplete(f, packed, report)
}

// completeness checks a tree the way that every verb does which wants a bundle to be ready.
func (p program) completeness(tree fs.FS, packed bool) (check.Report, error) {
	o, err := p.checkOptions(tree, packed)
	if err != nil {
		return check.Report{}, err
	}
	return check.Tree(tree, o)
}

func (p program) checkOptions(tree fs.FS, packed bool) (check.Options, error) {
	o := check.Options{Now: p.Now(), Program: p.Name, Packed: packed, Vault: p.vaultState}
	if packed {
		return o, nil
	}
	raw, err := fs.ReadFile(tree, ignore.File)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	patterns, err := ignore.Parse(raw)
	if err != nil {
		return o, err
	}
	o.Exclude = func(path string) bool { return patterns.Match(path, false) }
	return o, nil
}

// vaultState looks into vaults that the person's own age key opens. It asks for nothing, and reaches no server: a
// vault that needs more stays closed.
func (p program) vaultState(sealed []byte, form string) (check.VaultState, error) {
	if form != vault.Age {
		return check.VaultState{}, nil
	}
	silent := *p.Program
	silent.In, silent.Out, silent.Err = strings.NewReader(""), io.Discard, io.Discard
	silent.AskSecret = func(string) ([]byte, error) { return nil, cli.ErrNoTerminal }
	v, err := credential.Open(context.Background(), &silent, form, sealed, nil)
	if errors.Is(err, vault.ErrTampered) || errors.Is(err, vault.ErrNotSealed) {
		return check.VaultState{}, err
	}
	if err != nil {
		return check.VaultState{}, nil
	}
	return check.State(v, p.Now()), nil
}

// incomplete is the error of a bundle that is not ready. What is missing has been printed.
func (p program) incomplete(f checkFlags, packed bool, r check.Report) error {
	err := fmt.Errorf("%s is %s: %d to fix", f.dir, r.Status, r.Count(check.Missing))
	switch {
	case f.json:
		return cli.Shown(err)
	case packed:
		return cli.WithHint(err, "unpack it with '"+p.Hint("unpack "+f.dir)+"', and fix it there")
	case f.dir == ".":
		return cli.WithHint(err, "'"+p.Hint("check --fix")+"' goes through it with you")
	}
	return cli.WithHint(err, "the commands are for within "+f.dir+"; '"+p.Within(f.dir, "check --fix")+"' goes through it with you")
}
