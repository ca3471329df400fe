package exam

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
)

// RunRecord records one run of a sandbox: its command, limits and results.
type RunRecord struct {
	Argv    []string       `json:"argv"`
	Limits  sandbox.Limits `json:"limits"`
	Result  sandbox.Result `json:"result"`
	Stdout  string         `json:"stdout"`
	Stderr  string         `json:"stderr"`
	Results string         `json:"results,omitempty"`
	Channel string         `json:"channel,omitempty"` // answers of a service
}

// run runs one sandbox for a finding, and records the run there.
func (j *examination) run(ctx context.Context, f *Finding, s sandbox.Spec, stdin string) (*RunRecord, error) {
	return j.runWith(ctx, f, s, sandbox.IO{Stdin: strings.NewReader(stdin)})
}

// runFiles does the same as run, and also returns the content of the files in s.Collect that exist after the run, by
// name.
func (j *examination) runFiles(ctx context.Context, f *Finding, s sandbox.Spec, stdin string) (*RunRecord, map[string][]byte, error) {
	archive := &sandbox.Head{Most: maxArchive}
	run, err := j.runWith(ctx, f, s, sandbox.IO{Stdin: strings.NewReader(stdin), Files: archive})
	if err != nil {
		return nil, nil, err
	}
	return run, collected(archive.Bytes(), s.Collect), nil
}

// runWith runs one sandbox with the caller's streams, and records its output.
//
// A killed run is a fault of the finding and not an error, because the delivery caused it.
func (j *examination) runWith(ctx context.Context, f *Finding, s sandbox.Spec, streams sandbox.IO) (*RunRecord, error) {
	var stdout, stderr, results bytes.Buffer
	streams.Stdout, streams.Stderr, streams.Results = &stdout, &stderr, j.seen(&results)
	res, err := j.engine.Runner.Run(ctx, s, streams)
	if err != nil {
		return nil, err
	}
	f.Runs = append(f.Runs, RunRecord{
		Argv: s.Argv, Limits: s.Limits.WithDefaults(), Result: res,
		Stdout: stdout.String(), Stderr: stderr.String(), Results: results.String(),
	})
	f.Usage = f.Usage.Add(res.Usage)
	f.Breaches = append(f.Breaches, res.Breaches...)
	f.Warnings = append(f.Warnings, res.Warnings...)
	if res.Killed != "" {
		f.Fault, f.OverLimit = overLimit(res, s.Limits.WithDefaults()), true
	}
	return &f.Runs[len(f.Runs)-1], nil
}

// overLimit returns which limit ended a run, and its value.
func overLimit(res sandbox.Result, l sandbox.Limits) string {
	switch res.Killed {
	case sandbox.KilledWall:
		return fmt.Sprintf("stopped after %v", l.Wall)
	case sandbox.KilledCPU:
		return fmt.Sprintf("used more than %v of processor time", l.CPU)
	case sandbox.KilledMemory:
		return fmt.Sprintf("used more than %d MB of memory", l.Memory>>20)
	case sandbox.KilledPids:
		return fmt.Sprintf("started more than %d processes", l.Pids)
	case sandbox.KilledDisk:
		return fmt.Sprintf("wrote more than %d MB", l.Disk>>20)
	default:
		return "wrote too much output"
	}
}

// environment returns the environment variables of every judged command.
func environment(more ...string) []string {
	return append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + sandbox.Home, "LANG=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1", "GUILD_TESTS=" + testsDir,
	}, more...)
}

// distrust sets the fault of a finding whose report contradicts the exit of its run: only a forged or broken report
// can.
func (f *Finding) distrust(res sandbox.Result) {
	if f.Fault != "" {
		return
	}
	switch {
	case res.Signal != "":
		f.Fault = "ended by " + res.Signal
	case res.Cut:
		f.Fault = "the report is too long"
	case res.Exit != 0 && Passed(f.Tests) == len(f.Tests):
		f.Fault = "the report does not agree with how the run ended"
	}
}

// Passed counts the tests that passed.
func Passed(tests []guild.Test) int {
	n := 0
	for _, t := range tests {
		if t.State == guild.TestPassed {
			n++
		}
	}
	return n
}
