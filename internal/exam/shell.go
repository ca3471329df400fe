package exam

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"

	"guild"
	"guild/internal/sandbox"
)

// shell runs a script of the customer's in the workspace. The script decides beside the delivery, which can
// read it and change what it looks at: the finding is weak.
func (j *examination) shell(ctx context.Context, c Criterion, f *Finding) error {
	interpreter, err := interpreterOf(filepath.Join(j.bundle, c.Script))
	if err != nil {
		return undecided("%w", err)
	}
	return j.expect(ctx, c, f, sandbox.Spec{
		Argv:   append(interpreter, judgeDir+"/"+c.Script),
		Mounts: j.layout.tests,
	})
}

// compare runs a command on the delivery, with no test in sight, and compares what it printed out here.
func (j *examination) compare(ctx context.Context, c Criterion, f *Finding) error {
	if c.Expected.Stdout != nil || c.Expected.StdoutContains != "" {
		f.Strength = guild.Strong
	}
	return j.expect(ctx, c, f, sandbox.Spec{Argv: c.Command})
}

// expect runs a command and judges it by its exit code and output.
func (j *examination) expect(ctx context.Context, c Criterion, f *Finding, s sandbox.Spec) error {
	s.Env = environment()
	s.Copies = j.layout.copies(true, nil)
	s.Limits = j.limits()
	run, err := j.run(ctx, f, s, c.Stdin)
	if err != nil {
		return err
	}
	t := guild.Test{ID: c.ID, State: guild.TestPassed}
	switch why := c.Expected.met(run.Result.Exit, run.Stdout); {
	case f.Fault != "":
		t.State, t.Message = guild.TestFailed, f.Fault
	case why != "":
		t.State, t.Message = guild.TestFailed, cut(strings.TrimSpace(why+"; "+lastLine(run.Stderr)))
		if run.Result.Signal != "" {
			f.Fault = "ended by " + run.Result.Signal
		}
	}
	f.Tests = append(f.Tests, t)
	return nil
}

// interpreterOf reads the #! line of a script of the customer's.
func interpreterOf(script string) ([]string, error) {
	file, err := os.Open(script)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	line, _ := bufio.NewReaderSize(file, 256).ReadString('\n')
	if rest, ok := strings.CutPrefix(line, "#!"); ok {
		if words := strings.Fields(rest); len(words) > 0 {
			return words, nil
		}
	}
	return []string{"/bin/sh"}, nil
}

// lastLine is the last line with something on it.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
