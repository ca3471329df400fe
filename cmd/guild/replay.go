package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/replay"
)

func (p *program) replayCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "replay",
		Short:   "Look at trajectories: play, compare, convert and check them",
		Example: "  guild replay show 5f21c9aa\n  guild replay diff 5f21c9aa a077c1d2\n  guild replay check REPLAY.jsonl",
	}, p.replayShowCommand(), p.replayDiffCommand(), p.replayConvertCommand(), p.replayImportCommand(), p.replayCheckCommand())
}

// replayOptions are the flags of guild replay show.
type replayOptions struct {
	Speed float64
	Step  bool
}

func (p *program) replayShowCommand() *cobra.Command {
	o := replayOptions{Speed: 1}
	show := &cobra.Command{
		Use:   "show FILE|JOB|RECEIPT|-",
		Short: "Play a trajectory, step by step",
		Long: `show plays a trajectory, REPLAY.jsonl, from a file, from standard input, or of a
job of this node. JOB/ATTEMPT ends at the end of one attempt, RECEIPT when that
receipt was written. The beginning of an id is enough. On a terminal it plays at
the original speed, with pauses of at most two seconds: space pauses, n shows
the next event, + and - change the speed, e plays the rest at once and q quits.
Elsewhere all events are printed at once. A ReplayBundle is played, too.

Lines that cannot be read are named and skipped; then the exit code is 1.`,
		Example:           "  guild replay show 5f21c9aa\n  guild replay show REPLAY.jsonl --speed 4\n  guild replay show 5f21c9aa --json > REPLAY.jsonl",
		Args:              cli.OneArg("a file, a job, a receipt, or -"),
		ValidArgsFunction: p.completeJobsAndFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runReplayShow(cmd.Context(), args[0], o, cli.AsJSON(cmd))
		},
	}
	f := show.Flags()
	f.Float64Var(&o.Speed, "speed", o.Speed, "how many times as fast as it was; 0 is at once")
	f.BoolVar(&o.Step, "step", false, "wait for a key before each event")
	cli.JSONFlag(show, "print REPLAY.jsonl as it is stored and hashed")
	cli.Exclusive(show, "json", "step")
	return show
}

// completeJobsAndFiles offers jobs beside files.
func (p *program) completeJobsAndFiles(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	jobs, _ := p.completeJobs(cmd, nil, begun)
	return jobs, cobra.ShellCompDirectiveDefault
}

func (p *program) runReplayShow(ctx context.Context, name string, o replayOptions, asJSON bool) error {
	if !(o.Speed >= 0 && o.Speed <= 1000) || math.Signbit(o.Speed) && o.Speed == 0 {
		return cli.Usage(fmt.Errorf("--speed %v: want a number from 0 to 1000", o.Speed))
	}
	in, out, terminal := p.terminal()
	if o.Step && !terminal {
		return cli.Usage(fmt.Errorf("--step: %w", cli.ErrNoTerminal))
	}
	raw, err := p.trajectory(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		out := p.out
		if terminal {
			out = cli.Escaping(out) // the same JSON, and nothing that a terminal obeys
		}
		_, err = out.Write(raw)
		return err
	}
	all, err := playable(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", inputName(name), err)
	}
	if terminal && (o.Speed > 0 || o.Step) {
		err = play(ctx, in, out, all, o)
	} else {
		err = p.printMoments(all)
	}
	if err != nil {
		return err
	}
	return faultsOf(name, all)
}

func (p *program) printMoments(all []playedMoment) error {
	style := palette{}
	if cli.Colours(p.out) {
		style = colours()
	}
	for _, m := range all {
		if _, err := fmt.Fprintln(p.out, m.line(style, lineColumns)); err != nil {
			return err
		}
	}
	return nil
}

// faultsOf names the lines that could not be read.
func faultsOf(name string, all []playedMoment) error {
	var lines []string
	for _, m := range all {
		if m.fault != nil {
			lines = append(lines, fmt.Sprint(m.fault.Number))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	many := fmt.Sprintf("lines %s are", cli.Cut(strings.Join(lines, ", "), 60))
	if len(lines) == 1 {
		many = fmt.Sprintf("line %s is", lines[0])
	}
	return cli.WithHint(fmt.Errorf("%s: %s faulty", inputName(name), many), "guild replay check says what is wrong with a trajectory")
}

// recorded matches the name of a receipt, a job or one of its attempts.
var recorded = regexp.MustCompile(`^(?:([rR]-[0-9a-fA-F]+)|([0-9a-fA-F]+)(?:/([0-9a-fA-F]+))?)$`)

// trajectory reads a file, standard input, or the record of a job. A name that is both means the file. A directory is none:
// guild job fetch names its directory after the job.
func (p *program) trajectory(ctx context.Context, name string) ([]byte, error) {
	id := recorded.FindStringSubmatch(name)
	in, err := p.input(name)
	if id != nil && (errors.Is(err, os.ErrNotExist) || errors.Is(err, errDirectory)) {
		var replay []byte
		err := p.reading(ctx, func(client *control.Client, _ bool) (err error) {
			replay, err = control.Replay.Call(ctx, client, id[1]+id[2], id[3]) // of the first two only one is there
			return err
		})
		return replay, err
	}
	if err != nil {
		return nil, cli.WithHint(err, "give a file, a job that guild job ls lists, a receipt, or -")
	}
	defer in.Close()
	raw, err := io.ReadAll(io.LimitReader(in, replay.MaxBundle+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inputName(name), err)
	}
	if len(raw) > replay.MaxBundle {
		return nil, fmt.Errorf("%s: over %s", inputName(name), cli.Size(replay.MaxBundle))
	}
	return raw, nil
}

// playable returns a trajectory or ReplayBundle as moments that can be shown.
func playable(raw []byte) ([]playedMoment, error) {
	var converted bytes.Buffer
	if isBundle(raw) {
		if _, err := replay.FromBundle(&converted, raw); err != nil {
			return nil, err
		}
		raw = converted.Bytes()
	}
	return moments(replay.Read(bytes.NewReader(raw)))
}

// isBundle reports whether a file is one JSON object with a timeline or steps, and no event.
func isBundle(raw []byte) bool {
	for _, err := range replay.Read(bytes.NewReader(raw)) {
		if err == nil {
			return false
		}
		break
	}
	var bundle struct{ Timeline, Steps json.RawMessage }
	return json.Unmarshal(raw, &bundle) == nil && (bundle.Timeline != nil || bundle.Steps != nil)
}
