package archive

import (
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

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/internal/workdir"
	"guild/nutshell"
	"guild/nutshell/brief"
	"guild/nutshell/ignore"
)

// packFlags is how pack was asked to do it.
type packFlags struct {
	dir, output        string
	compression, level string
	include            []string
	force              bool
	vaultBeside        bool
	plaintext          bool
	json               bool
}

func (p program) packCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Pack a directory into a bundle, once it has all that an agent needs",
		Long: `Check the directory and pack it into one file. The same files give the same bytes,
on every machine. What is missing keeps it from being packed, unless --force is
given.

Environment files, private keys, version control folders, other bundles and what
.nutignore names are left out, unless --include names a file. Tests below
tests/hidden stay here; the bundle gets a commitment to each, and
tests/hidden/.salts.json keeps the salts that prove it later.`,
		Example: "  " + p.Hint("pack") + "\n  " + p.Hint("pack --dir my-task -o my-task.nut") + "\n  " +
			p.Hint("pack --compression zstd --include files/.env.example"),
		Args: cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.pack(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringVarP(&f.output, "output", "o", "", "the file to write, - for standard output; <title>.nut if not given")
	flags.BoolVar(&f.force, "force", false, "pack it although something is missing")
	flags.StringVar(&f.compression, "compression", nutshell.Gzip, "gzip, zstd or none")
	flags.StringVar(&f.level, "level", "", "fast or best; in between if not given")
	flags.StringArrayVar(&f.include, "include", nil, "a file to pack although a rule leaves it out; may be repeated")
	flags.BoolVar(&f.vaultBeside, "vault-beside", false, "leave the vault out, for it to travel beside the bundle")
	flags.BoolVar(&f.plaintext, "insecure-plaintext", false, "pack a vault that is not encrypted")
	flags.BoolVar(&f.json, "json", false, "print it as JSON")
	cli.Choices(cmd, "compression", nutshell.Gzip, nutshell.Zstd, nutshell.None)
	cli.Choices(cmd, "level", string(nutshell.Fast), string(nutshell.Best))
	return cmd
}

// check asks whether the flags make sense.
func (f packFlags) check() error {
	if !slices.Contains([]string{nutshell.Gzip, nutshell.Zstd, nutshell.None}, f.compression) {
		return cli.WithHint(cli.Usage(fmt.Errorf("--compression %.40q is not one of gzip, zstd, none", f.compression)), "as in --compression zstd")
	}
	if err := checkLevel(f.level); err != nil {
		return err
	}
	if f.json && f.output == "-" {
		return cli.WithHint(cli.Usage(errors.New("--json and the bundle cannot both go to standard output")), "give -o a file")
	}
	return nil
}

func checkLevel(level string) error {
	if !slices.Contains([]string{"", string(nutshell.Fast), string(nutshell.Best)}, level) {
		return cli.WithHint(cli.Usage(fmt.Errorf("--level %.40q is not one of fast, best", level)), "as in --level best")
	}
	return nil
}

func (p program) pack(ctx context.Context, f packFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.output == "-" && cli.IsTerminal(p.Out) {
		return cli.WithHint(cli.Usage(errors.New("a bundle is not for a terminal")), "give -o a file, or send it on with |")
	}
	tree, m, err := p.OwnTree(f.dir)
	if err != nil {
		return err
	}
	if err := p.mustBeReady(tree, f); err != nil {
		return err
	}
	o, err := p.packOptions(ctx, tree, f)
	if err != nil {
		return fmt.Errorf("pack %s: %w", f.dir, err)
	}
	if f.output == "" {
		f.output = host.Slug(m.Task().Title, "bundle") + ".nut"
	}
	info, err := p.packTo(ctx, tree, f.output, o)
	if err != nil {
		return p.packHint(fmt.Errorf("pack %s: %w", f.dir, err), f)
	}
	return p.printPacked(f, m, o, info)
}

// mustBeReady checks a tree, and prints what is missing if anything is.
func (p program) mustBeReady(tree fs.FS, f packFlags) error {
	if f.force {
		return nil
	}
	report, err := draft.Check(p.Program, tree, false)
	if err != nil {
		return fmt.Errorf("%s: %w", f.dir, err)
	}
	if report.Ready() {
		return nil
	}
	out := p.Out
	if f.output == "-" {
		out = p.Err
	}
	if err := draft.Print(out, report, f.json); err != nil {
		return err
	}
	err = fmt.Errorf("%s is %s and was not packed", f.dir, report.Status)
	return cli.WithHint(err, "--force packs it nevertheless")
}

