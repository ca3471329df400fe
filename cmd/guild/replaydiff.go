package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/replay"
)

// comparison is the output of replay diff --json.
type comparison struct {
	Same   bool           `json:"same"`
	A      sessionTotals  `json:"a"`
	B      sessionTotals  `json:"b"`
	Counts map[string]int `json:"counts"` // of calls, by relation
	Calls  []comparedCall `json:"calls"`
	Steps  bool           `json:"steps_differ"`
	Checks bool           `json:"verification_differs"`
	Status bool           `json:"status_differs"`
}

// sessionTotals sums up a session.
type sessionTotals struct {
	Session    string         `json:"session_id"`
	Status     replay.Status  `json:"status"`
	Confidence float64        `json:"confidence"`
	Calls      int            `json:"calls"`
	LatencyMs  int64          `json:"latency_ms"`  // of all calls together
	DurationMs int64          `json:"duration_ms"` // from start to end; 0 if it is not said
	Checks     []string       `json:"verification"`
	Steps      []string       `json:"steps"`
	Others     map[string]int `json:"other_events"`
}

// comparedCall is a call of A beside one of B.
type comparedCall struct {
	Relation replay.Relation `json:"relation"`
	A        *callSide       `json:"a"`
	B        *callSide       `json:"b"`
}

