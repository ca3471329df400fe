package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) judgeCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "judge",
		Short: "Judge deliveries, explain verdicts, decide cases left to a person",
		Example: "  guild judge run ./my-task ./its-delivery\n" +
			"  guild judge explain 5f21c9aa\n  guild judge doctor",
	}, p.judgeRunCommand(), p.judgeVetCommand(), p.judgeExplainCommand(), p.judgeRuleCommand(), p.judgeCompareCommand(), p.judgeDoctorCommand())
}

func (p *program) judgeExplainCommand() *cobra.Command {
	var cmd *cobra.Command
	cmd = call(p, p.reading, control.Evidence, &cobra.Command{
		Use:   "explain JOB",
		Short: "Show the grounds of a verdict",
		Long: `explain shows the judge's record of each delivery of a job: the tests with their
output, the measurements, the sandbox, the findings of static analysis, and the
claims of the delivery. --json prints all the evidence.

JOB is a job's id or the beginning of one.`,
		Example: "  guild judge explain 5f21c9aa\n  guild judge explain 5f21c9aa --json | jq '.[0].evidence.findings'",
	}, func(exams []control.Exam) error {
		if len(exams) == 0 {
			id := cmd.Flags().Arg(0)
			return cli.WithHint(fmt.Errorf("nothing of job %s was judged yet", id), "guild job show "+id)
		}
		for i, e := range exams {
			if i > 0 {
				fmt.Fprintln(p.out)
			}
			p.explain(e)
		}
		return nil
	})
	return cmd
}

// explain shows one attempt: the whole verdict when the evidence has it, else the one in the fact.
func (p *program) explain(e control.Exam) {
	fmt.Fprintf(p.out, "attempt     %s by %s\n", short(e.Attempt), cli.Clean(e.Name)) // which ends with the npub
	if e.Verdict == nil {
		fmt.Fprintf(p.out, "no verdict  %s\n", cli.Clean(e.Reason))
		return
	}
	if e.Held {
		fmt.Fprintf(p.out, "waits       for a person: guild judge rule JOB accept|partial|reject\n")
	}
	if e.Usage != nil {
		fmt.Fprintf(p.out, "usage       %s\n", claimOf(*e.Usage))
	}
	writeVerdict(p.out, unabridged(*e.Verdict, e.Evidence), colours())
}

// unabridged returns a verdict with the parts that only its evidence has: all tests, and what hidden tests showed. The
// decision stays that of the verdict.
func unabridged(v guild.Verdict, evidence json.RawMessage) guild.Verdict {
	var whole struct{ Verdict guild.Verdict }
	if json.Unmarshal(evidence, &whole) != nil || whole.Verdict.Outcome == "" {
		return v
	}
	whole.Verdict.Ruling = v.Ruling
	whole.Verdict.Outcome, whole.Verdict.Cause = v.Outcome, v.Cause
	whole.Verdict.Score, whole.Verdict.Dimensions, whole.Verdict.Standing = v.Score, v.Dimensions, v.Standing
	return whole.Verdict
}

// writeVerdict prints a verdict for a person: the outcome, the tests, the score, and the grounds.
func writeVerdict(w io.Writer, v guild.Verdict, colour palette) {
	mark := colour.bad.Render("✗")
	if v.Outcome == guild.Success {
		mark = colour.good.Render("✓")
	}
	line(w, "%s %s, %d of %d passed, score %s, %s, in %s", mark, v.Outcome, v.Passed, v.Expected, v.Score, v.Strength, v.Tier)
	writeStrengths(w, v)
	if v.Cause != "" {
		line(w, "  cause       %s", cli.Clean(v.Cause))
	}
	for _, b := range v.Breaches {
		line(w, "  %s violation %s %s", colour.bad.Render("✗"), cli.Clean(b.Syscall), cli.Clean(b.Detail))
	}
	for _, t := range v.Tests {
		writeTest(w, t, colour)
	}
	writeScore(w, v)
	writeGrounds(w, v)
}

// writeStrengths prints what the verdict rests on.
func writeStrengths(w io.Writer, v guild.Verdict) {
	if v.Strengths != nil {
		line(w, "  rests on    %s", restsOn(*v.Strengths))
	}
	if len(v.Unproven) > 0 {
		line(w, "  unproven    %s", cli.Clean(strings.Join(v.Unproven, ", ")))
	}
}

// restsOn describes the functional tests that passed.
func restsOn(s guild.Strengths) string {
	list := func(words ...any) string {
		var parts []string
		for i := 0; i < len(words); i += 2 {
			if words[i] != 0 {
				parts = append(parts, fmt.Sprintf("%d %s", words[i], words[i+1]))
			}
		}
		return strings.Join(parts, ", ")
	}
	strengths := list(s.Strong, guild.Strong, s.Mixed, guild.Mixed, s.Weak, guild.Weak)
	exposures := list(s.Visible, guild.Visible, s.Hidden, guild.Hidden, s.Drawn, guild.Drawn)
	switch {
	case strengths == "":
		return "no test that could tell right from wrong"
	case exposures == "":
		return strengths
	}
	return strengths + "; " + exposures
}

func writeTest(w io.Writer, t guild.Test, colour palette) {
	mark := colour.bad.Render(testMark(t.State))
	if t.State == guild.TestPassed {
		mark = colour.good.Render(testMark(t.State))
	}
	text := "  " + mark + " " + cli.Clean(t.ID)
	if t.Layer != "" && t.Layer != guild.LayerCorrectness {
		text += " (" + t.Layer + ")"
	}
	if t.Strength != "" && t.Strength != guild.Strong {
		text += " [" + string(t.Strength) + "]"
	}
	if t.Exposure != "" && t.Exposure != guild.Visible {
		text += " [" + string(t.Exposure) + "]"
	}
	if t.Decided > 0 {
		text += fmt.Sprintf(" [%d decided by the delivery]", t.Decided)
	}
	if t.State != guild.TestPassed {
		text += "  " + t.State
		if t.Message != "" {
			text += ": " + cli.Cut(cli.Clean(firstOf(t.Message)), 100)
		}
		if t.Blame != "" && t.Blame != guild.BlameDelivery {
			text += fmt.Sprintf(" [at fault: %s, %s]", t.Blame, cli.Cut(cli.Clean(t.Because), 200))
		}
	}
	line(w, "%s", text)
	if t.State == guild.TestPassed && t.Strength != guild.Strong && t.Because != "" {
		line(w, "      %s", cli.Cut(cli.Clean(t.Because), 200))
	}
}

// firstOf returns the first line that is not empty.
func firstOf(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return first
}

// writeScore prints the parts of the score.
func writeScore(w io.Writer, v guild.Verdict) {
	var terms []string
	weights, sum := int64(0), int64(0)
	for _, d := range v.Dimensions {
		text := fmt.Sprintf("  %-11s %3d %%  %s", d.Name, d.Weight, d.Value)
		if !d.Known {
			text = fmt.Sprintf("  %-11s    –  left out", d.Name)
		}
		if d.Known && d.Weight > 0 {
			terms = append(terms, fmt.Sprintf("%d × %s", d.Weight, d.Value))
			weights, sum = weights+d.Weight, sum+d.Weight*int64(d.Value)
		}
		if d.Reason != "" {
			text += ": " + cli.Clean(d.Reason)
		}
		line(w, "%s", text)
	}
	if weights > 0 && guild.Score(sum/weights).String() == v.Score.String() { // of some verdicts it is capped
		line(w, "  score       %s = (%s) / %d: the mean of what was measured, by weight", v.Score, strings.Join(terms, " + "), weights)
	}
	var words []string
	if v.Standing != "" {
		words = append(words, "standing "+string(v.Standing))
	}
	if v.Speed != "" {
		words = append(words, string(v.Speed))
	}
	if words = append(words, v.Annotations...); len(words) > 0 {
		line(w, "  %s", strings.Join(words, ", "))
	}
}

// writeGrounds prints the grounds of the verdict.
func writeGrounds(w io.Writer, v guild.Verdict) {
	u := v.Usage
	waited := ""
	if u.WaitedMs > 0 {
		waited = fmt.Sprintf(" (up to %d of them waiting for a processor)", u.WaitedMs)
	}
	line(w, "  used        %d ms%s, %d ms of processor time, %d MB of memory, %d MB on disk, %d processes, %d calls refused",
		u.WallMs, waited, u.CPUMs, u.MemoryPeak>>20, u.DiskPeak>>20, u.PidsPeak, u.Refused)
	if q := v.Quality; q != nil {
		for _, n := range q.Findings[:min(len(q.Findings), 10)] {
			line(w, "  %-11s %s %s %s:%d %s", cli.Clean(n.Tool), cli.Clean(n.Code), n.Severity, cli.Clean(n.File), n.Line, cli.Cut(cli.Clean(n.Text), 60))
		}
	}
	if c := v.Claims; c != nil {
		line(w, "  claims      %d passed, %d failed, %d skipped, by the delivery's own word", c.Passed, c.Failed, c.Skipped)
	}
	if r := v.Ruling; r != nil {
		line(w, "  ruled       by %s: %s", short(r.By), cli.Clean(r.Note))
	}
	if o := v.Opinion; o != nil {
		line(w, "  opinion     %s: %d of %d agree %s", o.Adjudication, o.Agreeing, o.Voters, cli.Clean(o.Reason))
	}
	for _, c := range v.Hidden {
		line(w, "  hidden      %s matches its commitment %s", cli.Clean(c.Path), c.Hash)
	}
	for _, text := range v.Warnings {
		line(w, "  warning     %s", cli.Clean(text))
	}
	if b := v.Box; b != nil {
		line(w, "  walls       %s; %s; %s", b.Rootfs, orNone(b.MAC), b.Profile)
	}
	var tools []string
	for _, t := range v.Tools {
		tools = append(tools, cli.Clean(t.Name)+" "+cli.Clean(t.Version))
	}
	if len(tools) > 0 {
		line(w, "  tools       %s", strings.Join(tools, ", "))
	}
}

func orNone(mac string) string { return cmp.Or(mac, "no mandatory access control") }

func (p *program) judgeRuleCommand() *cobra.Command {
	var rule control.Rule
	cmd := send(p, p.running, control.RuleJob, &cobra.Command{
		Use:   "rule JOB accept|partial|reject",
		Short: "Decide on a delivery whose criteria ask for a person",
		Long: `rule gives the verdict if no program can: for a delivery whose criteria say
"auto_verifiable": false, ask for a human review, or are a checklist. The
findings of programs stay in the verdict beside the ruling; guild judge explain
JOB shows them.`,
		Example: "  guild judge rule 5f21c9aa accept\n  guild judge rule 5f21c9aa reject --note 'the third point is missing'",
		Args:    cli.Arity(cobra.ExactArgs(2), "a job and accept, partial or reject"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"accept", "partial", "reject"}, cobra.ShellCompDirectiveNoFileComp
			}
			return p.completeJobs(cmd, args, typed)
		},
	}, func(_ *cobra.Command, args []string) (control.Rule, []string, error) {
		outcome, ok := map[string]guild.Outcome{"accept": guild.Success, "partial": guild.Partial, "reject": guild.Failure}[args[1]]
		if !ok {
			return rule, nil, cli.WithHint(fmt.Errorf("%q is not a ruling", args[1]), "accept, partial or reject")
		}
		rule.Outcome = outcome
		return rule, args[:1], nil
	}, func(job control.Job) error {
		_, err := fmt.Fprintf(p.out, "job %s: ruled %s\n", short(job.ID), rule.Outcome)
		return err
	})
	cmd.Flags().StringVar(&rule.Note, "note", "", "why, for the record")
	cmd.Flags().StringVar(&rule.Attempt, "attempt", "", "which attempt, when several wait")
	return cmd
}

// line writes a line in colours that w can show.
func line(w io.Writer, format string, args ...any) {
	lipgloss.Fprintln(w, fmt.Sprintf(format, args...))
}