// packOptions gathers what the tree says about its packing, and commits to its hidden tests.
func (p program) packOptions(ctx context.Context, tree fs.FS, f packFlags) (nutshell.Options, error) {
	patterns, err := host.Ignored(tree)
	if err != nil {
		return nutshell.Options{}, err
	}
	o := nutshell.Options{
		Compression: f.compression, Level: nutshell.Level(f.level), Exclude: patterns.Match,
		VaultBeside: f.vaultBeside, InsecurePlaintext: f.plaintext,
	}
	for _, name := range f.include {
		o.Include = append(o.Include, path.Clean(filepath.ToSlash(name)))
	}
	if o.Hidden, err = workdir.Commit(ctx, f.dir, p.Random); err != nil {
		return o, err
	}
	files, err := host.Files(tree, func(name string, isDir bool) bool { return !patterns.Match(name, isDir) })
	if err != nil {
		return o, err
	}
	o.Tokens, err = brief.Estimate(ctx, host.Subset(tree, files))
	return o, err
}

// packTo packs into a file, which is there whole or not at all, or to standard output.
func (p program) packTo(ctx context.Context, tree fs.FS, output string, o nutshell.Options) (info nutshell.Info, err error) {
	if output == "-" {
		return nutshell.Pack(ctx, tree, p.Out, o)
	}
	f, err := os.CreateTemp(filepath.Dir(output), ".pack-*.nut") // a bundle by its name, so that none has it in it
	if err != nil {
		return info, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
			f.Close()
		}
	}()
	if info, err = nutshell.Pack(ctx, tree, f, o); err != nil {
		return info, err
	}
	own := filepath.Base(f.Name())
	info.Skipped = slices.DeleteFunc(info.Skipped, func(s nutshell.Skipped) bool { return path.Base(s.Path) == own })
	if err := errors.Join(f.Chmod(0o644), f.Sync()); err != nil {
		return info, err
	}
	return info, durable.Rename(f, output)
}

// packHint says what can be done about a tree that cannot be packed.
func (p program) packHint(err error, f packFlags) error {
	if _, ok := errors.AsType[*nutshell.PlaintextError](err); ok {
		return cli.WithHint(err, "seal it: '"+p.Hint("vault --help")+"' says how; --insecure-plaintext packs it as it is")
	}
	if e, ok := errors.AsType[*nutshell.EntryError](err); ok {
		if slices.Contains(f.include, e.Path) {
			return cli.WithHint(err, "--include takes the path of a file, relative to "+f.dir)
		}
		return cli.WithHint(err, "name it in .nutignore to leave it out")
	}
	if e, ok := errors.AsType[*nutshell.LimitError](err); ok && e.What == "Ratio" {
		return cli.WithHint(err, "readers take it for a bomb: use --compression none")
	} else if ok {
		return cli.WithHint(err, "no reader would take it; leave files out with .nutignore, or split it: '"+p.Hint("split --help")+"'")
	}
	if errors.Is(err, nutshell.ErrChanged) {
		return cli.WithHint(err, "pack again when nothing writes there")
	}
	return err
}

// packedJSON is what pack prints for a program.
type packedJSON struct {
	File        string        `json:"file"`
	ID          string        `json:"id"`
	Hash        guild.Hash    `json:"hash"`
	Size        int64         `json:"size_bytes"`
	Files       int           `json:"files"`
	Original    int64         `json:"original_size_bytes"`
	Compression string        `json:"compression"`
	Tokens      int64         `json:"context_tokens_estimate"`
	HiddenTests int           `json:"hidden_tests"`
	Skipped     []skippedJSON `json:"skipped"`
}

type skippedJSON struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// skippedOf words what was left out: to Pack, .nutignore is only somebody who wants it so.
func skippedOf(all []nutshell.Skipped) []skippedJSON {
	list := make([]skippedJSON, len(all))
	for i, s := range all {
		list[i] = skippedJSON{s.Path, s.Reason}
		if s.Reason == nutshell.ReasonExcluded {
			list[i].Reason = ignore.File + " names it"
		}
	}
	return list
}

func (p program) printPacked(f packFlags, m *nutshell.Manifest, o nutshell.Options, info nutshell.Info) error {
	total := int64(0)
	for _, e := range info.Files {
		total += e.Size
	}
	if f.json {
		return cli.PrintJSON(p.Out, packedJSON{
			f.output, m.ID(), info.Hash, info.Size, len(info.Files), total, f.compression, o.Tokens, len(o.Hidden), skippedOf(info.Skipped),
		})
	}
	var b strings.Builder
	for _, s := range skippedOf(info.Skipped) {
		fmt.Fprintf(&b, "left out %s: %s\n", cli.Clean(s.Path), cli.Clean(s.Reason))
	}
	switch n := len(o.Hidden); n {
	case 0:
	case 1:
		fmt.Fprintln(&b, "committed to 1 hidden test, which stays here")
	default:
		fmt.Fprintf(&b, "committed to %d hidden tests, which stay here\n", n)
	}
	fmt.Fprintf(&b, "%s: %s, %s in %s\n", cli.Clean(f.output), cli.Count(len(info.Files), "file", "files"), cli.Size(total), cli.Size(info.Size))
	fmt.Fprintf(&b, "id    %s\nhash  %s\n", cli.Clean(m.ID()), info.Hash)
	out := p.Out
	if f.output == "-" {
		out = p.Err
	}
	_, err := io.WriteString(out, b.String())
	return err
}
