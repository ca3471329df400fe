// Package nut is the verbs for Nutshell bundles, which `guild nut` and the program nutshell share. They work on
// directories and files of this machine and need no node. Each verb is in the package of its subject: draft (a directory
// that becomes a bundle), archive (the packed file), credential (the vault) and market (the task server).
//
// The verbs decide nothing about the format. They call nutshell and the packages below it, print the results for a person
// or, with --json, for a program, and write files whole or not at all.
package nut

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"guild/internal/nut/archive"
	"guild/internal/nut/credential"
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/internal/nut/market"
)

// Commands returns the verbs, for cli.Group.
func Commands(p *host.Program) []*cobra.Command {
	own := program{p}
	p.Decrypt = func(ctx context.Context, r io.Reader) (io.Reader, error) { return credential.Decrypt(ctx, p, r) }
	return slices.Concat(draft.Commands(p), archive.Commands(p), credential.Commands(p), market.Commands(p),
		[]*cobra.Command{own.schemaCommand(), own.versionCommand()})
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }
