// Package nut is the verbs for Nutshell bundles: `guild nut` and the program nutshell have the same ones. Each verb
// is one file. They work on directories and files of this machine and need no node.
//
// The package decides nothing about the format; it asks nutshell and the packages below it, puts what they say
// before a person or, with --json, a program, and writes files whole or not at all.
package nut

import (
	"context"
	"io"
	"time"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"
)

// Program is what every verb gets from the program that it is part of.
type Program struct {
	Name string // how a person calls it, for hints: "nutshell" or "guild nut"

	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time
	Random   io.Reader

	// Signer is the person's Nostr key. It may ask for a passphrase.
	Signer func(context.Context) (nostr.Keyer, error)

	// ConfigDir is where the person's age identity is kept. It need not exist.
	ConfigDir func() (string, error)

	// AskSecret reads a line without echo; cli.AskSecret where there is a terminal.
	AskSecret func(prompt string) ([]byte, error)
}

// Commands returns the verbs, for cli.Group.
func (p *Program) Commands() []*cobra.Command {
	return []*cobra.Command{
		p.initCommand(), p.checkCommand(), p.validateCommand(), p.setCommand(), p.schemaCommand(),
		p.packCommand(), p.unpackCommand(), p.inspectCommand(), p.diffCommand(), p.contextCommand(),
		p.signCommand(), p.addCredentialCommand(), p.vaultCommand(), p.rotateCommand(), p.splitCommand(),
		p.mergeCommand(), p.compressCommand(), p.serveCommand(), p.deliverCommand(), p.publishCommand(),
		p.bidsCommand(), p.bidCommand(), p.assignCommand(), p.claimCommand(), p.submitCommand(),
		p.approveCommand(), p.versionCommand(),
	}
}

// hint is how to call a verb of this program.
func (p *Program) hint(verb string) string { return p.Name + " " + verb }
