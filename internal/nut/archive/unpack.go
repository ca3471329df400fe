package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/internal/workdir"
	"guild/nutshell"
)

func (p program) unpackCommand() *cobra.Command {
	var output string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "unpack FILE.nut",
		Short: "Unpack a bundle into a new directory, all of it or nothing",
		Long: `Check every path, limit, size and hash of a bundle, and unpack it. The directory
must be empty or not exist; it is there whole or not at all, even if the power is
cut.`,
		Example: "  " + p.Hint("unpack my-task.nut") + "\n  " + p.Hint("unpack my-task.nut -o work") + "\n  " + p.Hint("unpack - -o work <my-task.nut"),
		Args:    cli.OneArg("a bundle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.unpack(cmd.Context(), args[0], output, asJSON)
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"nut"}, cobra.ShellCompDirectiveFilterFileExt),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the directory to make; the bundle's name without .nut if not given")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

// unpackedJSON is what unpack prints for a program.
type unpackedJSON struct {
	Dir      string   `json:"dir"`
	ID       string   `json:"id"`
	Files    int      `json:"files"`      // without the manifest, as in the manifest itself
	Size     int64    `json:"size_bytes"` // of the files
	Warnings []string `json:"warnings"`
}

func (p program) unpack(ctx context.Context, file, dir string, asJSON bool) error {
	dir, err := unpackDir(file, dir)
	if err != nil {
		return err
	}
	in, size, err := p.openFile(file)
	if err != nil {
		return p.unpackHint(file, dir, err)
	}
	defer in.Close()
	b, err := workdir.Extract(ctx, in, size, nutshell.Limits{}, dir)
	if err != nil {
		return p.unpackHint(file, dir, err)
	}
	done := unpackedJSON{Dir: dir, ID: b.Manifest().ID(), Warnings: append([]string{}, b.Warnings...)}
	if workdir.HoldsForeign(b) {
		done.Warnings = append(done.Warnings, "it brings configuration of agents, editors or version control, which programs obey that run in "+dir+": look at it first")
	}
	for _, e := range b.Files() {
		if e.Path != nutshell.ManifestFile {
			done.Files++
			done.Size += e.Size
		}
	}
	if asJSON {
		return cli.PrintJSON(p.Out, done)
	}
	for _, warning := range done.Warnings {
		fmt.Fprintln(p.Err, "warning:", cli.Clean(warning))
	}
	_, err = fmt.Fprintf(p.Out, "%s: %s, %s\nid  %s\n", cli.Clean(dir), cli.Count(done.Files, "file", "files"), cli.Size(done.Size), cli.Clean(done.ID))
	return err
}

// unpackDir is where a bundle goes.
func unpackDir(file, dir string) (string, error) {
	if dir != "" {
		return filepath.Clean(dir), nil
	}
	base := filepath.Base(file)
	name := strings.TrimSuffix(base, ".nut")
	if file == "-" || name == base || name == "" {
		return "", cli.WithHint(cli.Usage(fmt.Errorf("no name for the directory follows from %q", file)), "give it with -o")
	}
	return name, nil
}

// openFile opens a bundle file, or standard input for "-", without reading it.
func (p program) openFile(path string) (f *os.File, size int64, err error) {
	if path == "-" {
		f, err = p.Spool()
	} else {
		f, err = host.OpenRegular(path)
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// unpackHint names the file, and says what can be done.
func (p program) unpackHint(file, dir string, err error) error {
	err = fmt.Errorf("%s: %w", file, err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return cli.WithHint(err, dir+" is there already and is left as it is: choose another directory with -o")
	case errors.Is(err, workdir.ErrBusy):
		return cli.WithHint(err, "wait for the other, or choose another directory with -o")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return cli.WithHint(err, "nothing was left behind; make room, or choose another disk with -o")
	}
	return cli.WithHint(err, p.bundleHint(err))
}

// bundleHint says what is to be done about a bundle that cannot be opened, or nothing.
func (p program) bundleHint(err error) string {
	if _, ok := errors.AsType[*nutshell.LimitError](err); ok {
		return "it may be a bomb: what is beyond the limits is not unpacked"
	}
	if _, ok := errors.AsType[*nutshell.EntryError](err); ok {
		return "nothing was unpacked: whoever made this bundle made a mistake or means harm"
	}
	if _, ok := errors.AsType[*nutshell.ManifestError](err); ok {
		return "its manifest cannot be read; ask whoever made it to pack it again"
	}
	_, hash := errors.AsType[*nutshell.HashError](err)
	_, size := errors.AsType[*nutshell.SizeError](err)
	switch {
	case hash, size, errors.Is(err, nutshell.ErrTruncated), errors.Is(err, nutshell.ErrDamaged), errors.Is(err, nutshell.ErrTrailing):
		return "it is not what was packed; get it again"
	case errors.Is(err, nutshell.ErrEncrypted):
		return "unpack it with the program that encrypted it, and pack it again; credentials belong into a vault"
	case errors.Is(err, nutshell.ErrNotBundle), errors.Is(err, nutshell.ErrNoManifest):
		return "a bundle is a file that '" + p.Hint("pack") + "' has made"
	}
	return ""
}
