package archive

import (
	"cmp"
	"context"
	"errors"
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
		Short: "Pack a directory as small or as fast as possible",
		Long: `Pack a directory without asking whether it is complete, and list by kind of file
how much it shrank. Each kind is measured by itself; in the bundle they share
what they have in common.`,
		Example: p.Examples("compress --dir my-task", "compress --level fast -o my-task.nut"),
		Args:    cli.NoArgs(),
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringVarP(&f.output, "output", "o", "", "the file to write; <title>.nut if not given")
	flags.StringVar(&f.level, "level", string(nutshell.Best), "fast or best")
	flags.StringVar(&f.compression, "compression", nutshell.Gzip, "gzip or zstd")
	flags.BoolVar(&f.plaintext, "insecure-plaintext", false, "pack a vault that is not encrypted")
	cli.Choices(cmd, "level", string(nutshell.Fast), string(nutshell.Best))
	cli.Choices(cmd, "compression", nutshell.Gzip, nutshell.Zstd)
	p.LimitFlag(cmd)
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, _ []string) (host.Result, error) {
		return p.compress(cmd.Context(), f)
	})
}

func (p program) compress(ctx context.Context, f packFlags) (host.Result, error) {
	switch {
	case f.output == "-":
		return nil, cli.WithHint(cli.Usage(errors.New("compress writes a file and a table")), "'"+p.Hint("pack -o - --level best")+"' writes to standard output")
	case f.compression == nutshell.None:
		return nil, cli.WithHint(cli.Usage(errors.New("--compression none shrinks nothing")), "as in --compression zstd")
	}
	b, err := p.packDir(ctx, f)
	if err != nil {
		return nil, err
	}
	result := compressResult{
		File: b.output, ID: b.m.ID(), Hash: b.info.Hash, Compression: f.compression, Level: f.level,
		Files: len(b.info.Files), Compressed: b.info.Size, Skipped: skipped(b.info.Skipped),
	}
	if result.Kinds, err = shrink(ctx, b.tree, b.info.Files, f); err != nil {
		return nil, err
	}
	for _, k := range result.Kinds {
		result.Original += k.Original
	}
	return result, nil
}

// compressResult describes the new bundle, and how much it shrank.
type compressResult struct {
	File        string      `json:"file"`
	ID          string      `json:"id"`
	Hash        guild.Hash  `json:"hash"`
	Compression string      `json:"compression"`
	Level       string      `json:"level"`
	Files       int         `json:"files"`
	Original    int64       `json:"original_size_bytes"`
	Compressed  int64       `json:"compressed_size_bytes"` // the whole bundle
	Kinds       []shrinkage `json:"kinds"`
	Skipped     []skip      `json:"skipped"`
}

// shrinkage compares the size of the files of one kind before and after.
type shrinkage struct {
	Kind       string `json:"kind"` // the extension with its dot, or the name if there is none
	Files      int    `json:"files"`
	Original   int64  `json:"original_size_bytes"`
	Compressed int64  `json:"compressed_size_bytes"`
}

// Print implements host.Result.
func (r compressResult) Print(p *host.Program) error {
	rows := [][]string{{"kind", "files", "before", "after", "saved"}}
	for _, k := range append(r.Kinds, shrinkage{Kind: "bundle", Files: r.Files, Original: r.Original, Compressed: r.Compressed}) {
		saved := "-" // small files may become larger
		if k.Compressed < k.Original {
			saved = fmt.Sprintf("%.0f %%", 100*(1-float64(k.Compressed)/float64(k.Original)))
		}
		rows = append(rows, []string{k.Kind, fmt.Sprint(k.Files), cli.Size(k.Original), cli.Size(k.Compressed), saved})
	}
	if err := cli.Table(p.Out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Out, "\n%s\nid    %s\nhash  %s\n", cli.Clean(r.File), cli.Clean(r.ID), r.Hash)
	return err
}

// shrink measures each kind of file by itself, the largest first.
func shrink(ctx context.Context, tree fs.FS, files []nutshell.Entry, f packFlags) ([]shrinkage, error) {
	kinds := make(map[string][]nutshell.Entry)
	for _, e := range files {
		kind := strings.ToLower(path.Base(e.Path))
		if ext := path.Ext(kind); ext != kind {
			kind = cmp.Or(ext, kind)
		}
		kinds[kind] = append(kinds[kind], e)
	}
	all := []shrinkage{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		one := shrinkage{Kind: kind, Files: len(kinds[kind])}
		var err error
		if one.Original, one.Compressed, err = squeeze(ctx, tree, kinds[kind], f); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b shrinkage) int { return cmp.Compare(b.Original, a.Original) })
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
		in, err := tree.Open(e.Path)
		if err != nil {
			return 0, 0, err
		}
		n, err := io.Copy(z, in)
		in.Close()
		if err != nil {
			return 0, 0, err
		}
		original += n
	}
	err = z.Close()
	return original, int64(out), err
}

// measure returns a compressor like that of the bundle.
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

// tally counts what is written to it.
type tally int64

// Write implements io.Writer.
func (t *tally) Write(b []byte) (int, error) {
	*t += tally(len(b))
	return len(b), nil
}
