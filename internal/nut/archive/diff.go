package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/diff"
)

func (p program) diffCommand() *cobra.Command {
	var stat, exitCode, compat bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show what is different between two bundles",
		Long: `Show what is different between two bundles or directories: the members of their
manifests, their files, and what is in these. If B is a delivery that answers A,
it is held against that instead: what was asked for beside what was delivered.

Of a manifest alone, FILE.json, only the members are compared.

Credentials are compared, and never shown. The exit code is 0 whether there are
differences or not. With --exit-code it is 0 if there are none, 1 if there are,
and 2 if it cannot be told.`,
		Example: p.Examples("diff old.nut new.nut", "diff my-task delivery.nut --stat"),
		Args:    cli.Arity(cobra.ExactArgs(2), "two bundles or directories"),
	}
	cmd.Flags().BoolVar(&stat, "stat", false, "print no lines of files, only which differ and by how much")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 if there are differences")
	p.LimitFlag(cmd)
	host.CompatFlag(cmd, &compat)
	p.Verb(cmd, "print the differences as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		d, err := p.diff(cmd.Context(), args[0], args[1])
		if err != nil {
			return nil, err
		}
		var result host.Result = diffResult{Diff: d, a: args[0], b: args[1], lines: !stat}
		if compat {
			result = host.Compat{Result: result, JSON: compatible(d)}
		}
		if exitCode && d.Differs() {
			return result, cli.Shown(errDiffer)
		}
		return result, nil
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if exitCode && err != nil && !errors.Is(err, errDiffer) {
			return cli.WithCode(err, 2)
		}
		return err
	}
	return cmd
}

// compatible has the members of the reference program's diff --json.
func compatible(d diff.Diff) any {
	type entry struct {
		Field string `json:"field"`
		A     string `json:"a"`
		B     string `json:"b"`
	}
	all := []entry{}
	for _, m := range d.Manifest {
		all = append(all, entry{m.Path, plain(m.Old), plain(m.New)})
	}
	for _, f := range d.Files {
		switch f.Change {
		case diff.Added:
			all = append(all, entry{"file", "(added)", f.Path})
		case diff.Removed:
			all = append(all, entry{"file", f.Path, "(removed)"})
		default:
			all = append(all, entry{"file", cmp.Or(f.OldPath, f.Path), f.Path})
		}
	}
	return all
}

// plain returns the text of a JSON string, and another value as it is written.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

var errDiffer = errors.New("the bundles differ")

func (p program) diff(ctx context.Context, a, b string) (diff.Diff, error) {
	if a == "-" && b == "-" {
		return diff.Diff{}, cli.Usage(errors.New("standard input can only be one of the bundles"))
	}
	before, excludeA, doneA, err := p.openCompared(ctx, a)
	if err != nil {
		return diff.Diff{}, err
	}
	defer doneA()
	after, excludeB, doneB, err := p.openCompared(ctx, b)
	if err != nil {
		return diff.Diff{}, err
	}
	defer doneB()
	return diff.Bundles(ctx, before, after, diff.Options{ExcludeA: excludeA, ExcludeB: excludeB})
}

