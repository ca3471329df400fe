package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/hand/workdir"
	"guild/internal/nut/credential"
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/brief"
	"guild/nutshell/ignore"
)

// packFlags say how a directory is packed.
type packFlags struct {
	dir, output        string
	compression, level string
	include, encrypt   []string
	force              bool
	vaultBeside        bool
	plaintext          bool
	json               bool // the caller prints JSON
}

func (p program) packCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Pack a directory that has all an agent needs into a bundle",
		Long: `Check the directory and pack it into one file. The same files give the same
bytes, on every machine. What is missing keeps it from being packed, unless
--force is given. The packed manifest says what the check found.

Environment files, private keys, version control folders, other bundles and what
.nutignore names are left out, unless --include names a file. Tests below
tests/hidden stay here; the bundle gets a commitment to each, and
tests/hidden/.salts.json keeps the salts that prove it later.

With --encrypt the file is an age file, which 'age -d' opens too. The hash is
that of the bundle in it.`,
		Example: p.Examples("pack", "pack --dir my-task -o my-task.nut", "pack --compression zstd --include files/.env.example"),
		Args:    cli.NoArgs(),
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringVarP(&f.output, "output", "o", "", "the file to write, - for standard output; <title>.nut if not given")
	flags.BoolVar(&f.force, "force", false, "pack it although something is missing")
	flags.StringVar(&f.compression, "compression", nutshell.Gzip, "gzip, zstd or none")
	flags.StringVar(&f.level, "level", "", "fast or best; in between if not given")
	flags.StringArrayVar(&f.include, "include", nil, "a file to pack although a rule leaves it out; may be repeated")
	flags.StringArrayVar(&f.encrypt, "encrypt", nil, "encrypt the whole bundle for this `recipient`, an age or SSH public key; may be repeated")
	flags.BoolVar(&f.vaultBeside, "vault-beside", false, "leave the vault out, for it to travel beside the bundle")
	flags.BoolVar(&f.plaintext, "insecure-plaintext", false, "pack a vault that is not encrypted")
	cli.Choices(cmd, "compression", nutshell.Gzip, nutshell.Zstd, nutshell.None)
	cli.Choices(cmd, "level", string(nutshell.Fast), string(nutshell.Best))
	p.LimitFlag(cmd)
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, _ []string) (host.Result, error) {
		f.json = cli.AsJSON(cmd)
		return p.pack(cmd.Context(), f)
	})
}

func (p program) pack(ctx context.Context, f packFlags) (host.Result, error) {
	if f.output == "-" && cli.IsTerminal(p.Out) {
		return nil, cli.WithHint(cli.Usage(errors.New("a bundle is not for a terminal")), "give -o a file, or send it on with |")
	}
	b, err := p.packDir(ctx, f)
	if err != nil {
		return nil, err
	}
	result := packResult{
		File: b.output, ID: b.m.ID(), Hash: b.info.Hash, Size: b.info.Size, Files: len(b.info.Files), Compression: f.compression,
		Tokens: b.info.Tokens, HiddenTests: len(b.options.Hidden), Skipped: skipped(b.info.Skipped),
		Warnings: append([]string{}, b.info.Warnings...),
	}
	for _, e := range b.info.Files {
		result.Original += e.Size
	}
	return result, nil
}

// packedDir is a directory that was packed.
type packedDir struct {
	tree    fs.FS
	m       *nutshell.Manifest
	options nutshell.Options
	info    nutshell.Info
	output  string
}

