package archive

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
)

func (p program) compressCommand() *cobra.Command {
	f := packFlags{force: true}
	cmd := &cobra.Command{
		Use:   "compress",
		Short: "Pack a directory as small or as fast as possible, and say what shrank how much",
		Long: `Pack a directory without asking whether it is complete, and list by kind of file
how much it shrank. Each kind is measured by itself; in the bundle they share what
they have in common.`,
		Example: "  " + p.Hint("compress --dir my-task") + "\n  " + p.Hint("compress --level fast -o my-task.nut"),
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.compress(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringVarP(&f.output, "output", "o", "", "the file to write; <title>.nut if not given")
	flags.StringVar(&f.level, "level", string(nutshell.Best), "fast or best")
	flags.StringVar(&f.compression, "compression", nutshell.Gzip, "gzip or zstd")
	flags.BoolVar(&f.plaintext, "insecure-plaintext", false, "pack a vault that is not encrypted")
	flags.BoolVar(&f.json, "json", false, "print it as JSON")
	cli.Choices(cmd, "level", string(nutshell.Fast), string(nutshell.Best))
	cli.Choices(cmd, "compression", nutshell.Gzip, nutshell.Zstd)
	return cmd
}

// shrunk is how much one kind of file, or all of them, became smaller.
type shrunk struct {
	Kind       string `json:"kind"` // the extension with its dot, or the name if there is none
	Files      int    `json:"files"`
	Original   int64  `json:"original_size_bytes"`
	Compressed int64  `json:"compressed_size_bytes"`
}

// compressedJSON is what compress prints for a program.
type compressedJSON struct {
	File        string        `json:"file"`
	ID          string        `json:"id"`
	Hash        guild.Hash    `json:"hash"`
	Compression string        `json:"compression"`
	Level       string        `json:"level"`
	Files       int           `json:"files"`
	Original    int64         `json:"original_size_bytes"`
	Compressed  int64         `json:"compressed_size_bytes"` // the whole bundle
	Kinds       []shrunk      `json:"kinds"`
	Skipped     []skippedJSON `json:"skipped"`
}

func (p program) compress(ctx context.Context, f packFlags) error {
	switch {
	case f.output == "-":
		return cli.WithHint(cli.Usage(fmt.Errorf("compress writes a file and a table")), "'"+p.Hint("pack -o - --level best")+"' writes to standard output")
	case f.compression == nutshell.None:
		return cli.WithHint(cli.Usage(fmt.Errorf("--compression none shrinks nothing")), "as in --compression zstd")
	}
	if err := f.check(); err != nil {
		return err
	}
	tree, m, err := p.OwnTree(f.dir)
	if err != nil {
		return err
	}
	o, err := p.packOptions(ctx, tree, f)
	if err != nil {
		return fmt.Errorf("pack %s: %w", f.dir, err)
	}
	f.output = cmp.Or(f.output, host.Slug(m.Task().Title, "bundle")+".nut")
	info, err := p.packTo(ctx, tree, f.output, o)
	if err != nil {
		return p.packHint(fmt.Errorf("pack %s: %w", f.dir, err), f)
	}
	made := compressedJSON{
		File: f.output, ID: m.ID(), Hash: info.Hash, Compression: f.compression, Level: f.level,
		Files: len(info.Files), Compressed: info.Size, Skipped: skippedOf(info.Skipped),
	}
	if made.Kinds, err = shrink(ctx, tree, info.Files, f); err != nil {
		return err
	}
	for _, k := range made.Kinds {
		made.Original += k.Original
	}
	if f.json {
		return cli.PrintJSON(p.Out, made)
	}
	return p.printCompressed(made)
}

// kindOf is what files are told apart by.
func kindOf(name string) string {
	base := strings.ToLower(path.Base(name))
	if ext := path.Ext(base); ext != base {
		return cmp.Or(ext, base)
	}
	return base
}

// shrink measures each kind of file by itself, the largest first.
func shrink(ctx context.Context, tree fs.FS, files []nutshell.Entry, f packFlags) ([]shrunk, error) {
	kinds := make(map[string][]nutshell.Entry)
	for _, e := range files {
		kinds[kindOf(e.Path)] = append(kinds[kindOf(e.Path)], e)
	}
	all := []shrunk{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		one := shrunk{Kind: kind, Files: len(kinds[kind])}
		var err error
		if one.Original, one.Compressed, err = squeeze(ctx, tree, kinds[kind], f); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b shrunk) int { return cmp.Compare(b.Original, a.Original) })
	return all, nil
}

// squeeze compresses files one after the other, and counts the bytes before and after.
func squeeze(ctx context.Context, tree fs.FS, files []nutshell.Entry, f packFlags) (original, compressed int64, err error) {
	var out tally
	z, err := measure(&out, f)
	if err != nil {
		return 0, 0, err
	}
	for _, e := range files {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		n, err := feed(z, tree, e.Path)
		if err != nil {
			return 0, 0, err
		}
		original += n
	}
	err = z.Close()
	return original, int64(out), err
}

// measure is a compressor like that of the bundle.
func measure(w io.Writer, f packFlags) (io.WriteCloser, error) {
	best := f.level == string(nutshell.Best)
	if f.compression == nutshell.Zstd {
		level := zstd.SpeedFastest
		if best {
			level = zstd.SpeedBetterCompression
		}
		return zstd.NewWriter(w, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	}
	if best {
		return gzip.NewWriterLevel(w, gzip.BestCompression)
	}
	return gzip.NewWriterLevel(w, 2)
}

func feed(w io.Writer, tree fs.FS, name string) (int64, error) {
	f, err := tree.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(w, f)
}

// tally counts what is written to it.
type tally int64

// Write implements io.Writer.
func (t *tally) Write(b []byte) (int, error) {
	*t += tally(len(b))
	return len(b), nil
}

func (p program) printCompressed(made compressedJSON) error {
	rows := [][]string{{"kind", "files", "before", "after", "saved"}}
	for _, k := range made.Kinds {
		rows = append(rows, []string{k.Kind, fmt.Sprint(k.Files), cli.Size(k.Original), cli.Size(k.Compressed), saved(k.Original, k.Compressed)})
	}
	rows = append(rows, []string{"bundle", fmt.Sprint(made.Files), cli.Size(made.Original), cli.Size(made.Compressed), saved(made.Original, made.Compressed)})
	if err := cli.Table(p.Out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Out, "\n%s\nid    %s\nhash  %s\n", cli.Clean(made.File), cli.Clean(made.ID), made.Hash)
	return err
}

// saved is by how much something became smaller, in percent. What is small by itself may become larger.
func saved(before, after int64) string {
	if after >= before {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*(1-float64(after)/float64(before)))
}
