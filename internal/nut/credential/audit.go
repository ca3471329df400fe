package credential

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/nutshell/vault"
)

// What an audit may find.
const (
	auditExpired    = "expired"
	auditSoon       = "expires soon"
	auditForever    = "never expires"
	auditUnbounded  = "no restrictions"
	auditMissing    = "not in the vault"
	auditUnlisted   = "not in the manifest"
	auditDiffers    = "the manifest has another expiry"
	auditInTheClear = "not encrypted"
)

func (p program) vaultAuditCommand() *cobra.Command {
	var f vaultFlags
	var asJSON bool
	var within string
	cmd := &cobra.Command{
		Use:   "audit [DIR|FILE.nut]",
		Short: "Say which credentials have expired, or lack something",
		Long: `Open the vault and say what is wrong with it: what has expired or soon will,
what never does or has no restrictions, and where it and the manifest differ.

Exit code 1: something has expired.`,
		Example: "  " + p.Hint("vault audit") + "\n  " + p.Hint("vault audit --within 2w --json"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one directory or bundle at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			soon, err := duration(within)
			if err != nil {
				return cli.WithHint(cli.Usage(fmt.Errorf("--within: %w", err)), "as in 36h, 7d or 2w")
			}
			s, err := p.openVault(cmd.Context(), f.at(args))
			if err != nil {
				return err
			}
			return p.printAudit(s, s.audit(soon), asJSON)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&within, "within", "7d", "how soon is soon, as a `duration`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

// finding is one thing that an audit found.
type finding struct {
	Name    string `json:"name,omitempty"`
	Problem string `json:"problem"`
	Detail  string `json:"detail,omitempty"`
}

func (s *safe) audit(soon time.Duration) []finding {
	all := []finding{}
	if s.form == vault.Plaintext {
		all = append(all, finding{Problem: auditInTheClear, Detail: "whoever has the file has the credentials"})
	}
	for _, e := range s.entries() {
		all = append(all, s.auditEntry(e, soon)...)
	}
	for _, scope := range s.m.Credentials().Scopes {
		if _, ok := s.v.Credential(scope.Name); !ok {
			all = append(all, finding{scope.Name, auditMissing, "the manifest promises it"})
		}
	}
	return all
}

func (s *safe) auditEntry(e vaultEntry, soon time.Duration) []finding {
	var all []finding
	at := s.v.ExpiresAt(e.Name)
	switch {
	case at.IsZero():
		all = append(all, finding{e.Name, auditForever, "set an end with --expires"})
	case e.Expired:
		all = append(all, finding{e.Name, auditExpired, e.until[len("expired "):]})
	case at.Before(s.p.Now().Add(soon)):
		all = append(all, finding{e.Name, auditSoon, e.until})
	}
	if len(e.Restrictions) == 0 || oneLine(e.Restrictions) == "{}" {
		all = append(all, finding{e.Name, auditUnbounded, "whatever its scopes allow"})
	}
	for _, scope := range s.m.Credentials().Scopes {
		if scope.Name != e.Name {
			continue
		}
		if stated, err := scope.ExpiresAt.Time(); err == nil && !stated.Equal(at) || err != nil && !at.IsZero() {
			all = append(all, finding{e.Name, auditDiffers, string(scope.ExpiresAt)})
		}
		return all
	}
	return append(all, finding{e.Name, auditUnlisted, "an agent does not know of it"})
}

func (p program) printAudit(s *safe, all []finding, asJSON bool) error {
	expired := 0
	for _, f := range all {
		if f.Problem == auditExpired {
			expired++
		}
	}
	if err := p.writeAudit(s, all, asJSON); err != nil || expired == 0 {
		return err
	}
	err := fmt.Errorf("%s: %s expired", s.path, cli.Count(expired, "credential has", "credentials have"))
	if asJSON {
		return cli.Shown(err)
	}
	return cli.WithHint(err, "'"+p.Hint("vault rotate NAME")+"' gives a new value")
}

func (p program) writeAudit(s *safe, all []finding, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.Out, struct {
			Vault    string    `json:"vault"`
			Findings []finding `json:"findings"`
		}{s.path, all})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(p.Out, "%s: %s, nothing to say\n", cli.Clean(s.path), cli.Count(len(s.v.Credentials()), "credential", "credentials"))
		return err
	}
	rows := [][]string{{"NAME", "FINDING", "DETAIL"}}
	for _, f := range all {
		rows = append(rows, []string{f.Name, f.Problem, f.Detail})
	}
	return cli.Table(p.Out, rows)
}
