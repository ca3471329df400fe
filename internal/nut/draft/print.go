package draft

import (
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell/check"
)

// reportResult is a report of check, for printing.
type reportResult struct {
	Status   string       `json:"status"`
	Missing  []string     `json:"missing"`
	Warnings []string     `json:"warnings"`
	Items    []check.Item `json:"items"`

	report check.Report
}

func newReport(r check.Report) reportResult {
	return reportResult{Status: r.Status, Missing: r.Missing(), Warnings: r.Warnings(), Items: r.Items, report: r}
}

// Print implements host.Result.
func (r reportResult) Print(p *host.Program) error { return Print(p.Out, r.report, false) }

// Print writes a report for a person, or as JSON.
func Print(w io.Writer, r check.Report, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(w, newReport(r))
	}
	var b strings.Builder
	layOut(&b, r, cli.Colours(w))
	_, err := io.WriteString(w, b.String())
	return err
}

// layOut writes a report in the layout of section 4 of the specification.
func layOut(w io.Writer, r check.Report, colours bool) {
	fmt.Fprint(w, "\n  🐚 Nutshell Completeness Check\n\n")
	printItems(w, r.Items, colours)
	fmt.Fprintf(w, "\n  Status: %s\n", r.Verdict())
	if gaps := fixes(r, check.Missing); len(gaps) > 0 {
		printFixes(w, "To fix:", gaps)
	} else if r.Ready() {
		printFixes(w, "To improve:", fixes(r, check.Warning))
	}
}

func printItems(w io.Writer, items []check.Item, colours bool) {
	for _, i := range items {
		fmt.Fprintf(w, "  %s %s\n", sign(i.Mark, colours), cli.Clean(i.Text))
	}
}

// sign returns the mark of a line: ✓, ✗ or ⚠.
func sign(m check.Mark, colours bool) string {
	mark, colour := "✓", lipgloss.Green
	switch m {
	case check.Missing:
		mark, colour = "✗", lipgloss.Red
	case check.Warning:
		mark, colour = "⚠", lipgloss.Yellow
	}
	if !colours {
		return mark
	}
	return lipgloss.NewStyle().Foreground(colour).Render(mark)
}

// fixes returns what to do about the items with a mark, without duplicates.
func fixes(r check.Report, m check.Mark) []string {
	var all []string
	seen := make(map[string]bool)
	for _, i := range r.Items {
		if i.Mark == m && i.Fix != "" && !seen[i.Fix] {
			seen[i.Fix] = true
			all = append(all, i.Fix)
		}
	}
	return all
}

// printFixes writes a numbered list. The further lines of a fix are indented.
func printFixes(w io.Writer, head string, fixes []string) {
	if len(fixes) == 0 {
		return
	}
	fmt.Fprintf(w, "\n  %s\n", head)
	for i, fix := range fixes {
		number := fmt.Sprintf("    %d. ", i+1)
		for line := range strings.SplitSeq(fix, "\n") {
			fmt.Fprintf(w, "%s%s\n", number, cli.Clean(line))
			number = strings.Repeat(" ", len(number))
		}
	}
}
