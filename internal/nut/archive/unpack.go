package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/hand/workdir"
	"guild/internal/nut/host"
	"guild/nutshell"
)

func (p program) unpackCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "unpack FILE.nut",
		Short: "Unpack a bundle into a new directory, all of it or nothing",
		Long: `Check every path, limit, size and hash of a bundle, and unpack it. The directory
must be empty or not exist; it is there whole or not at all, even if the power
is cut.`,
		Example:           p.Examples("unpack my-task.nut", "unpack my-task.nut -o work", "unpack - -o work <my-task.nut"),
		Args:              cli.OneArg("a bundle"),
		ValidArgsFunction: host.CompleteBundles,
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the directory to make; the bundle's name without .nut if not given")
	p.LimitFlag(cmd)
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		return p.unpack(cmd.Context(), args[0], output)
	})
}

func (p program) unpack(ctx context.Context, file, dir string) (host.Result, error) {
	base := filepath.Base(file)
	name := strings.TrimSuffix(strings.TrimSuffix(base, encryptedSuffix), ".nut")
	if dir == "" && (file == "-" || name == base || name == "") {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("no name for the directory follows from %q", file)), "give it with -o")
	}
	dir = filepath.Clean(cmp.Or(dir, name))
	in, err := p.OpenFile(file)
	if err != nil {
		return nil, p.unpackHint(file, dir, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, p.unpackHint(file, dir, err)
	}
	b, err := workdir.Extract(ctx, in, info.Size(), p.Limits, dir)
	if err != nil {
		return nil, p.unpackHint(file, dir, err)
	}
	result := unpackResult{Dir: dir, ID: b.Manifest().ID(), Warnings: append([]string{}, b.Warnings...)}
	if workdir.HoldsForeign(b) {
		result.Warnings = append(result.Warnings, "it brings configuration of agents or editors, which programs obey that run in "+dir+": look at it first")
	}
	for _, e := range b.Files() {
		if e.Path != nutshell.ManifestFile {
			result.Files++
			result.Size += e.Size
		}
	}
	return result, nil
}

// unpackResult describes the directory that was made.
type unpackResult struct {
	Dir      string   `json:"dir"`
	ID       string   `json:"id"`
	Files    int      `json:"files"`      // without the manifest, as in the manifest itself
	Size     int64    `json:"size_bytes"` // of the files
	Warnings []string `json:"warnings"`
}

// Print implements host.Result.
func (r unpackResult) Print(p *host.Program) error {
	for _, warning := range r.Warnings {
		fmt.Fprintln(p.Err, "warning:", cli.Clean(warning))
	}
	_, err := fmt.Fprintf(p.Out, "%s: %s, %s\nid  %s\n", cli.Clean(r.Dir), cli.Count(r.Files, "file", "files"), cli.Size(r.Size), cli.Clean(r.ID))
	return err
}

// unpackHint adds the file to an error, and what can be done.
func (p program) unpackHint(file, dir string, err error) error {
	err = fmt.Errorf("%s: %w", file, err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return cli.WithHint(err, dir+" exists already and was not changed: choose another directory with -o")
	case errors.Is(err, workdir.ErrBusy):
		return cli.WithHint(err, "wait for the other, or choose another directory with -o")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return cli.WithHint(err, "nothing was left behind; make room, or choose another disk with -o")
	}
	return cli.WithHint(err, p.bundleHint(err))
}

// bundleHint returns what can be done about a bundle that cannot be opened, or "".
func (p program) bundleHint(err error) string {
	if e, ok := errors.AsType[*nutshell.LimitError](err); ok {
		hint := "it may be a bomb: what is beyond the limits is not unpacked"
		if raise := host.LimitHint(e); raise != "" {
			hint += ", unless you trust it and raise them with " + raise
		}
		return hint
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
