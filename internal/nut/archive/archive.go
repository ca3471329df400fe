// Package archive is the verbs for packed bundles: they pack and unpack them, show, brief and compare what is in them,
// sign them, and split a task into parts and merge what the parts deliver.
package archive

import (
	"context"

	"github.com/spf13/cobra"

	"guild/internal/nut/host"
	"guild/nutshell/clawnet"
)

// Commands returns the verbs.
func Commands(p *host.Program) []*cobra.Command {
	own := program{p}
	return []*cobra.Command{
		own.packCommand(), own.unpackCommand(), own.compressCommand(), own.inspectCommand(), own.serveCommand(),
		own.contextCommand(), own.diffCommand(), own.signCommand(), own.splitCommand(), own.mergeCommand(),
	}
}

// Share packs a directory for others: without its vault, and with this extension in its manifest, but without the notes
// of where it was published. The caller closes the file.
func Share(ctx context.Context, p *host.Program, dir string, e clawnet.Extension) (*Shared, error) {
	return program{p}.share(ctx, dir, e)
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }
