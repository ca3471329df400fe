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
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/evidence"
	"guild/internal/node"
	"guild/verify"
)

// exporting holds the options of receipt export.
type exporting struct {
	file    string
	dir     string
	without []string
	reveal  bool
	force   bool
}

func (p *program) receiptExportCommand() *cobra.Command {
	var o exporting
	cmd := p.local(&cobra.Command{
		Use:   "export JOB|RECEIPT",
		Short: "Write the evidence of a receipt, for guild verify",
		Long: `export writes everything that proves one receipt into one file: the signed
events, the bundle and the delivery, the verdict with the judge's output, the
trajectory, the policy, the journal's entry with its proof, and the reviews.
guild verify checks the file offline and without a node. docs/VERIFY.md
describes it. The last receipt of a job counts; name an earlier one by its own
id. The beginning of an id is enough.

The file shows the whole work, and opens the two messages of the job if they
were encrypted, but no other message. Leave private files out: the checks of
missing files are skipped, and all others are made. Without the bundle or the
delivery, the key of the message that brought it is left out, too; a message
that was not encrypted still shows it.

Nothing in the file tells what hidden tests expect. With --reveal it has
these tests, and anybody can check that they are the promised ones, and judge
again.

The exit code is 1 if a check fails; the file is written all the same.`,
		Example: "  guild receipt export 5f21c9aa\n  guild receipt export 5f21c9aa --without bundle.nut\n  guild receipt export r-12ab34cd -o - > evidence.zip",
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		return p.runReceiptExport(cmd.Context(), args[0], o)
	})
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "output", "o", "", "file to write, - for standard output (default receipt-ID.zip)")
	flags.StringVar(&o.dir, "dir", "", "write a directory instead of one file")
	flags.StringArrayVar(&o.without, "without", nil, "leave a file out, as bundle.nut; reviews for all of them")
	flags.BoolVar(&o.reveal, "reveal", false, "show the hidden tests, so that others can judge again")
	flags.BoolVar(&o.force, "force", false, "replace the export that is there, as a whole")
	cmd.Flag("json").Usage = "print what was written and how its checks come out as JSON"
	cli.Exclusive(cmd, "output", "dir")
	cli.Choices(cmd, "without", evidence.Optional()...)
	return cmd
}

func (p *program) runReceiptExport(ctx context.Context, id string, o exporting) (*cli.Result, error) {
	var packed []byte
	var report verify.Report
	var job control.Job
	err := p.inspecting(ctx, p.identity, node.Inspect, func(client *control.Client, _ bool) (err error) {
		packed, err = control.ReceiptExport.Call(ctx, client, append([]string{id, strconv.FormatBool(o.reveal)}, o.without...)...)
		if err != nil {
			return err
		}
		if report, err = verify.Archive(packed); err != nil {
			return err
		}
		job, err = control.OneJob.Call(ctx, client, report.Facts.Job)
		return err
	})
	if err != nil {
		return nil, err
	}
	if words := shreddedWords(job); words != "" {
		fmt.Fprintf(p.err, "job %s was %s: the export has no words of it\n", short(job.ID), words)
	}
	where, err := p.writeExport(packed, report.Receipt, o)
	if err != nil {
		return nil, err
	}
	if where == "-" {
		return nil, doesNotHold(where, report)
	}
	return &cli.Result{JSON: exported{File: where, Size: len(packed), OK: report.OK(), Shredded: job.Shredded, Report: report}, Show: func() error {
		_, err := fmt.Fprintf(p.out, "%s  %s\n", where, cli.Size(int64(len(packed))))
		return err
	}}, doesNotHold(where, report)
}

// exported is the output of receipt export --json.
type exported struct {
	File   string        `json:"file"`
	Size   int           `json:"size"` // of the archive, in bytes
	OK     bool          `json:"ok"`   // nothing in it failed
	Report verify.Report `json:"report"`

	Shredded int64 `json:"shredded,omitempty"` // Unix ms when the words of the job were shredded, which it lacks
}

// doesNotHold returns the first failed check of an export that was written.
func doesNotHold(where string, report verify.Report) error {
	for _, c := range report.Checks {
		if c.State == verify.Failed {
			return cli.WithHint(fmt.Errorf("the export does not hold: %s: %s", c.Name, c.Detail), "guild verify "+where+" says all that is wrong")
		}
	}
	return nil
}

// writeExport writes an export to its file or directory and returns that.
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
	return file, writeWhole(file, packed)
}

// writeWhole writes a file as a whole or not at all. Its errors name the file as the person did.
func writeWhole(name string, b []byte) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory", name)
	}
	err := durable.WriteBytes(name, b)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", name, e.Err)
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Errorf("%s: %w", name, e.Err)
	}
	return err
}

// unpackExport writes an export as a directory, which must be new or empty unless it is forced. Then the export that is
// there goes, so that nothing stays that the new one leaves out.
func unpackExport(packed []byte, dir string, force bool) error {
	there, err := filesBelow(dir)
	if err != nil {
		return err
	}
	if len(there) > 0 && !force {
		return cli.WithHint(fmt.Errorf("%s is not empty", dir), "name another directory, or replace the export in this one with --force")
	}
	if foreign := slices.DeleteFunc(slices.Clone(there), isOfExport); len(foreign) > 0 {
		return cli.WithHint(fmt.Errorf("%s holds what no export has: %s", dir, cli.Cut(strings.Join(foreign, ", "), 200)),
			"name another directory, or move them away")
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
	for _, name := range there {
		if err := root.Remove(name); err != nil {
			return err
		}
	}
	for _, f := range archive.File {
		if err := unpackOne(root, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// filesBelow lists the files below a directory; none if it does not exist.
func filesBelow(dir string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case name == "." && errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && !d.IsDir():
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// isOfExport reports whether an export may have a file of that name: Pack takes no other.
func isOfExport(name string) bool {
	_, err := verify.Pack(map[string][]byte{name: nil})
	return err == nil
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
