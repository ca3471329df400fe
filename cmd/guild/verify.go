package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/verify"
	"guild/verify/page"
)

// maxArchive is the largest archive that is read, in bytes.
const maxArchive = 256 << 20

func (p *program) verifyCommand() *cobra.Command {
	var written, python string // "" for none
	var o verifying
	cmd := p.local(&cobra.Command{
		Use:   "verify FILE…|-",
		Short: "Check the evidence of jobs, offline",
		Long: `verify checks the output of guild receipt export: an archive, the directory that
it was unpacked to, or the receipt.json in it; with - an archive from standard
input. It needs no node, no network and no home.

The first sentence says what is proven, and the last line how much, as a grade:
claim (somebody signed a receipt), two-party (customer and provider signed),
judged (the verdict follows from its tests), sealed (the customer's journal had
it), witnessed (the provider countersigned that journal). Every check has a
line: ✓ it holds, ✗ it does not, and why, – there is nothing to check.
docs/VERIFY.md describes the format and the checks, so that
anybody can write another program that does the same.

It exits 0 only if each FILE is an export, no check failed, and the grade is at
least that of --require. Private files may be left out, which lowers the grade.
With --rejudge the tests are run again, as guild judge run does, and must give
the same verdict; hidden ones need an export made with --reveal.

With --page it checks nothing, and writes the verifier as a web page: in a
browser, it reads an export that is dropped on it and shows the same lines,
without guild and without a network. With --python it writes verify.py instead,
a second verifier, which is one Python program. - is standard output.`,
		Example: "  guild receipt export 5f21c9aa -o job.zip && guild verify job.zip\n" +
			"  guild verify job.zip --require sealed --rejudge\n" +
			"  guild verify job.zip --json | jq '.[0].grade'\n" +
			"  guild verify --page verify.html\n" +
			"  guild verify --python verify.py && python3 verify.py job.zip",
		Args: func(cmd *cobra.Command, args []string) error {
			writes := written != "" || python != ""
			if writes && len(args) > 0 {
				return cli.WithHint(cli.Usage(errors.New("give either --page or --python, or what is to be checked")),
					"--page FILE writes the verifier to FILE; guild verify EXPORT checks")
			} else if writes {
				return nil
			}
			return cli.Arity(cobra.MinimumNArgs(1), "at least one export: an archive, a directory or its receipt.json")(cmd, args)
		},
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		switch {
		case written != "":
			return nil, p.writeVerifyPage(written)
		case python != "":
			return nil, p.writeVerifier(python, page.Python(), "program")
		}
		return p.runVerify(cmd.Context(), args, o)
	})
	cmd.Flags().StringVar(&o.require, "require", string(verify.Claim), "grade that each export must have: claim, two-party, judged, sealed or witnessed")
	cmd.Flags().BoolVar(&o.rejudge, "rejudge", false, "run the tests again, in a sandbox of this machine")
	cli.Choices(cmd, "require", string(verify.Claim), string(verify.TwoParty), string(verify.Judged), string(verify.Sealed), string(verify.Witnessed))
	cmd.Flags().StringVar(&written, "page", "", "write the verifier to this file, as a web page")
	cmd.Flags().StringVar(&python, "python", "", "write the second verifier to this file, a Python program")
	cli.Exclusive(cmd, "json", "page")
	cli.Exclusive(cmd, "json", "python")
	cli.Exclusive(cmd, "page", "python")
	return cmd
}

// verifying are the flags of verify that say what is enough.
type verifying struct {
	require string
	rejudge bool
}

// verified is the report of verify on one export.
type verified struct {
	File  string    `json:"file"`
	OK    bool      `json:"ok"`              // no check failed, the grade is enough, and the tests gave the same verdict again
	Error string    `json:"error,omitempty"` // why there is no report: it is no export, or cannot be read
	Again *rejudged `json:"rejudged,omitempty"`

	Required verify.Grade `json:"required,omitempty"` // the grade of --require, if this one is not enough
	verify.Report
}

var errNotVerified = errors.New("something does not hold")

const exportHint = "guild receipt export writes what can be verified"

func (p *program) runVerify(ctx context.Context, names []string, o verifying) (*cli.Result, error) {
	if !slices.Contains(verify.Grades()[1:], verify.Grade(o.require)) {
		return nil, cli.Usage(fmt.Errorf("--require %.40q: want claim, two-party, judged, sealed or witnessed", o.require))
	}
	all := make([]verified, len(names))
	good := true
	var none error // why the only file is not an export
	for i, name := range names {
		files, report, err := p.verifyOne(name)
		if err != nil && len(names) == 1 {
			none = cli.WithHint(err, cmp.Or(cli.HintOf(err), exportHint))
		}
		one := verified{File: name, OK: err == nil && report.OK() && report.Grade.AtLeast(verify.Grade(o.require)), Report: report}
		switch {
		case err != nil: // the others are reported all the same
			one.Error, one.Summary, one.Grade, one.Checks = err.Error(), "", verify.Nothing, []verify.Check{}
		case o.rejudge && report.OK():
			again, err := p.rejudge(ctx, files)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil { // the others are judged all the same
				again = &rejudged{Detail: "it cannot be judged again: " + err.Error(), Hint: hintOf(err)}
			}
			one.Again, one.OK = again, one.OK && again.Same
		}
		if required := verify.Grade(o.require); !one.Grade.AtLeast(required) {
			one.Required = required
		}
		all[i], good = one, good && one.OK
	}
	result := &cli.Result{JSON: all, Show: func() error {
		if none != nil {
			return none
		}
		for _, one := range all {
			p.writeVerified(one, len(all) > 1)
		}
		return nil
	}}
	if !good {
		return result, cli.Shown(errNotVerified)
	}
	return result, nil
}

