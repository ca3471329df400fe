// Package draft is the verbs for a directory that becomes a bundle: they begin it, set members of its manifest, say
// what it lacks, go through that with a person, and say whether it holds together.
package draft

import (
	"io/fs"

	"github.com/spf13/cobra"

	"guild/internal/nut/host"
	"guild/nutshell/check"
)

// Commands returns the verbs.
func Commands(p *host.Program) []*cobra.Command {
	own := program{p}
	return []*cobra.Command{own.initCommand(), own.checkCommand(), own.validateCommand(), own.setCommand()}
}

// Check looks for what a tree lacks, the way that every verb does which wants a bundle to be ready.
func Check(p *host.Program, tree fs.FS, packed bool) (check.Report, error) {
	return program{p}.completeness(tree, packed)
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }
