// Package market is the verbs that talk to a task server: publish a bundle as a task, bid, assign, claim, and hand in
// what was made. The server is asked through taskserver; what it says is a stranger's word.
package market

import (
	"github.com/spf13/cobra"

	"guild/internal/nut/host"
)

// Commands returns the verbs.
func Commands(p *host.Program) []*cobra.Command {
	own := program{p}
	return []*cobra.Command{
		own.publishCommand(), own.bidsCommand(), own.bidCommand(), own.assignCommand(), own.claimCommand(),
		own.deliverCommand(), own.submitCommand(), own.approveCommand(),
	}
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }
