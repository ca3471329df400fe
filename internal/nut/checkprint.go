package nut

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"

	"guild/internal/cli"
	"guild/nutshell/check"
)

// reportJSON is what check prints for a program.
type reportJSON struct {
	Status   string       `json:"status"`
	Missing  []string     `json:"missing"`
	Warnings []string     `json:"warnings"`
	Items    []check.Item `json:"items"`
}

func (p *Program) printReport(r check.Report, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.Out, reportJSON{r.Status, r.Missing(), r.Warnings(), r.Items})
	}
	var b strings.Builder
	layOut(&b, r, cli.Colours(p.Out))
	_, err := io.WriteString(p.Out, b.String())
	return err
}

// layOut writes a report in the layout of section 4 of the specification.
func layOut(w io.Writer, r check.Report, colours bool) {
	fmt.Fprint(w, "\n  🐚 Nutshell Completeness Check\n\n")
	printItems(w, r.Items, colours)
	fmt.Fprintf(w, "\n  Status: %s\n", verdict(r))
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

// sign is the mark of a line: ✓, ✗ or ⚠.
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

// verdict is what the status line says.
func verdict(r check.Report) string {
	goal, done := "agent can start", "agent can start"
	if r.Delivery {
		goal, done = "it can be delivered", "it can be delivered"
	}
	if !r.Ready() {
		n := r.Count(check.Missing)
		return fmt.Sprintf("%s — %s attention before %s", strings.ToUpper(r.Status), counted(n, "item needs", "items need"), goal)
	}
	if n := r.Count(check.Warning); n > 0 {
		done += ", with " + counted(n, "warning", "warnings")
	}
	return "READY — " + done
}

// within is how to call a verb for a directory, which need not be named if it is this one.
func (p *Program) within(dir, verb string) string {
	if dir == "." {
		return p.hint(verb)
	}
	if strings.ContainsFunc(dir, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./", r)
	}) {
		dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return p.hint(verb + " --dir " + dir)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// fixes lists what to do about the items with a mark, each thing once.
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

// printFixes writes a numbered list. What a fix has beside its first line stands below it.
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
