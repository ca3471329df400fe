package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"guild/internal/cli"
)

// finding is the result of one check of doctor.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warning or failed
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// States of a finding.
const (
	stateOK      = "ok"
	stateWarning = "warning"
	stateFailed  = "failed"
)

var errUnwell = errors.New("something that guild needs is missing")

func (p *program) doctorCommand() *cobra.Command {
	return p.local(&cobra.Command{
		Use:   "doctor",
		Short: "Check this machine for what guild needs",
		Long: `doctor checks the config, the identity, the journal, the sandbox, the tools that
judge, the disk, the clock, the relays and the control socket, and says of each
that is not well what to do. It changes nothing, and exits 1 when something that
guild needs is missing.`,
		Example: "  guild doctor\n  guild doctor --json",
	}, func(cmd *cobra.Command, _ []string) (*cli.Result, error) {
		findings := p.examine(cmd.Context())
		result := &cli.Result{JSON: findings, Show: func() error {
			writeFindings(p.out, findings, colours())
			return nil
		}}
		for _, f := range findings {
			if f.State == stateFailed {
				return result, cli.WithHint(errUnwell, f.Remedy)
			}
		}
		return result, nil
	})
}

// examine runs all checks. With a broken config the others look at the defaults.
func (p *program) examine(ctx context.Context) []finding {
	c, err := p.config()
	all := []finding{checkConfig(c, err)}
	if c.Paths.Data == "" {
		return all // no place to look at
	}
	all = append(all, checkIdentity(c), checkJournal(c))
	all = append(all, checkSandbox(ctx, c)...)
	all = append(all, checkPrograms()...)
	all = append(all, checkDisk(c), p.checkClock(c), finding{Check: "socket", State: stateOK, Text: c.Socket()}, checkNode(ctx, c))
	return append(all, p.checkRelays(ctx, c)...)
}

func writeFindings(w io.Writer, findings []finding, colour palette) {
	for _, f := range findings {
		mark := colour.good.Render("✓")
		switch f.State {
		case stateWarning:
			mark = lipgloss.NewStyle().Foreground(lipgloss.Color("3")).Render("⚠")
		case stateFailed:
			mark = colour.bad.Render("✗")
		}
		line := fmt.Sprintf("%s %-9s %s", mark, f.Check, cli.Clean(f.Text))
		if f.Remedy != "" && f.State != stateOK {
			line += ": " + cli.Clean(f.Remedy)
		}
		lipgloss.Fprintln(w, line)
	}
}
