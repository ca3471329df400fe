package exam

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
)

// reportTAP is the report format with one line for each test (the Test Anything Protocol).
const reportTAP = "tap"

// reportFields has the fields for programs that report single tests.
type reportFields struct {
	Report string `json:"report,omitempty"` // for shell and custom: "" or tap
	Tests  int    `json:"tests,omitempty"`  // for tap, jest and node-test: the required number of tests
}

// outputExpected is the expected exit code and output of a program.
type outputExpected struct {
	ExitCode       *int   `json:"exit_code,omitempty"` // 0 if absent
	Stdout         *Match `json:"stdout,omitempty"`
	StdoutContains Texts  `json:"stdout_contains,omitempty"`
	Stderr         *Match `json:"stderr,omitempty"`
}

func (e outputExpected) given() []string {
	return names(map[string]bool{
		"exit_code": e.ExitCode != nil, "stdout": e.Stdout != nil, "stdout_contains": len(e.StdoutContains) > 0,
		"stderr": e.Stderr != nil,
	})
}

// differs returns how a run differs from the expected one, or "".
func (e outputExpected) differs(run *RunRecord) string {
	want := 0
	if e.ExitCode != nil {
		want = *e.ExitCode
	}
	if run.Result.Exit != want {
		return fmt.Sprintf("exit code %d, want %d", run.Result.Exit, want)
	}
	return cmp.Or(e.Stdout.differs("stdout", run.Stdout), e.StdoutContains.missing("stdout", run.Stdout),
		e.Stderr.differs("stderr", run.Stderr))
}

// programCriterion is a shell or custom criterion: a script or command of the customer's that runs in the workspace and
// sees the tests. It runs beside the delivery, which can read it and change the files that it checks; so its findings
// are weak.
type programCriterion struct {
	caseName
	service Service
	tap     int // required number of tests in its report; 0 if it makes no report
	stdin   string
	outputExpected
}

// readShell parses a criterion that needs a script.
func readShell(e *Entry, _ *Criteria) (criterion, error) {
	if e.Script == "" {
		return nil, fmt.Errorf("%q needs a script", cmp.Or(e.Type, e.Framework))
	}
	return readProgram(e)
}

// readCustom parses a criterion that needs a script or a command.
func readCustom(e *Entry, _ *Criteria) (criterion, error) {
	if e.Service.empty() {
		return nil, fmt.Errorf("%q needs a script or a command", cmp.Or(e.Type, e.Framework))
	}
	return readProgram(e)
}

// readProgram parses a shell or custom criterion.
func readProgram(e *Entry) (criterion, error) {
	switch {
	case len(e.Cases) > 0:
		return nil, fmt.Errorf("a %s criterion has no cases", e.Framework)
	case e.Report != "" && e.Report != reportTAP:
		return nil, fmt.Errorf("unknown report %q, want %s", e.Report, reportTAP)
	case (e.Report == reportTAP) != (e.Tests > 0):
		return nil, errors.New("a tap report needs tests, the number of them, so that none can go missing")
	}
	c := &programCriterion{
		caseName: e.caseName, service: e.Service, tap: e.Tests, stdin: e.Stdin, outputExpected: e.Expected.outputExpected,
	}
	return c, e.only("exit_code", "stdout", "stdout_contains", "stderr")
}

func (c *programCriterion) planned(*examination) map[string]int {
	return map[string]int{c.ID: max(1, c.tap)}
}

// examine runs the program once. Its exit code and output are one test, or its report has several.
func (c *programCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	f.Because = "the script decided beside the delivery, which can read it and change what it looks at"
	argv, err := j.start(c.service)
	if err != nil {
		return err
	}
	s := sandbox.Spec{Argv: argv, Env: environment(), Copies: j.layout.copies(true, nil), Limits: j.limits()}
	j.showTestsBeside(&s)
	run, err := j.run(ctx, f, s, c.stdin)
	if err != nil {
		return err
	}
	if c.tap == 0 {
		f.Tests = append(f.Tests, c.judge(run, f, c.differs(run)))
		f.blameProgram(run)
		return nil
	}
	f.Tests = readTAP(run.Stdout, c.ID, c.tap)
	f.blameProgram(run)
	f.distrust(run.Result)
	return nil
}

// judge returns the test that one run decides. why is the difference from the expected result, or "".
func (n caseName) judge(run *RunRecord, f *Finding, why string) guild.Test {
	t := n.test(guild.TestPassed, "")
	t.Micros = run.Result.Usage.WallMs * 1000
	switch {
	case run.Result.Killed != "":
		t.State, t.Message = guild.TestFailed, f.Fault
	case run.Result.Cut:
		t.State, t.Message = guild.TestFailed, "it wrote more output than is kept"
	case why != "":
		t.State, t.Message = guild.TestFailed, cut(strings.TrimSpace(why+"; "+lastLine(run.Stderr)))
		if run.Result.Signal != "" {
			f.Fault = cmp.Or(f.Fault, "ended by "+run.Result.Signal)
		}
	}
	return t
}

// start returns the command line of a service: its command, or its script with the interpreter from the #! line.
func (j *examination) start(s Service) ([]string, error) {
	if len(s.Command) > 0 {
		return s.Command, nil
	}
	file, err := os.Open(filepath.Join(j.tests, strings.TrimPrefix(s.Script, "tests")))
	if err != nil {
		return nil, undecided("%w", err)
	}
	defer file.Close()
	line, _ := bufio.NewReaderSize(file, 256).ReadString('\n')
	interpreter := []string{"/bin/sh"}
	if rest, ok := strings.CutPrefix(line, "#!"); ok && strings.TrimSpace(rest) != "" {
		interpreter = strings.Fields(rest)
	}
	return append(interpreter, judgeDir+"/"+s.Script), nil
}

// lastLine returns the last non-blank line.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// readTAP parses lines such as "ok 3 - adds # SKIP no reason". The expected tests have the numbers 1 to n. A test that
// is reported twice, skipped or marked as TODO has not passed.
//
// The number of tests is given by the criterion. Otherwise a delivery that ends the script early would have fewer tests
// to pass.
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
		t.State = state
		if state != guild.TestPassed {
			t.Message = cut(message)
		}
	}
	return tests
}

// tapLine parses one line. The number is 0 if the line is not a test result.
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
