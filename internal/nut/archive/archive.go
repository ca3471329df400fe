// Package archive is the verbs for packed bundles: they pack and unpack them, show, brief and compare what is in them,
// sign them, and split a task into parts and merge what the parts deliver.
package archive

import (
	"github.com/spf13/cobra"

	"guild/internal/nut/host"
)

// Commands returns the verbs.
func Commands(p *host.Program) []*cobra.Command {
	own := program{p}
	return []*cobra.Command{
		own.packCommand(), own.unpackCommand(), own.compressCommand(), own.inspectCommand(), own.serveCommand(),
		own.contextCommand(), own.diffCommand(), own.signCommand(), own.splitCommand(), own.mergeCommand(),
	}
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }
