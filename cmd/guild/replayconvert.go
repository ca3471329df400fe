package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/replay"
)

func (p *program) replayConvertCommand() *cobra.Command {
	to := "jsonl"
	cmd := &cobra.Command{
		Use:   "convert FILE|JOB|RECEIPT|-",
		Short: "Convert a ReplayBundle to a trajectory, or back",
		Long: `convert makes REPLAY.jsonl of a ReplayBundle, the older form, in either of its
shapes: with a timeline, or with steps. --to bundle makes a ReplayBundle with a
timeline of a trajectory. Nothing is lost: converted back, both are as they
were. It prints the result. A JOB, JOB/ATTEMPT or RECEIPT is named as for guild
replay show.`,
		Example:           "  guild replay convert bundle.json > REPLAY.jsonl\n  guild replay convert 5f21c9aa --to bundle > bundle.json",
		Args:              cli.OneArg("a file, a job, a receipt, or -"),
		ValidArgsFunction: p.completeJobsAndFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runReplayConvert(cmd.Context(), args[0], to)
		},
	}
	cmd.Flags().StringVar(&to, "to", to, "what to make: jsonl or bundle")
	cli.Choices(cmd, "to", "jsonl", "bundle")
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}

func (p *program) runReplayConvert(ctx context.Context, name, to string) error {
	if to != "jsonl" && to != "bundle" {
		return cli.Usage(fmt.Errorf("--to %.40q: want jsonl or bundle", to))
	}
	raw, err := p.trajectory(ctx, name)
	if err != nil {
		return err
	}
	var made bytes.Buffer
	if to == "bundle" {
		var bundle []byte
		bundle, err = replay.ToBundle(bytes.NewReader(raw))
		made.Write(append(bundle, '\n'))
	} else {
		_, err = replay.FromBundle(&made, raw)
	}
	if err != nil {
		return cli.WithHint(fmt.Errorf("%s: %w", inputName(name), err), convertHint(raw, to))
	}
	_, err = p.out.Write(made.Bytes())
	return err
}

// convertHint returns a hint for a conversion in the wrong direction.
func convertHint(raw []byte, to string) string {
	bundle := isBundle(raw)
	switch {
	case to == "bundle" && bundle:
		return "it is a bundle; without --to it becomes a trajectory"
	case to == "jsonl" && !bundle && bytes.Contains(raw, []byte(`"ReplayHeader"`)):
		return "it is a trajectory; --to bundle makes a bundle of it"
	}
	return "guild replay check says what is wrong with a trajectory"
}
