package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"guild"
	"guild/internal/cli"
	"guild/internal/judging/exam"
	"guild/internal/step/judge"
	"guild/verify"
)

// rejudged is the result of running the tests of an export again.
type rejudged struct {
	Same    bool          `json:"same"` // the outcome is the same, and each test came out as it did
	Outcome guild.Outcome `json:"outcome,omitempty"`
	Detail  string        `json:"detail"`
	Hint    string        `json:"hint,omitempty"` // what to do if it cannot be judged again
}

// rejudge judges the delivery of an export again, and compares the verdict with the one in it.
func (p *program) rejudge(ctx context.Context, files fs.FS) (*rejudged, error) {
	scratch, err := os.MkdirTemp("", "guild-rejudge-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	for _, name := range []string{verify.FileBundle, verify.FileDelivery, verify.FileVerdict, verify.FileHidden} {
		content, err := fs.ReadFile(files, name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == verify.FileHidden:
			continue
		case errors.Is(err, fs.ErrNotExist):
			return nil, cli.WithHint(fmt.Errorf("%s is not in it", name), "whoever exported it can do so again, with all files")
		case err == nil:
			err = os.WriteFile(filepath.Join(scratch, name), content, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	was, err := readVerdict(filepath.Join(scratch, verify.FileVerdict))
	if err != nil {
		return nil, err
	}
	hidden := ""
	if _, err := os.Stat(filepath.Join(scratch, verify.FileHidden)); err == nil {
		if hidden, err = revealedTests(filepath.Join(scratch, verify.FileHidden), scratch); err != nil {
			return nil, err
		}
	} else if len(was.Hidden) > 0 {
		return nil, cli.WithHint(errors.New("it has hidden tests, which are not in it"), "whoever exported it can do so with --reveal")
	}
	v, _, person, err := p.judgeFiles(ctx, filepath.Join(scratch, verify.FileBundle), filepath.Join(scratch, verify.FileDelivery), scratch, hidden,
		judgeOptions{}, func(judge.Evidence) {})
	switch {
	case errors.Is(err, exam.ErrUndecided):
		return &rejudged{Detail: err.Error()}, nil
	case err != nil:
		return nil, err
	case person != nil:
		return &rejudged{Detail: "only a person can decide: " + person.Reason}, nil
	}
	if err := compare(was, v); err != nil {
		return &rejudged{Outcome: v.Outcome, Detail: err.Error()}, nil
	}
	return &rejudged{Same: true, Outcome: v.Outcome, Detail: fmt.Sprintf("%s, with %d of %d tests passed, as before", v.Outcome, v.Passed, v.Expected)}, nil
}
