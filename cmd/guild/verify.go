package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/verify"
)

// maxArchive is the largest archive that is read, in bytes.
const maxArchive = 256 << 20

func (p *program) verifyCommand() *cobra.Command {
	var asJSON bool
	var page string
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "Check the evidence of jobs, offline",
		Long: `verify checks what guild receipt export wrote: an archive, the directory that it was
unpacked to, or the receipt.json in it. It needs no node, no network and no home.

Every check has a line: ✓ it holds, ✗ it does not, and why, – there is nothing to
check. What the lines mean is in docs/VERIFY.md, with the format, so that anybody
can write a program of their own that checks the same.

It exits 0 only when nothing failed. What is not there does not fail: whoever hands
evidence on may leave out what is private, and the line says so.

With --page it checks nothing, and writes itself as one web page: whoever opens it
in a browser can drop an export on it and reads the same lines, without guild and
without a network.`,
		Example: "  guild receipt export 5f21c9aa -o job.zip && guild verify job.zip\n" +
			"  guild verify job.zip --json | jq '.[0].checks[] | select(.state == \"failed\")'\n" +
			"  guild verify --page verify.html",
		Args: func(cmd *cobra.Command, args []string) error {
			if page != "" {
				return cli.NoArgs()(cmd, args)
			}
			return cli.Arity(cobra.MinimumNArgs(1), "at least one export: an archive, a directory or its receipt.json")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if page != "" {
				return p.writeVerifyPage(page)
			}
			return p.runVerify(args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&page, "page", "", "write the verifier to this file, as a web page")
	cmd.MarkFlagsMutuallyExclusive("json", "page")
	return cmd
}

// verified is what verify says of one export.
type verified struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	verify.Report
}

var errNotVerified = errors.New("something does not hold")

func (p *program) runVerify(names []string, asJSON bool) error {
	all := make([]verified, len(names))
	good := true
	for i, name := range names {
		report, err := verifyOne(name)
		if err != nil {
			return cli.WithHint(err, "guild receipt export writes what can be verified")
		}
		all[i] = verified{name, report.OK(), report}
		good = good && report.OK()
	}
	if asJSON {
		if err := cli.PrintJSON(p.out, all); err != nil {
			return err
		}
	} else {
		for _, one := range all {
			p.writeVerified(one, len(all) > 1)
		}
	}
	if !good {
		return cli.Shown(errNotVerified)
	}
	return nil
}

// verifyOne checks an archive, a directory, or the directory that a receipt.json lies in.
func verifyOne(name string) (verify.Report, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return verify.Report{}, err
	case info.IsDir():
		return verify.Export(os.DirFS(name)), nil
	case filepath.Base(name) == verify.FileReceipt:
		return verify.Export(os.DirFS(filepath.Dir(name))), nil
	case info.Size() > maxArchive:
		return verify.Report{}, fmt.Errorf("%s: an archive of %s, at most %s", name, cli.Size(info.Size()), cli.Size(maxArchive))
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return verify.Report{}, err
	}
	report, err := verify.Archive(b)
	if err != nil { // the others are reported all the same
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
	count := map[verify.State]int{}
	for _, c := range one.Checks {
		count[c.State]++
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
	rest := fmt.Sprintf("%d passed, %d not there", count[verify.Passed], count[verify.Absent])
	if one.OK {
		line(p.out, "%s holds: %s", what, rest)
	} else {
		line(p.out, "%s does not hold: %d failed, %s", what, count[verify.Failed], rest)
	}
}