// callSide is one of two calls.
type callSide struct {
	ID         string `json:"id"`
	Tool       string `json:"tool"`
	ParamsHash string `json:"params_hash"`
	OutputHash string `json:"output_hash,omitempty"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	LatencyMs  int64  `json:"latency_ms"`

	params string
}

// exitDifferent is for trajectories that differ, as diff has it. Trouble is exitUsage there.
const exitDifferent = 1

func (p *program) replayDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two trajectories, call by call",
		Long: `diff compares two trajectories: files, jobs, attempts as JOB/ATTEMPT, or
receipts. It pairs calls of the same tool with the same params, and between them
calls of the same tool with other params. It lists calls with different outputs,
and compares checks, steps, ends and times. Times alone are no difference. In a
node's record of a job, ids, times, and hashes that follow from them are no
difference either: the params are shown and hashed without them.

Exit codes:
  0  the same
  1  different
  2  trouble: one cannot be read`,
		Example: "  guild replay diff 5f21c9aa a077c1d2\n  guild replay diff 5f21c9aa/03 5f21c9aa/7e\n  guild replay diff mine.jsonl theirs.jsonl --json",
		Args:    cli.Arity(cobra.ExactArgs(2), "two files, jobs or receipts"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runReplayDiff(cmd.Context(), args[0], args[1], cli.AsJSON(cmd))
		},
		ValidArgsFunction: p.completeJobsAndFiles,
	}
	cli.JSONFlag(cmd, "print JSON")
	return cmd
}

func (p *program) runReplayDiff(ctx context.Context, nameA, nameB string, asJSON bool) error {
	if nameA == "-" && nameB == "-" {
		return cli.Usage(errors.New("standard input can be read once only"))
	}
	a, err := p.session(ctx, nameA)
	if err != nil {
		return cli.WithCode(err, exitUsage)
	}
	b, err := p.session(ctx, nameB)
	if err != nil {
		return cli.WithCode(err, exitUsage)
	}
	c := compareSessions(a, b)
	if err := printed(p, asJSON, c, p.printComparison); err != nil {
		return cli.WithCode(err, exitUsage)
	}
	if !c.Same {
		return cli.Shown(cli.WithCode(errors.New("different"), exitDifferent))
	}
	return nil
}

// session reads a trajectory that has no fault, or a bundle.
func (p *program) session(ctx context.Context, name string) (replay.Session, error) {
	raw, err := p.trajectory(ctx, name)
	if err != nil {
		return replay.Session{}, err
	}
	if isBundle(raw) {
		var made bytes.Buffer
		if _, err := replay.FromBundle(&made, raw); err != nil {
			return replay.Session{}, fmt.Errorf("%s: %w", inputName(name), err)
		}
		raw = made.Bytes()
	}
	var events []replay.Event
	for line, err := range replay.Read(bytes.NewReader(raw)) {
		if err != nil {
			return replay.Session{}, cli.WithHint(fmt.Errorf("%s: %w", inputName(name), err), "guild replay check says what is wrong with a trajectory")
		}
		events = append(events, line.Event)
	}
	for i, e := range events {
		if call, ok := e.(replay.ToolCall); ok {
			call.Params = withoutOnce(call)
			events[i] = call
		}
	}
	return replay.Collect(events), nil
}

// nodesTool matches the tools in a trajectory that a node wrote of a job. Tools of agents have other names.
var nodesTool = regexp.MustCompile(`^(bundle\.pack|judge\.run|nostr\.(publish|quote|feedback|result|refused|objection)|wait|cancel|park)$`)

// onlyOnce lists the params of a node's calls that differ each time: ids, times, durations, and hashes over such. The
// delivery is compared as the output of its call.
var onlyOnce = []string{
	"job", "attempt", "result", "event", "message", "idempotency_key", "deadline", "silence", "latency_ms", "verdict", "hash", "held",
	"deletion", "answer", "invoice", "delivery", "size",
}

// withoutOnce returns the params of a call without those that differ each time.
func withoutOnce(call replay.ToolCall) json.RawMessage {
	var params map[string]json.RawMessage
	if !nodesTool.MatchString(call.Tool) || json.Unmarshal(call.Params, &params) != nil {
		return call.Params
	}
	for _, name := range onlyOnce {
		delete(params, name)
	}
	left, err := json.Marshal(params)
	if err != nil {
		return call.Params
	}
	return left
}

func compareSessions(a, b replay.Session) comparison {
	d := replay.Compare(a, b)
	c := comparison{Same: d.Same(), A: totals(a), B: totals(b), Counts: map[string]int{}, Calls: []comparedCall{}, Steps: d.Steps, Checks: d.Checks, Status: d.Status}
	for _, pair := range d.Pairs {
		c.Counts[string(pair.Relation)]++
		c.Calls = append(c.Calls, comparedCall{pair.Relation, side(pair.A), side(pair.B)})
	}
	return c
}

func totals(s replay.Session) sessionTotals {
	t := sessionTotals{
		Session: s.Start.SessionID, Status: s.End.Status, Confidence: float64(s.End.Confidence), Calls: len(s.Calls), LatencyMs: s.Latency(),
		DurationMs: s.Duration().Milliseconds(), Checks: []string{}, Steps: []string{}, Others: s.Others,
	}
	for _, check := range s.Checks {
		_, text, _ := verificationWords(check)
		t.Checks = append(t.Checks, text)
	}
	for _, step := range s.Steps {
		t.Steps = append(t.Steps, fmt.Sprintf("%s %s", step.StepID, step.Status))
	}
	return t
}

func side(c *replay.Call) *callSide {
	if c == nil {
		return nil
	}
	s := &callSide{ID: c.ID, Tool: c.Tool, ParamsHash: c.ParamsHash, params: string(c.Params)}
	if c.Result != nil {
		s.OutputHash, s.ExitCode, s.LatencyMs = c.Result.OutputHash, c.Result.ExitCode, c.Result.LatencyMs
	}
	return s
}

func (p *program) printComparison(c comparison) error {
	mark := func(differ bool) string {
		if differ {
			return "≠"
		}
		return ""
	}
	list := func(all []string) string { return cli.Cut(cmp.Or(strings.Join(all, ", "), "-"), 40) }
	rows := [][]string{
		{"", "", "A", "B"},
		{"", "session", cli.Cut(c.A.Session, 40), cli.Cut(c.B.Session, 40)},
		{mark(c.Status), "end", string(c.A.Status), string(c.B.Status)},
		{"", "confidence", fmt.Sprintf("%.2f", c.A.Confidence), fmt.Sprintf("%.2f", c.B.Confidence)},
		{mark(len(c.Calls) != c.Counts[string(replay.Same)]), "calls", c.callsOf(c.A), c.callsOf(c.B)},
		{"", "in calls", duration(c.A.LatencyMs), duration(c.B.LatencyMs)},
		{"", "in all", duration(c.A.DurationMs), duration(c.B.DurationMs)},
		{mark(c.Steps), "steps", list(c.A.Steps), list(c.B.Steps)},
		{mark(c.Checks), "checks", list(c.A.Checks), list(c.B.Checks)},
	}
	if err := cli.Table(p.out, rows); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("\n")
	for _, call := range c.Calls {
		text.WriteString(call.lines())
	}
	if len(c.Calls) > 0 {
		text.WriteString("\n")
	}
	fmt.Fprintln(&text, c.summary())
	_, err := fmt.Fprint(p.out, text.String())
	return err
}

// callsOf counts the calls of a side: "5", or "5, 3 the same".
func (c comparison) callsOf(side sessionTotals) string {
	same := c.Counts[string(replay.Same)]
	if same == len(c.Calls) {
		return fmt.Sprint(side.Calls)
	}
	return fmt.Sprintf("%d, %d the same", side.Calls, same)
}

// summary counts the calls: "3 same, 1 other output".
func (c comparison) summary() string {
	if c.Same {
		return "the same"
	}
	var parts []string
	for _, r := range []replay.Relation{replay.Same, replay.OtherOutput, replay.OtherParams, replay.OnlyA, replay.OnlyB} {
		if n := c.Counts[string(r)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, r))
		}
	}
	if len(parts) == 0 {
		return "different"
	}
	return "different: " + strings.Join(parts, ", ")
}

// lines describes a pair of calls: the tool of both, and below it the differences.
func (c comparedCall) lines() string {
	of := func(s *callSide) string { return cli.Clean(s.Tool) + " " + cli.Cut(cli.Clean(s.params), 60) }
	switch c.Relation {
	case replay.OnlyA:
		return fmt.Sprintf("- %s  %s\n", of(c.A), duration(c.A.LatencyMs))
	case replay.OnlyB:
		return fmt.Sprintf("+ %s  %s\n", of(c.B), duration(c.B.LatencyMs))
	}
	took := fmt.Sprintf("%s, %s", duration(c.A.LatencyMs), duration(c.B.LatencyMs))
	var text strings.Builder
	if c.Relation == replay.OtherParams {
		a, b := fromDifference(cli.Clean(c.A.params), cli.Clean(c.B.params))
		fmt.Fprintf(&text, "~ %s  %s\n  - %s\n  + %s\n", cli.Clean(c.A.Tool), took, cli.Cut(a, 72), cli.Cut(b, 72))
	} else {
		sign := "="
		if c.Relation == replay.OtherOutput {
			sign = "≠"
		}
		fmt.Fprintf(&text, "%s %s  %s\n", sign, of(c.A), took)
	}
	if c.A.OutputHash != c.B.OutputHash {
		fmt.Fprintf(&text, "  output %s, %s\n", shortHash(c.A.OutputHash), shortHash(c.B.OutputHash))
	}
	if a, b := exitWord(c.A.ExitCode), exitWord(c.B.ExitCode); a != b {
		fmt.Fprintf(&text, "  exit   %s, %s\n", a, b)
	}
	return text.String()
}

// fromDifference cuts the common beginning of two texts, but for a few characters.
func fromDifference(a, b string) (string, string) {
	const little = 16
	x, y := []rune(a), []rune(b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	if n <= 2*little {
		return a, b
	}
	return "…" + string(x[n-little:]), "…" + string(y[n-little:])
}

func exitWord(code *int) string {
	if code == nil {
		return "none"
	}
	return fmt.Sprint(*code)
}

// shortHash is enough of a hash to tell two apart.
func shortHash(h string) string {
	if h == "" {
		return "none"
	}
	return cli.Cut(cli.Clean(strings.TrimPrefix(h, "sha256:")), 13)
}
