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

// program runs a shell or custom criterion: a script or command of the customer's in the workspace, with the
// tests in sight. It decides beside the delivery, which can read it and change what it looks at: the finding is
// weak.
func (j *examination) program(ctx context.Context, c Criterion, f *Finding) error {
	f.Because = "the script decided beside the delivery, which can read it and change what it looks at"
	argv, err := j.start(c.Service)
	if err != nil {
		return err
	}
	s := sandbox.Spec{Argv: argv, Env: environment(), Copies: j.layout.copies(true, nil), Limits: j.limits()}
	j.showTests(&s)
	if c.Report == reportTAP {
		return j.tap(ctx, c, f, s)
	}
	return j.expect(ctx, c.Case, f, s)
}

// start is the command line of a command, or of a script of the customer's by the interpreter of its #! line.
func (j *examination) start(s Service) ([]string, error) {
	if len(s.Command) > 0 {
		return s.Command, nil
	}
	interpreter, err := interpreterOf(filepath.Join(j.tests, strings.TrimPrefix(s.Script, "tests")))
	if err != nil {
		return nil, undecided("%w", err)
	}
	return append(interpreter, judgeDir+"/"+s.Script), nil
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

// tap runs a program that prints one line for each test (the Test Anything Protocol) and counts them against the
// number that the criterion fixes.
func (j *examination) tap(ctx context.Context, c Criterion, f *Finding, s sandbox.Spec) error {
	run, err := j.run(ctx, f, s, c.Stdin)
	if err != nil {
		return err
	}
	f.Tests = readTAP(run.Stdout, c.ID, c.Tests)
	f.distrust(run.Result)
	return nil
}

// readTAP reads lines such as "ok 3 - adds # SKIP no reason". The tests are those with the numbers 1 to n; what
// is reported twice, skipped or still to do has not passed.
func readTAP(stdout, id string, n int) []guild.Test {
	tests := missing(map[string]int{id: n})
	for line := range strings.Lines(stdout) {
		number, state, message := tapLine(strings.TrimRight(line, "\r\n"))
		if number < 1 || number > n {
			continue
		}
		t := &tests[number-1]
		if t.State != guild.TestMissing {
			state, message = guild.TestFailed, "it was reported twice"
		}
		if t.State, t.Message = state, ""; state != guild.TestPassed {
			t.Message = cut(message)
		}
	}
	return tests
}

// tapLine reads one line; the number is 0 if it is not the result of a test.
func tapLine(line string) (number int, state, message string) {
	rest, failed := strings.CutPrefix(line, "not ok ")
	if !failed {
		var passed bool
		if rest, passed = strings.CutPrefix(line, "ok "); !passed {
			return 0, "", ""
		}
	}
	for len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9' && number < 1e6 {
		number, rest = number*10+int(rest[0]-'0'), rest[1:]
	}
	message = strings.TrimLeft(rest, " -")
	_, directive, _ := strings.Cut(strings.ToUpper(message), "# ")
	switch {
	case strings.HasPrefix(directive, "SKIP") || strings.HasPrefix(directive, "TODO"):
		return number, guild.TestSkipped, message
	case failed:
		return number, guild.TestFailed, message
	default:
		return number, guild.TestPassed, message
	}
}