// verifyOne checks an archive, a directory, or the directory that a receipt.json lies in. It also returns the files, for
// rejudge. An error means that there is no export to report on.
func (p *program) verifyOne(name string) (fs.FS, verify.Report, error) {
	if name == "-" {
		return verifyArchive(inputName(name), p.in)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, verify.Report{}, err
	case info.IsDir():
		return verifyDir(name)
	case !info.Mode().IsRegular():
		return nil, verify.Report{}, cli.WithHint(fmt.Errorf("%s is neither a file nor a directory", name), "guild verify - reads an archive from standard input")
	case filepath.Base(name) == verify.FileReceipt:
		return verifyDir(filepath.Dir(name))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, verify.Report{}, err
	}
	defer f.Close()
	return verifyArchive(name, f)
}

// receiptFiles lists the files of which an export has at least one.
func receiptFiles() []string { return []string{verify.FileReceipt, verify.FileReceiptEvent} }

func verifyDir(dir string) (fs.FS, verify.Report, error) {
	for _, name := range receiptFiles() {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return os.DirFS(dir), verify.Export(os.DirFS(dir)), nil
		}
	}
	return nil, verify.Report{}, fmt.Errorf("%s is not an export: there is no %s in it", dir, verify.FileReceipt)
}

// receiptIn returns the name of the receipt in an archive, the outermost if there are several, and "" without one.
func receiptIn(z *zip.Reader) (found string) {
	for _, f := range z.File {
		if slices.Contains(receiptFiles(), path.Base(f.Name)) && (found == "" || len(f.Name) < len(found)) {
			found = f.Name
		}
	}
	return found
}

func verifyArchive(name string, from io.Reader) (fs.FS, verify.Report, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxArchive+1))
	if err != nil {
		return nil, verify.Report{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxArchive {
		return nil, verify.Report{}, fmt.Errorf("%s is not an export: over %s", name, cli.Size(maxArchive))
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, verify.Report{}, fmt.Errorf("%s is not an export: %w", name, err)
	}
	if where := receiptIn(z); !slices.Contains(receiptFiles(), where) {
		err := fmt.Errorf("%s is not an export: there is no %s in it", name, verify.FileReceipt)
		if where != "" {
			return nil, verify.Report{}, cli.WithHint(err, "the export is in its folder "+path.Dir(where)+": unpack it, and verify that")
		}
		return nil, verify.Report{}, err
	}
	report, err := verify.Archive(b)
	if err != nil { // it was meant to be one
		report = verify.Broken(err)
	}
	return z, report, nil
}

// writeVerified prints what is proven, a line for each check, and one that sums up.
func (p *program) writeVerified(one verified, named bool) {
	colour := colours()
	if named {
		line(p.out, "%s", cli.Clean(one.File))
	}
	if one.Error != "" {
		line(p.out, "%s %s", colour.bad.Render("✗"), cli.Clean(one.Error))
		return
	}
	line(p.out, "%s\n", lipgloss.Wrap(cli.Clean(one.Summary), cli.Columns, ""))
	count := map[verify.State]int{}
	var absent []string
	for _, c := range one.Checks {
		count[c.State]++
		if c.State == verify.Absent {
			absent = append(absent, c.Name)
		}
		mark := "–"
		switch c.State {
		case verify.Passed:
			mark = colour.good.Render("✓")
		case verify.Failed:
			mark = colour.bad.Render("✗")
		}
		line(p.out, "%s %-17s  %s", mark, c.Name, cli.Clean(c.Detail))
	}
	if again := one.Again; again != nil {
		mark := colour.good.Render("✓")
		if !again.Same {
			mark = colour.bad.Render("✗")
		}
		line(p.out, "%s %-17s  %s", mark, "judged again", cli.Clean(again.Detail))
		if again.Hint != "" {
			line(p.out, "hint: %s", cli.Clean(again.Hint))
		}
	}
	what := "the receipt"
	if one.Receipt != "" {
		what = "receipt " + cli.Clean(one.Receipt)
	}
	rest := fmt.Sprintf("%d passed", count[verify.Passed])
	if len(absent) > 0 {
		rest += "; nothing to check: " + strings.Join(absent, ", ")
	}
	switch {
	case count[verify.Failed] > 0 || len(one.Checks) == 0:
		line(p.out, "%s does not hold: %d failed, %s", what, count[verify.Failed], rest)
	case one.Grade == verify.Claim:
		line(p.out, "%s is a claim by %s: %s", what, cli.ShortNpub(one.Facts.Signer), rest)
	default:
		line(p.out, "%s holds, grade %s: %s", what, one.Grade, rest)
	}
	if one.Report.OK() && one.Required != "" {
		line(p.out, "the grade is %s, and %s is required", one.Grade, one.Required)
	}
}
