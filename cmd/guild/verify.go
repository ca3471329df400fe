package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/verify"
)

// maxArchive is the largest archive that is read, in bytes.
const maxArchive = 256 << 20

func (p *program) verifyCommand() *cobra.Command {
	var page string
	cmd := p.local(&cobra.Command{
		Use:   "verify FILE…|-",
		Short: "Check the evidence of jobs, offline",
		Long: `verify checks the output of guild receipt export: an archive, the directory that
it was unpacked to, or the receipt.json in it; with - an archive from standard
input. It needs no node, no network and no home.

Every check has a line: ✓ it holds, ✗ it does not, and why, – there is nothing
to check. docs/VERIFY.md explains the lines and describes the format, so that
anybody can write another program that checks the same.

It exits 0 only if no check failed and each FILE is an export. A missing
optional file is not an error: private files may be left out, and the line says
so.

With --page it checks nothing, and writes the verifier as a web page: in a
browser, it reads an export that is dropped on it and shows the same lines,
without guild and without a network. With - it is written to standard output.`,
		Example: "  guild receipt export 5f21c9aa -o job.zip && guild verify job.zip\n" +
			"  guild verify job.zip --json | jq '.[0].checks[] | select(.state == \"failed\")'\n" +
			"  guild verify --page verify.html",
		Args: func(cmd *cobra.Command, args []string) error {
			if page != "" && len(args) > 0 {
				return cli.WithHint(cli.Usage(errors.New("give either --page or what is to be checked")),
					"--page FILE writes the verifier to FILE; guild verify EXPORT checks")
			} else if page != "" {
				return nil
			}
			return cli.Arity(cobra.MinimumNArgs(1), "at least one export: an archive, a directory or its receipt.json")(cmd, args)
		},
	}, func(_ *cobra.Command, args []string) (*cli.Result, error) {
		if page != "" {
			return nil, p.writeVerifyPage(page)
		}
		return p.runVerify(args)
	})
	cmd.Flags().StringVar(&page, "page", "", "write the verifier to this file, as a web page")
	cli.Exclusive(cmd, "json", "page")
	return cmd
}

// verified is the report of verify on one export.
type verified struct {
	File  string `json:"file"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"` // why there is no report: it is no export, or cannot be read
	verify.Report
}

var errNotVerified = errors.New("something does not hold")

const exportHint = "guild receipt export writes what can be verified"

func (p *program) runVerify(names []string) (*cli.Result, error) {
	all := make([]verified, len(names))
	good := true
	var none error // why the only file is not an export
	for i, name := range names {
		report, err := p.verifyOne(name)
		if err != nil && len(names) == 1 {
			none = cli.WithHint(err, cmp.Or(cli.HintOf(err), exportHint))
		}
		all[i] = verified{File: name, OK: err == nil && report.OK(), Report: report}
		if err != nil { // the others are reported all the same
			all[i].Error, all[i].Checks = err.Error(), []verify.Check{}
		}
		good = good && all[i].OK
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

// verifyOne checks an archive, a directory, or the directory that a receipt.json lies in. An error means that there is
// no export to report on.
func (p *program) verifyOne(name string) (verify.Report, error) {
	if name == "-" {
		return verifyArchive(inputName(name), p.in)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return verify.Report{}, err
	case info.IsDir():
		return verifyDir(name)
	case !info.Mode().IsRegular():
		return verify.Report{}, cli.WithHint(fmt.Errorf("%s is neither a file nor a directory", name), "guild verify - reads an archive from standard input")
	case filepath.Base(name) == verify.FileReceipt:
		return verifyDir(filepath.Dir(name))
	}
	f, err := os.Open(name)
	if err != nil {
		return verify.Report{}, err
	}
	defer f.Close()
	return verifyArchive(name, f)
}

// receiptFiles lists the files of which an export has at least one.
func receiptFiles() []string { return []string{verify.FileReceipt, verify.FileReceiptEvent} }

func verifyDir(dir string) (verify.Report, error) {
	for _, name := range receiptFiles() {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return verify.Export(os.DirFS(dir)), nil
		}
	}
	return verify.Report{}, fmt.Errorf("%s is not an export: there is no %s in it", dir, verify.FileReceipt)
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

func verifyArchive(name string, from io.Reader) (verify.Report, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxArchive+1))
	if err != nil {
		return verify.Report{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxArchive {
		return verify.Report{}, fmt.Errorf("%s is not an export: over %s", name, cli.Size(maxArchive))
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return verify.Report{}, fmt.Errorf("%s is not an export: %w", name, err)
	}
	if where := receiptIn(z); !slices.Contains(receiptFiles(), where) {
		err := fmt.Errorf("%s is not an export: there is no %s in it", name, verify.FileReceipt)
		if where != "" {
			return verify.Report{}, cli.WithHint(err, "the export is in its folder "+path.Dir(where)+": unpack it, and verify that")
		}
		return verify.Report{}, err
	}
	report, err := verify.Archive(b)
	if err != nil { // it was meant to be one
		report.Checks = []verify.Check{{Name: "files", State: verify.Failed, Detail: err.Error()}}
	}
	return report, nil
}

// writeVerified prints a line for each check, and one that sums up.
func (p *program) writeVerified(one verified, named bool) {
	colour := colours()
	if named {
		line(p.out, "%s", cli.Clean(one.File))
	}
	if one.Error != "" {
		line(p.out, "%s %s", colour.bad.Render("✗"), cli.Clean(one.Error))
		return
	}
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
	what := "the receipt"
	if one.Receipt != "" {
		what = "receipt " + cli.Clean(one.Receipt)
	}
	rest := fmt.Sprintf("%d passed", count[verify.Passed])
	if len(absent) > 0 {
		rest += "; nothing to check: " + strings.Join(absent, ", ")
	}
	if one.OK {
		line(p.out, "%s holds: %s", what, rest)
	} else {
		line(p.out, "%s does not hold: %d failed, %s", what, count[verify.Failed], rest)
	}
}