// packDir packs a directory into a file or to standard output.
func (p program) packDir(ctx context.Context, f packFlags) (packedDir, error) {
	switch {
	case !slices.Contains([]string{nutshell.Gzip, nutshell.Zstd, nutshell.None}, f.compression):
		return packedDir{}, cli.WithHint(cli.Usage(fmt.Errorf("--compression %.40q is not one of gzip, zstd, none", f.compression)), "as in --compression zstd")
	case !slices.Contains([]string{"", string(nutshell.Fast), string(nutshell.Best)}, f.level):
		return packedDir{}, cli.WithHint(cli.Usage(fmt.Errorf("--level %.40q is not one of fast, best", f.level)), "as in --level best")
	case f.json && f.output == "-":
		return packedDir{}, cli.WithHint(cli.Usage(errors.New("--json and the bundle cannot both go to standard output")), "give -o a file")
	}
	tree, m, err := p.OwnTree(f.dir)
	if err != nil {
		return packedDir{}, err
	}
	if err := p.mustBeReady(tree, f); err != nil {
		return packedDir{}, err
	}
	if err := draft.Complete(p.Program, tree, m); err != nil {
		return packedDir{}, fmt.Errorf("%s: %w", f.dir, err)
	}
	tree = host.WithFile(tree, nutshell.ManifestFile, m.Bytes())
	name := host.Slug(m.Task().Title, "bundle") + ".nut"
	if len(f.encrypt) > 0 {
		name += encryptedSuffix
	}
	d := packedDir{tree: tree, m: m, output: cmp.Or(f.output, name)}
	if d.options, err = p.packOptions(ctx, tree, f); err != nil {
		return packedDir{}, fmt.Errorf("pack %s: %w", f.dir, err)
	}
	if d.info, err = p.packTo(ctx, tree, d.output, f.encrypt, d.options); err != nil {
		return packedDir{}, p.packHint(fmt.Errorf("pack %s: %w", f.dir, err), f)
	}
	return d, nil
}

// mustBeReady returns an error if a tree lacks something, after printing what.
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

// packOptions returns how a tree is packed, by the flags and its .nutignore. It commits to the hidden tests.
func (p program) packOptions(ctx context.Context, tree fs.FS, f packFlags) (nutshell.Options, error) {
	patterns, err := host.Ignored(tree)
	if err != nil {
		return nutshell.Options{}, err
	}
	o := nutshell.Options{
		Compression: f.compression, Level: nutshell.Level(f.level), Exclude: patterns.Match,
		VaultBeside: f.vaultBeside, InsecurePlaintext: f.plaintext, Limits: p.Limits,
	}
	for _, name := range f.include {
		o.Include = append(o.Include, path.Clean(filepath.ToSlash(name)))
	}
	if o.Hidden, err = workdir.Commit(ctx, f.dir, p.Random); err != nil {
		return o, err
	}
	m, err := nutshell.ReadManifest(tree)
	if err != nil {
		return o, err
	}
	estimator := brief.NewEstimator(m)
	o.Head, o.Tokens = estimator.Head, func() (int64, error) {
		defer debug.FreeOSMemory() // the vocabulary is as large as what the compression takes next
		return estimator.Tokens()
	}
	return o, nil
}

