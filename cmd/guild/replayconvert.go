package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/replay"
)

// converting are the flags of replay convert.
type converting struct {
	to     string
	file   string // "" for standard output
	redact bool
	force  bool
}

func (p *program) replayConvertCommand() *cobra.Command {
	o := converting{to: "jsonl"}
	cmd := &cobra.Command{
		Use:   "convert FILE|JOB|RECEIPT|-",
		Short: "Convert a ReplayBundle to a trajectory, or back",
		Long: `convert makes REPLAY.jsonl of a ReplayBundle, the older form, in either of its
shapes: with a timeline, or with steps. --to bundle makes a ReplayBundle with a
timeline of a trajectory. Nothing is lost: converted back, both are as they
were, secrets too. With --redact what looks like a secret is replaced, and what
the format does not know is left out. A JOB, JOB/ATTEMPT or RECEIPT is named as
for guild replay show.`,
		Example:           "  guild replay convert bundle.json -o REPLAY.jsonl --redact\n  guild replay convert 5f21c9aa --to bundle > bundle.json",
		Args:              cli.OneArg("a file, a job, a receipt, or -"),
		ValidArgsFunction: p.completeJobsAndFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runReplayConvert(cmd.Context(), args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", o.to, "what to make: jsonl or bundle")
	f.StringVarP(&o.file, "output", "o", "", "file to write (default: standard output)")
	f.BoolVar(&o.redact, "redact", false, "replace what looks like a secret")
	f.BoolVar(&o.force, "force", false, "replace the file that is there")
	cli.Choices(cmd, "to", "jsonl", "bundle")
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}

func (p *program) runReplayConvert(ctx context.Context, name string, o converting) error {
	if o.to != "jsonl" && o.to != "bundle" {
		return cli.Usage(fmt.Errorf("--to %.40q: want jsonl or bundle", o.to))
	}
	raw, err := p.trajectory(ctx, name)
	if err != nil {
		return err
	}
	made, err := o.convert(raw)
	if err != nil {
		return cli.WithHint(fmt.Errorf("%s: %w", inputName(name), err), convertHint(raw, o.to))
	}
	if o.file != "" {
		return writeOutput(o.file, made, o.force)
	}
	_, err = p.out.Write(made)
	return err
}

func (o converting) convert(raw []byte) ([]byte, error) {
	var made bytes.Buffer
	if o.to == "jsonl" {
		if _, err := replay.FromBundle(&made, raw); err != nil {
			return nil, err
		}
		if o.redact {
			return redacted(made.Bytes())
		}
		return made.Bytes(), nil
	}
	if o.redact {
		var err error
		if raw, err = redacted(raw); err != nil {
			return nil, err
		}
	}
	bundle, err := replay.ToBundle(bytes.NewReader(raw))
	return append(bundle, '\n'), err
}

// redacted returns a trajectory without what looks like a secret, and without the fields that the format does not know.
func redacted(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	w := replay.NewWriter(&out)
	for line, err := range replay.Read(bytes.NewReader(raw)) {
		if err != nil {
			return nil, err
		}
		e, err := replay.Redact(line.Event)
		if err == nil {
			err = w.Write(e)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
	_, err := w.Close()
	return out.Bytes(), err
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
