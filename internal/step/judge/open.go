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

// Config says how to judge on this machine. The zero value works.
type Config struct {
	Tier     string // the sandbox; the best that works if empty
	Cache    string // directory for what makes judging faster; nothing is kept if empty
	Analysis bool   // whether linters read what was delivered

	Typed typed.Checker // of typed jobs' results; the zero one can do nothing again
}

// Open returns a judge in the sandbox that c names, or a *sandbox.UnusableError. Close ends what the sandbox keeps
// warm.
func Open(ctx context.Context, c Config) (*Judge, error) {
	runner, caps, err := tiers.Pick(ctx, c.Tier)
	if err != nil {
		return nil, err
	}
	return On(runner, caps, c), nil
}

// On returns a judge in a sandbox that was opened already.
func On(runner sandbox.Runner, caps sandbox.Caps, c Config) *Judge {
	j := &Judge{Exam: &exam.Engine{Runner: runner, Cache: c.Cache}, Caps: caps, ProfileHash: profileHash, Typed: c.Typed}
	if c.Analysis {
		j.Analysis = &analysis.Analyst{Runner: runner, Cache: c.Cache}
	}
	return j
}

// Close ends what the judge's sandbox keeps warm.
func (j *Judge) Close() error {
	if warm, ok := j.Exam.Runner.(io.Closer); ok {
		return warm.Close()
	}
	return nil
}