// packTo packs into a file, whole or not at all, or to standard output.
func (p program) packTo(ctx context.Context, tree fs.FS, output string, encrypt []string, o nutshell.Options) (info nutshell.Info, err error) {
	if output == "-" {
		return p.packInto(ctx, tree, p.Out, encrypt, o)
	}
	f, err := os.CreateTemp(filepath.Dir(output), ".pack-*.nut") // a bundle by its name, so that Pack leaves it out
	if err != nil {
		return info, err
	}
	defer func() {
		if err != nil {
			f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if info, err = p.packInto(ctx, tree, f, encrypt, o); err != nil {
		return info, err
	}
	own := filepath.Base(f.Name())
	info.Skipped = slices.DeleteFunc(info.Skipped, func(s nutshell.Skipped) bool { return path.Base(s.Path) == own })
	if err := errors.Join(f.Chmod(0o644), f.Sync()); err != nil {
		return info, err
	}
	return info, durable.Rename(f, output)
}

// encryptedSuffix ends the names of bundles that are encrypted as a whole.
const encryptedSuffix = ".age"

// packInto packs into w, encrypted if there are recipients.
func (p program) packInto(ctx context.Context, tree fs.FS, w io.Writer, encrypt []string, o nutshell.Options) (nutshell.Info, error) {
	if len(encrypt) == 0 {
		return nutshell.Pack(ctx, tree, w, o)
	}
	sealed, err := credential.Encrypt(ctx, p.Program, encrypt, w)
	if err != nil {
		return nutshell.Info{}, err
	}
	info, err := nutshell.Pack(ctx, tree, sealed, o)
	return info, errors.Join(err, sealed.Close())
}

// packHint adds what can be done about a tree that cannot be packed.
func (p program) packHint(err error, f packFlags) error {
	if _, ok := errors.AsType[*nutshell.PlaintextError](err); ok {
		return cli.WithHint(err, "seal it: '"+p.Hint("vault --help")+"' says how; --insecure-plaintext packs it as it is")
	}
	if e, ok := errors.AsType[*nutshell.EntryError](err); ok {
		if slices.Contains(f.include, e.Path) && nutshell.RefuseVersionControl([]nutshell.Entry{{Path: e.Path}}) == nil {
			return cli.WithHint(err, "--include takes the path of a file, relative to "+f.dir)
		}
		return cli.WithHint(err, "name it in .nutignore to leave it out")
	}
	if e, ok := errors.AsType[*nutshell.LimitError](err); ok && e.What == "Ratio" {
		return cli.WithHint(err, "readers take it for a bomb: use --compression none")
	} else if ok {
		hint := "leave files out with .nutignore"
		if raise := host.LimitHint(e); raise != "" {
			hint += ", or raise the limit with " + raise + ", as each reader must then"
		}
		return cli.WithHint(err, hint)
	}
	if errors.Is(err, nutshell.ErrChanged) {
		return cli.WithHint(err, "pack again when nothing writes there")
	}
	return err
}

// packResult describes the new bundle.
type packResult struct {
	File        string     `json:"file"`
	ID          string     `json:"id"`
	Hash        guild.Hash `json:"hash"`
	Size        int64      `json:"size_bytes"`
	Files       int        `json:"files"`
	Original    int64      `json:"original_size_bytes"`
	Compression string     `json:"compression"`
	Tokens      int64      `json:"context_tokens_estimate"`
	HiddenTests int        `json:"hidden_tests"`
	Skipped     []skip     `json:"skipped"`
	Warnings    []string   `json:"warnings"`
}

// skip is a file that was left out.
type skip struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// skipped lists what was left out. Pack cannot know that what was excluded is named by .nutignore.
func skipped(all []nutshell.Skipped) []skip {
	list := make([]skip, len(all))
	for i, s := range all {
		list[i] = skip{Path: s.Path, Reason: s.Reason}
		if s.Reason == nutshell.ReasonExcluded {
			list[i].Reason = ignore.File + " names it"
		}
	}
	return list
}

// Print implements host.Result.
func (r packResult) Print(p *host.Program) error {
	var b strings.Builder
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "left out %s: %s\n", cli.Clean(s.Path), cli.Clean(s.Reason))
	}
	switch r.HiddenTests {
	case 0:
	case 1:
		fmt.Fprintln(&b, "committed to 1 hidden test, which stays here")
	default:
		fmt.Fprintf(&b, "committed to %d hidden tests, which stay here\n", r.HiddenTests)
	}
	fmt.Fprintf(&b, "%s: %s, %s in %s\n", cli.Clean(r.File), cli.Count(r.Files, "file", "files"), cli.Size(r.Original), cli.Size(r.Size))
	fmt.Fprintf(&b, "id    %s\nhash  %s\n", cli.Clean(r.ID), r.Hash)
	for _, warning := range r.Warnings {
		fmt.Fprintln(p.Err, "warning:", cli.Clean(warning))
	}
	out := p.Out
	if r.File == "-" {
		out = p.Err
	}
	_, err := io.WriteString(out, b.String())
	return err
}
