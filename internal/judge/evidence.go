package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"guild"
	"guild/internal/sandbox"
)

// Evidence is the judge's full output as JSON, to be kept as a blob: whoever has the bundle, the delivery and
// this can judge again and compare.
type Evidence []byte

// runRecord is one run of a sandbox: what was started, under which limits, and all that came of it.
type runRecord struct {
	Argv    []string       `json:"argv"`
	Limits  sandbox.Limits `json:"limits"`
	Result  sandbox.Result `json:"result"`
	Stdout  string         `json:"stdout"`
	Stderr  string         `json:"stderr"`
	Results string         `json:"results,omitempty"`
}

func (j *judgement) evidence(v guild.Verdict) Evidence {
	b, err := json.Marshal(struct {
		Format    string        `json:"format"`
		Verdict   guild.Verdict `json:"verdict"`
		Criteria  Criteria      `json:"criteria"`
		Delivered []string      `json:"delivered"`
		Findings  []finding     `json:"findings"`
	}{"guild judge evidence 1", v, j.criteria, j.layout.Delivered, j.findings})
	if err != nil {
		panic("judge: evidence: " + err.Error()) // strings and integers only
	}
	return b
}

// run runs one sandbox for a finding and records it there.
func (j *judgement) run(ctx context.Context, f *finding, s sandbox.Spec, stdin string) (*runRecord, error) {
	var stdout, stderr, results bytes.Buffer
	res, err := j.engine.Runner.Run(ctx, s, sandbox.IO{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Results: &results,
	})
	if err != nil {
		return nil, err
	}
	f.Runs = append(f.Runs, runRecord{s.Argv, s.Limits.WithDefaults(), res, stdout.String(), stderr.String(), results.String()})
	f.Usage = add(f.Usage, res.Usage)
	f.Breaches = append(f.Breaches, res.Breaches...)
	if res.Killed != "" {
		f.Fault, f.OverLimit = overLimit(res, s.Limits.WithDefaults()), true
	}
	return &f.Runs[len(f.Runs)-1], nil
}

// overLimit says which limit ended a run, with its size.
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

// environment is what every judged command sees.
func environment(more ...string) []string {
	return append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + sandbox.Home, "LANG=C.UTF-8", "TMPDIR=" + sandbox.Temp,
		"PYTHONDONTWRITEBYTECODE=1", "GUILD_TESTS=" + testsDir,
	}, more...)
}
