package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
)

func (p *program) replayCommand() *cobra.Command {
	var asJSON bool
	show := &cobra.Command{
		Use:               "show JOB",
		Short:             "Print what the node did for a job, step by step",
		Example:           "  guild replay show 5f21c9aa\n  guild replay show 5f21c9aa --json > REPLAY.jsonl",
		Args:              cli.OneArg("one job id"),
		ValidArgsFunction: p.completeJobs,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.runReplayShow(cmd.Context(), args[0], asJSON) },
	}
	show.Flags().BoolVar(&asJSON, "json", false, "print REPLAY.jsonl as it is stored and hashed")
	return cli.Group(&cobra.Command{
		Use:     "replay",
		Short:   "Look at the trajectories of jobs",
		Example: "  guild replay show 5f21c9aa",
	}, show)
}

func (p *program) runReplayShow(ctx context.Context, job string, asJSON bool) error {
	client, done, err := p.reader(ctx)
	if err != nil {
		return err
	}
	defer done()
	replay, err := client.Replay(ctx, job)
	if err != nil {
		return err
	}
	if asJSON {
		_, err = p.out.Write(replay)
		return err
	}
	for line := range bytes.Lines(replay) {
		text, err := replayLine(line)
		if err != nil {
			return fmt.Errorf("replay of %s: %w", job, err)
		}
		fmt.Fprintln(p.out, text)
	}
	return nil
}

// replayLine is one line of REPLAY.jsonl as "12:00:01 ToolCall      id=tc_001 tool=publish", whatever the event.
// Hashes are for machines, and left out.
func replayLine(line []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return "", err
	}
	event, at := jsonText(fields["event"]), ""
	if t, err := time.Parse(time.RFC3339Nano, jsonText(fields["t"])); err == nil {
		at = clock(t.UnixMilli())
	}
	delete(fields, "event")
	delete(fields, "t")
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return strings.HasSuffix(name, "_hash") })
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, cli.Clean(name)+"="+cli.Cut(cli.Clean(jsonText(fields[name])), 60))
	}
	return fmt.Sprintf("%8s %-13s %s", at, cli.Clean(event), strings.Join(parts, " ")), nil
}

// jsonText is a string without its quotes, and anything else as it is written.
func jsonText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
