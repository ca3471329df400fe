package judge

import (
	"context"
	"io"

	"guild/internal/judging/analysis"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/judging/typed"
)

// Config configures the judge of this machine. The zero value works.
type Config struct {
	Tier     string // name of the sandbox; the best one that works if empty
	Cache    string // directory for data that makes judging faster; nothing is kept if empty
	Analysis bool   // analyse the delivered code with linters
	Warm     bool   // the judge lives long: tools may take longer to start if they are then faster

	Typed typed.Checker // checks the results of typed jobs; the zero value cannot run anything again
}

// Open returns a judge with the sandbox that c names, or a *sandbox.UnusableError. The caller must call Close.
func Open(ctx context.Context, c Config) (*Judge, error) {
	runner, caps, err := tiers.Pick(ctx, c.Tier)
	if err != nil {
		return nil, err
	}
	return On(runner, caps, c), nil
}

// On returns a judge with a sandbox that is open already.
func On(runner sandbox.Runner, caps sandbox.Caps, c Config) *Judge {
	j := &Judge{Exam: &exam.Engine{Runner: runner, Cache: c.Cache}, Caps: caps, ProfileHash: profileHash, Typed: c.Typed}
	if c.Analysis {
		j.Analysis = &analysis.Analyst{Runner: runner, Cache: c.Cache, Warm: c.Warm && caps.Forks}
	}
	return j
}

// Close stops the processes that the sandbox keeps ready.
func (j *Judge) Close() error {
	if warm, ok := j.Exam.Runner.(io.Closer); ok {
		return warm.Close()
	}
	return nil
}
