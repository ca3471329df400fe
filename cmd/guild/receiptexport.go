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
	"path/filepath"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/verify"
)

// exporting is how evidence is written.
type exporting struct {
	file    string
	dir     string
	without []string
	force   bool
	asJSON  bool
}

func (p *program) receiptExportCommand() *cobra.Command {
	var o exporting
	cmd := &cobra.Command{
		Use:   "export JOB|RECEIPT",
		Short: "Write the evidence of a receipt, for guild verify",
		Long: `export writes what proves one receipt into one file: the signed events, the bundle
and the delivery, the verdict with the judge's output, the trajectory, the policy,
the journal's entry with its proof, and the reviews. Whoever has the file can check
it with guild verify, without a node and offline. docs/VERIFY.md describes it.

The file shows the whole work, and opens the two messages of the job if they were
encrypted; no other message can be read with it. Leave out what is nobody's
business: what is not there is not checked, and everything else is. Without the
bundle or the delivery, what opens the message that brought it is left out, too; a
message that was not encrypted shows it all the same.`,
		Example:           "  guild receipt export 5f21c9aa\n  guild receipt export 5f21c9aa --without bundle.nut\n  guild receipt export r-12ab34cd -o - > evidence.zip",
		Args:              cli.OneArg("a job or a receipt id"),
		ValidArgsFunction: p.completeJobs,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.runReceiptExport(cmd.Context(), args[0], o) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "output", "o", "", "file to write, - for standard output (default receipt-ID.zip)")
	flags.StringVar(&o.dir, "dir", "", "write a directory instead of one file")
	flags.StringArrayVar(&o.without, "without", nil, "leave a file out, as bundle.nut; reviews for all of them")
	flags.BoolVar(&o.force, "force", false, "replace a file that exists")
	flags.BoolVar(&o.asJSON, "json", false, "print what was written and how its checks come out as JSON")
	cli.Exclusive(cmd, "output", "dir")
	return cmd
}

func (p *program) runReceiptExport(ctx context.Context, id string, o exporting) error {
	client, done, err := p.readerAs(ctx, p.identity)
	if err != nil {
		return err
	}
	defer done()
	packed, err := client.ExportReceipt(ctx, id, o.without)
	if err != nil {
		return err
	}
	report, err := verify.Archive(packed)
	if err != nil {
		return err
	}
	where, err := p.writeExport(packed, report.Receipt, o)
	if err != nil {
		return err
	}
	if where == "-" {
		return nil
	}
	if o.asJSON {
		return cli.PrintJSON(p.out, struct {
			File   string        `json:"file"`
			Size   int           `json:"size"`
			Report verify.Report `json:"report"`
		}{where, len(packed), report})
	}
	if !report.OK() {
		fmt.Fprintf(p.err, "warning: some of it does not hold; guild verify %s says what\n", where)
	}
	_, err = fmt.Fprintf(p.out, "%s  %s\n", where, cli.Size(int64(len(packed))))
	return err
}

// writeExport writes an export where it is wanted, and says where that is.
func (p *program) writeExport(packed []byte, receipt string, o exporting) (string, error) {
	switch {
	case o.file == "-":
		_, err := p.out.Write(packed)
		return "-", err
	case o.dir != "":
		return o.dir, unpackExport(packed, o.dir, o.force)
	}
	file := cmp.Or(o.file, receipt+".zip")
	if o.file == "" {
		file = "receipt-" + file
	}
	if _, err := os.Lstat(file); !o.force && !errors.Is(err, fs.ErrNotExist) {
		return "", cli.WithHint(fmt.Errorf("%s exists", file), "name another with -o, or replace it with --force")
	}
	return file, durable.WriteBytes(file, packed)
}

// unpackExport writes an export as a directory, which must be new or empty unless it is forced.
func unpackExport(packed []byte, dir string, force bool) error {
	if there, err := os.ReadDir(dir); !force && err == nil && len(there) > 0 {
		return cli.WithHint(fmt.Errorf("%s is not empty", dir), "name another directory, or write into this one with --force")
	}
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range archive.File {
		if err := unpackOne(root, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func unpackOne(root *os.Root, f *zip.File) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(f.Name), 0o700); err != nil {
		return err
	}
	return root.WriteFile(f.Name, b, 0o600)
}
