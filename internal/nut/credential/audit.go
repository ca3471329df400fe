package credential

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

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
	var within string
	cmd := &cobra.Command{
		Use:   "audit [DIR|FILE.nut]",
		Short: "Say which credentials have expired, or lack something",
		Long: `Open the vault and say what is wrong with it: what has expired or soon will,
what never does or has no restrictions, and where it and the manifest differ.

Exit code 1: something has expired.`,
		Example: p.Examples("vault audit", "vault audit --within 2w --json"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one directory or bundle at most"),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&within, "within", "7d", "how soon is soon, as a `duration`")
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		soon, err := duration(within)
		if err != nil {
			return nil, cli.WithHint(cli.Usage(fmt.Errorf("--within: %w", err)), "as in 36h, 7d or 2w")
		}
		s, err := p.openVault(cmd.Context(), f.at(args))
		if err != nil {
			return nil, err
		}
		return s.audit(soon)
	})
}

// auditResult is the result of an audit.
type auditResult struct {
	Vault    string    `json:"vault"`
	Findings []finding `json:"findings"`

	credentials int
}

type finding struct {
	Name    string `json:"name,omitempty"`
	Problem string `json:"problem"`
	Detail  string `json:"detail,omitempty"`
}

// audit lists the faults of an open vault, and returns an error if something has expired. A credential that expires
// within soon is a finding too.
func (s *safe) audit(soon time.Duration) (auditResult, error) {
	all := auditResult{Vault: s.path, Findings: []finding{}, credentials: len(s.v.Credentials())}
	if s.form == vault.Plaintext {
		all.add("", auditInTheClear, "whoever has the file has the credentials")
	}
	promises := make(map[string]nutshell.Scope)
	for _, scope := range s.m.Credentials().Scopes {
		if _, ok := promises[scope.Name]; !ok {
			promises[scope.Name] = scope
		}
	}
	expired := 0
	for _, e := range s.entries() {
		at := s.v.ExpiresAt(e.Name)
		switch {
		case at.IsZero():
			all.add(e.Name, auditForever, "set an end with 'rotate --expires'")
		case e.Expired:
			expired++
			all.add(e.Name, auditExpired, e.until[len("expired "):])
		case at.Before(s.p.Now().Add(soon)):
			all.add(e.Name, auditSoon, e.until)
		}
		if len(e.Restrictions) == 0 || oneLine(e.Restrictions) == "{}" {
			all.add(e.Name, auditUnbounded, "whatever its scopes allow")
		}
		promise, listed := promises[e.Name]
		stated, err := promise.ExpiresAt.Time()
		switch {
		case !listed:
			all.add(e.Name, auditUnlisted, "an agent does not know of it")
		case err == nil && !stated.Equal(at), err != nil && !at.IsZero():
			all.add(e.Name, auditDiffers, string(promise.ExpiresAt))
		}
	}
	for _, scope := range s.m.Credentials().Scopes {
		if _, ok := s.v.Credential(scope.Name); !ok {
			all.add(scope.Name, auditMissing, "the manifest promises it")
		}
	}
	if expired == 0 {
		return all, nil
	}
	err := fmt.Errorf("%s: %s expired", s.path, cli.Count(expired, "credential has", "credentials have"))
	return all, cli.WithHint(err, "'"+s.p.Hint("vault rotate NAME")+"' gives a new value")
}

func (a *auditResult) add(name, problem, detail string) {
	a.Findings = append(a.Findings, finding{Name: name, Problem: problem, Detail: detail})
}

// Print implements host.Result.
func (a auditResult) Print(p *host.Program) error {
	if len(a.Findings) == 0 {
		_, err := fmt.Fprintf(p.Out, "%s: %s, nothing to say\n", cli.Clean(a.Vault), cli.Count(a.credentials, "credential", "credentials"))
		return err
	}
	rows := [][]string{{"NAME", "FINDING", "DETAIL"}}
	for _, f := range a.Findings {
		rows = append(rows, []string{f.Name, f.Problem, f.Detail})
	}
	return cli.Table(p.Out, rows)
}