// openCompared opens a bundle or a directory, and returns what of it is not compared: what no bundle would have.
func (p program) openCompared(ctx context.Context, name string) (fs.FS, func(string, bool) bool, func(), error) {
	tree, done, err := p.OpenTree(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	if host.IsFile(name) {
		return tree, nil, done, nil
	}
	patterns, err := host.Ignored(tree)
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	return tree, func(p string, isDir bool) bool { return isNeverPacked(p) || patterns.Match(p, isDir) }, done, nil
}

// isNeverPacked reports whether a path is left out of every bundle.
func isNeverPacked(p string) bool {
	switch base := strings.ToLower(path.Base(p)); base {
	case ".git", ".hg", ".svn", ".bzr", ".jj", "cvs", "_darcs":
		return true
	default:
		return p == nutshell.HiddenDir || strings.HasPrefix(base, ".env") || path.Ext(base) == ".nut"
	}
}

// diffPrinter prints differences for a person.
type diffPrinter struct {
	w      io.Writer
	colour bool
}

const (
	red, green, bold = "\x1b[31m", "\x1b[32m", "\x1b[1m"
	plainAgain       = "\x1b[0m"
)

func (d *diffPrinter) line(colour, format string, args ...any) {
	text := cleanText(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	if d.colour && colour != "" {
		text = colour + text + plainAgain
	}
	fmt.Fprintln(d.w, text)
}

func (d *diffPrinter) section(name string) {
	d.line("", "")
	d.line("", "%s", name)
}

// diffResult is a diff of two bundles that were called a and b.
type diffResult struct {
	diff.Diff
	a, b  string
	lines bool // print the lines of files too
}

// Print implements host.Result.
func (d diffResult) Print(p *host.Program) error {
	w := &strings.Builder{}
	out := &diffPrinter{w, cli.Colours(p.Out)}
	if !d.Differs() {
		out.line("", "no differences")
	} else {
		out.line(bold, "a: %s, %s", d.a, sideOf(d.A))
		out.line(bold, "b: %s, %s", d.b, sideOf(d.B))
	}
	if d.B.RequestID != "" && d.Delivery == nil && d.B.RequestID != d.A.RequestID && d.Differs() {
		out.line("", "b answers %s, not a", d.B.RequestID)
	}
	if d.Delivery != nil {
		out.delivery(d.Delivery)
	}
	if len(d.Manifest) > 0 {
		out.section(nutshell.ManifestFile)
	}
	for _, m := range d.Manifest {
		out.member(m)
	}
	if len(d.Files) > 0 {
		out.section("files")
	}
	for _, f := range d.Files {
		out.file(f)
	}
	if d.lines {
		for _, f := range d.Files {
			out.text(f)
		}
	}
	_, err := io.WriteString(p.Out, w.String())
	return err
}

// sideOf describes a bundle in a few words.
func sideOf(s diff.Side) string {
	text := s.BundleType + " " + s.ID
	if s.Title != "" {
		text += fmt.Sprintf(", %q", s.Title)
	}
	return text
}

func (d *diffPrinter) member(m diff.Member) {
	switch m.Change {
	case diff.Added:
		d.line(green, "  + %s: %s", m.Path, short(m.New))
	case diff.Removed:
		d.line(red, "  - %s: %s", m.Path, short(m.Old))
	default:
		d.line("", "  ~ %s: %s → %s", m.Path, short(m.Old), short(m.New))
	}
}

// short returns a value as it is written, cut if it is long.
func short(raw json.RawMessage) string { return cli.Cut(cli.Clean(string(raw)), 200) }

// letters mark what happened to a file, as version control does.
var letters = map[string]string{diff.Added: "A", diff.Removed: "D", diff.Changed: "M", diff.Moved: "R"}

func (d *diffPrinter) file(f diff.File) {
	name := f.Path
	if f.OldPath != "" {
		name = f.OldPath + " → " + f.Path
	}
	var facts []string
	if f.Old != nil && f.New != nil && f.Old.Hash != f.New.Hash {
		facts = append(facts, fmt.Sprintf("%d → %d bytes", f.Old.Size, f.New.Size))
	} else if f.Change != diff.Moved && (f.Old == nil || f.New == nil) {
		only := cmp.Or(f.New, f.Old)
		facts = append(facts, fmt.Sprintf("%d bytes", only.Size))
	}
	if f.Added+f.Removed > 0 {
		facts = append(facts, fmt.Sprintf("+%d −%d", f.Added, f.Removed))
	}
	if f.Old != nil && f.New != nil && f.Old.Mode != f.New.Mode {
		facts = append(facts, "mode "+f.Old.Mode+" → "+f.New.Mode)
	}
	if f.Note != "" {
		facts = append(facts, f.Note)
	}
	d.line("", "%s", strings.TrimRight(fmt.Sprintf("  %s %s  %s", letters[f.Change], name, strings.Join(facts, ", ")), " "))
}

// text prints a unified diff.
func (d *diffPrinter) text(f diff.File) {
	if f.Text == "" {
		return
	}
	d.line("", "")
	for i, line := range strings.Split(strings.TrimSuffix(f.Text, "\n"), "\n") {
		switch {
		case i < 2:
			d.line(bold, "%s", line)
		case strings.HasPrefix(line, "+"):
			d.line(green, "%s", line)
		case strings.HasPrefix(line, "-"):
			d.line(red, "%s", line)
		default:
			d.line("", "%s", line)
		}
	}
}

// delivery prints the request side by side with the delivery.
func (d *diffPrinter) delivery(v *diff.Delivery) {
	d.section(fmt.Sprintf("delivery: %s, %v %%, tests: %d passed, %d failed, %d skipped", v.Status, v.Percentage, v.Passed, v.Failed, v.Skipped))
	if len(v.Checklist) > 0 {
		d.section("checklist")
	}
	for _, a := range v.Checklist {
		switch {
		case a.Status == "":
			d.line(red, "  ✗ %s: not answered", a.Item)
		case !a.Asked:
			d.line("", "  + %s: %s (not asked for)", a.Item, a.Status)
		default:
			mark := "✗"
			if a.Status == "passed" {
				mark = "✓"
			}
			d.line("", "  %s %s: %s", mark, a.Item, a.Status)
		}
	}
	d.claims(v.Artifacts)
	if len(v.Scopes) > 0 {
		d.section("credentials")
	}
	for _, c := range v.Scopes {
		switch {
		case c.Used && !c.Offered:
			d.line(red, "  ✗ %s: used, and not one of the request's", c.Name)
		case c.Used:
			d.line("", "%s", strings.TrimRight(fmt.Sprintf("  ✓ %s: used %s", c.Name, c.At), " "))
		default:
			d.line("", "  · %s: not used", c.Name)
		}
	}
}

// claims prints the artifacts for which the result and the files disagree.
func (d *diffPrinter) claims(all []diff.ArtifactClaim) {
	said := false
	for _, a := range all {
		if a.There && a.Claimed != "" {
			continue
		}
		if !said {
			d.section("artifacts")
			said = true
		}
		if a.There {
			d.line("", "  + %s: there, and not in the result", a.Path)
		} else {
			d.line(red, "  ✗ %s: said to be %s, and not there", a.Path, a.Claimed)
		}
	}
}
