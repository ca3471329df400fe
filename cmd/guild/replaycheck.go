package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/replay"
)

// replayFault is a fault of one line of a trajectory.
type replayFault struct {
	Line  int    `json:"line"` // from 1
	Error string `json:"error"`
}

// replayReport is the output of replay check --json.
type replayReport struct {
	Events  int            `json:"events"`
	Unknown map[string]int `json:"unknown"` // events of types that are not known, by name
	Faults  []replayFault  `json:"faults"`
	Hash    string         `json:"trajectory_hash"` // "" when not every line can be read
}

// mostFaults are printed for a person.
const mostFaults = 20

func (p *program) replayCheckCommand() *cobra.Command {
	return p.local(&cobra.Command{
		Use:   "check FILE|JOB|RECEIPT|-",
		Short: "Check a trajectory, and print its hash",
		Long: `check reads REPLAY.jsonl and names each faulty line: one that is not an event,
is out of place or goes back in time, has an invalid time or hash, has params of
another hash, or is a result without a call; or an end that counts other calls.
At the end it prints the trajectory hash, which receipts name, unless a line
cannot be read. It prints the first 20 faults; --json has all. The exit code is
1 if there are any. A JOB, JOB/ATTEMPT or RECEIPT is named as for guild replay
show.`,
		Example: "  guild replay check REPLAY.jsonl\n  guild replay check 5f21c9aa --json",
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		return p.runReplayCheck(cmd.Context(), args[0])
	})
}

func (p *program) runReplayCheck(ctx context.Context, name string) (*cli.Result, error) {
	raw, err := p.trajectory(ctx, name)
	if err != nil {
		return nil, err
	}
	if isBundle(raw) {
		return nil, cli.WithHint(fmt.Errorf("%s is a ReplayBundle", inputName(name)), "guild replay convert makes a trajectory of it")
	}
	report, err := checkReplay(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inputName(name), err)
	}
	if n := len(report.Faults); n > 0 {
		err = fmt.Errorf("%s: %s", inputName(name), cli.Count(n, "fault", "faults"))
	}
	return &cli.Result{JSON: report, Show: func() error { return writeReplayReport(p.out, report) }}, err
}

func checkReplay(raw []byte) (replayReport, error) {
	report := replayReport{Unknown: map[string]int{}, Faults: []replayFault{}}
	var sequence replay.Sequence
	for line, err := range replay.Read(bytes.NewReader(raw)) {
		if fault, ok := errors.AsType[*replay.LineError](err); ok {
			report.Faults = append(report.Faults, replayFault{fault.Number, fault.Err.Error()})
		} else if err != nil {
			return report, err
		}
		if line.Event == nil {
			continue
		}
		report.Events++
		if err == nil {
			err = cmp.Or(replay.Check(line.Event), sequence.Add(line.Event))
			if err != nil {
				report.Faults = append(report.Faults, replayFault{line.Number, err.Error()})
			}
		}
		if _, unknown := line.Event.(replay.Unknown); unknown {
			report.Unknown[line.Event.EventName()]++
		}
	}
	if h, err := replay.TrajectoryHash(bytes.NewReader(raw)); err == nil {
		report.Hash = h.String()
	}
	return report, nil
}

func writeReplayReport(w io.Writer, report replayReport) error {
	var text strings.Builder
	shown := report.Faults[:min(mostFaults, len(report.Faults))]
	for _, fault := range shown {
		fmt.Fprintf(&text, "✗ line %d: %s\n", fault.Line, cli.Clean(fault.Error))
	}
	if more := len(report.Faults) - len(shown); more > 0 {
		fmt.Fprintf(&text, "✗ and %s\n", cli.Count(more, "more fault", "more faults"))
	}
	fmt.Fprint(&text, cli.Count(report.Events, "event", "events"))
	if n := len(report.Unknown); n > 0 {
		fmt.Fprintf(&text, ", %s not known here", cli.Count(n, "type of them", "types of them"))
	}
	if report.Hash != "" {
		fmt.Fprintf(&text, "\ntrajectory %s", report.Hash)
	}
	_, err := fmt.Fprintln(w, text.String())
	return err
}
