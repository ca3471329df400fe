package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"guild/internal/cli"
)

func (p *program) manCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "man [VERB...]",
		Short: "Print the manual page of a verb, or write all of them",
		Long: `man prints the manual page of guild, or of a verb, for man to show. With --dir
it writes the pages of all verbs into a directory.`,
		Example: "  guild man | man -l -\n  guild man job apply | man -l -\n  guild man --dir ~/.local/share/man/man1",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, words []string) error {
			if dir == "" {
				return p.printManual(cmd.Root(), words)
			}
			if len(words) > 0 {
				return cli.Usage(fmt.Errorf("%s takes a verb or --dir, not both", cmd.CommandPath()))
			}
			return p.writeManual(cmd.Root(), dir)
		},
		ValidArgsFunction: cli.CompleteVerbs,
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory for the pages of all verbs")
	return cmd
}

func manHeader() *doc.GenManHeader {
	return &doc.GenManHeader{Section: "1", Source: "guild " + build().Version, Manual: "guild"}
}

func (p *program) printManual(root *cobra.Command, words []string) error {
	found, err := cli.FindVerb(root, words)
	if err != nil {
		return err
	}
	return doc.GenMan(found, manHeader(), p.out)
}

// writeManual writes a page for each verb, and names the directory.
func (p *program) writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := doc.GenManTree(root, manHeader(), dir); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, root.Name()+"*.1"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s in %s\n", cli.Count(len(pages), "page", "pages"), dir)
	return err
}
