// Package draft is the verbs for a directory that becomes a bundle: they begin it, set members of its manifest, say
// what it lacks, ask a person about that, and validate the result.
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

// Check returns what a tree lacks. Every verb that requires a complete bundle uses it.
func Check(p *host.Program, tree fs.FS, packed bool) (check.Report, error) {
	return program{p}.completeness(tree, packed)
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }
