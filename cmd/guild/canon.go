package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"guild"
	"guild/canon"
	"guild/internal/cli"
)

func (p *program) canonCommand() *cobra.Command {
	var hash bool
	cmd := p.local(&cobra.Command{
		Use:   "canon [FILE|-]",
		Short: "Print JSON in canonical form, or its hash",
		Long: `canon prints a JSON document in the form in which receipts and trajectories hash
it: keys in order, no white space, strings and numbers as serde_json writes
them. It is not RFC 8785: 1.0 stays 1.0. Without a file, or with -, it reads
standard input. Documents that two readers could read differently are refused:
duplicate keys, NaN, invalid UTF-8. Then the exit code is 1, and the output so
far is not a document. Prints no trailing newline unless stdout is a terminal,
because the hash is that of the printed bytes.`,
		Example: "  guild canon result.json\n  guild canon --hash result.json\n  guild receipt show 5f21c9aa --json | guild canon --hash",
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		name := append(args, "-")[0]
		in, err := p.input(name)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		if hash || cli.AsJSON(cmd) {
			h, err := canon.HashOf(in)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", inputName(name), err)
			}
			return p.hashed(h), nil
		}
		if err := canon.Copy(p.out, in); err != nil {
			return nil, fmt.Errorf("%s: %w", inputName(name), err)
		}
		if cli.IsTerminal(p.out) {
			fmt.Fprintln(p.out)
		}
		return nil, nil
	})
	cmd.Flags().BoolVar(&hash, "hash", false, "print only the hash, as sha256:…")
	cmd.Flag("json").Usage = "print the hash as JSON"
	return cmd
}

// hashed returns the result of a verb that computes a hash.
func (p *program) hashed(h guild.Hash) *cli.Result {
	return &cli.Result{JSON: map[string]string{"hash": h.String()}, Show: func() error {
		_, err := fmt.Fprintln(p.out, h)
		return err
	}}
}

// errDirectory is the error where a file is needed.
var errDirectory = errors.New("is a directory")

// input opens a file, or standard input if it is named -.
func (p *program) input(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(p.in), nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s %w", name, errDirectory)
	}
	return os.Open(name)
}

func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}
