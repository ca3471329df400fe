package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/credential"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/check"
	"guild/nutshell/vault"
)

// checkFlags say what check does.
type checkFlags struct {
	dir                string
	write, fix, compat bool
}

func (p program) checkCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [DIR|FILE.nut]",
		Short: "Say what a bundle still lacks before an agent can start",
		Long: `Look at the manifest and the files beside it, and say what is there, what is
missing, and what would help. Nothing is changed without --write or --fix.

Exit code 0: ready. 1: something is missing, or there is no bundle.`,
		Example: p.Examples("check", "check my-task --fix", "check --dir my-task --json"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one directory or bundle at most"),
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.BoolVar(&f.write, "write", false, "write the answer into completeness of the manifest")
	flags.BoolVar(&f.fix, "fix", false, "go through what is missing, with questions; write files and the answer")
	p.LimitFlag(cmd)
	host.CompatFlag(cmd, &f.compat)
	p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		var err error
		if f.dir, err = host.DirOf(cmd, args, f.dir); err != nil {
			return nil, err
		}
		return p.check(cmd.Context(), f)
	})
	cli.Exclusive(cmd, "json", "fix")
	return cmd
}

func (p program) check(ctx context.Context, f checkFlags) (host.Result, error) {
	packed := host.IsFile(f.dir)
	if packed && (f.write || f.fix) {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is packed: only a directory can be changed", f.dir)), "unpack it with '"+p.Hint("unpack "+f.dir)+"'")
	}
	if f.fix {
		if err := p.fix(ctx, f.dir); err != nil {
			return nil, err
		}
	}
	tree, done, err := p.OpenTree(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	defer done()
	report, err := p.completeness(tree, packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.dir, err)
	}
	if f.write || f.fix {
		if err := writeCompleteness(f.dir, report); err != nil {
			return nil, err
		}
	}
	var result host.Result = newReport(report)
	if f.compat {
		result = host.Compat{Result: result, JSON: compat(report)}
	}
	if report.Ready() {
		return result, nil
	}
	err = fmt.Errorf("%s is %s: %d to fix", f.dir, report.Status, report.Count(check.Missing))
	switch {
	case packed:
		return result, cli.WithHint(err, "unpack it with '"+p.Hint("unpack "+f.dir)+"', and fix it there")
	case f.dir == ".":
		return result, cli.WithHint(err, "'"+p.Hint("check --fix")+"' goes through it with you")
	}
	return result, cli.WithHint(err, "the commands are for within "+f.dir+"; '"+p.Within(f.dir, "check --fix")+"' goes through it with you")
}

// compat has the members of the reference program's check --json: its missing are texts, as its warnings are.
func compat(r check.Report) any {
	missing := []string{}
	for _, i := range r.Items {
		if i.Mark == check.Missing {
			missing = append(missing, i.Text)
		}
	}
	return struct {
		Status   string   `json:"status"`
		Missing  []string `json:"missing"`
		Warnings []string `json:"warnings"`
	}{r.Status, missing, r.Warnings()}
}

// writeCompleteness writes a report into the manifest of a directory, and changes nothing else in it.
func writeCompleteness(dir string, r check.Report) error {
	return host.RewriteManifest(dir, func(m *nutshell.Manifest) error { return setCompleteness(m, r) })
}

func setCompleteness(m *nutshell.Manifest, r check.Report) error {
	was := m.Completeness()
	if was.Status == r.Status && slices.Equal(was.Missing, r.Missing()) && slices.Equal(was.Warnings, r.Warnings()) {
		return nil
	}
	return errors.Join(
		m.Set("completeness.status", r.Status),
		m.Set("completeness.missing", r.Missing()),
		m.Set("completeness.warnings", r.Warnings()),
	)
}

// Complete writes what a tree lacks into its manifest, which is to be packed. The same tree must give the same bundle on
// every machine: so it leaves out what depends on the time, on the keys of this machine and on the programs on it.
func Complete(p *host.Program, tree fs.FS, m *nutshell.Manifest) error {
	exclude, err := excluded(tree)
	if err != nil {
		return err
	}
	r, err := check.Tree(tree, check.Options{Exclude: exclude})
	if err != nil {
		return err
	}
	if p.Judged != nil && !r.Delivery {
		program{p}.judged(tree, &r, false)
	}
	return setCompleteness(m, r)
}

// completeness returns what a tree lacks.
func (p program) completeness(tree fs.FS, packed bool) (check.Report, error) {
	o, err := p.checkOptions(tree, packed)
	if err != nil {
		return check.Report{}, err
	}
	r, err := check.Tree(tree, o)
	if err == nil && p.Judged != nil && !r.Delivery {
		p.judged(tree, &r, true)
	}
	return r, err
}

// judged adds to a report why a delivery could not be judged, with tools also what this machine lacks for it. What is
// missing, and that there are no criteria, it says already.
func (p program) judged(tree fs.FS, r *check.Report, tools bool) {
	at := len(r.Items) // after the last line about the acceptance
	for i, item := range r.Items {
		if item.Mark == check.Missing || item.Field == "acceptance.test_scripts" {
			return
		}
		if section, _, _ := strings.Cut(item.Field, "."); section == "acceptance" {
			at = i + 1
		}
	}
	lacks, fault := p.Judged(tree)
	var more []check.Item
	if fault != nil {
		more = append(more, check.Item{Field: "acceptance.criteria_file", Mark: check.Missing,
			Text: "acceptance: no delivery could be judged — " + fault.Error(), Fix: "Correct the criteria: '" + p.Hint("schema criteria") + "' has each kind"})
		if r.Status == check.Ready {
			r.Status = check.Incomplete
		}
	}
	if !tools {
		lacks = nil
	}
	for _, lack := range lacks {
		more = append(more, check.Item{Field: "acceptance", Mark: check.Warning, Text: "acceptance: this machine cannot judge it — " + lack})
	}
	r.Items = slices.Insert(r.Items, at, more...)
}

func (p program) checkOptions(tree fs.FS, packed bool) (check.Options, error) {
	o := check.Options{Now: p.Now(), Program: p.Name, Packed: packed, Vault: p.vaultState}
	if packed {
		return o, nil
	}
	var err error
	o.Exclude, err = excluded(tree)
	return o, err
}

// excluded returns what packing a directory leaves out.
func excluded(tree fs.FS) (func(path string) bool, error) {
	patterns, err := host.Ignored(tree)
	if err != nil {
		return nil, err
	}
	return func(path string) bool { return patterns.Match(path, false) }, nil
}

// vaultState looks into a vault that the person's own age key opens. It asks for nothing and contacts no server; a vault
// that needs more stays closed.
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
