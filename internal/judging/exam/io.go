package exam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
)

// maxCaseFiles limits the input files of a case, and its expected files.
const maxCaseFiles = 100

// ioInput is the input of a program.
type ioInput struct {
	Args  []string          `json:"args,omitempty"` // appended to the command
	Stdin string            `json:"stdin,omitempty"`
	Files map[string]string `json:"files,omitempty"` // copied over the workspace: name → content
}

// with returns the input of a case; in has the arguments and files that apply to all cases of the criterion.
func (in ioInput) with(one ioInput) ioInput {
	return ioInput{Args: slices.Concat(in.Args, one.Args), Stdin: one.Stdin, Files: overlay(in.Files, one.Files)}
}

// filesExpected lists the files that a program must leave below the workspace.
type filesExpected struct {
	Files map[string]Match `json:"files,omitempty"`
}

func (e filesExpected) given() []string { return names(map[string]bool{"files": len(e.Files) > 0}) }

// differs returns how the files of a run differ from the expected ones, or "".
func (e filesExpected) differs(got map[string][]byte) string {
	for _, name := range slices.Sorted(maps.Keys(e.Files)) {
		content, there := got[name]
		if !there {
			return name + " is missing"
		}
		match := e.Files[name]
		if why := match.differs(name, string(content)); why != "" {
			return why
		}
	}
	return ""
}

// checkFiles rejects names of files that cannot be copied or collected.
func checkFiles[V any](files map[string]V) error {
	if len(files) > maxCaseFiles {
		return fmt.Errorf("more than %d files", maxCaseFiles)
	}
	for name := range files {
		if !local(name) {
			return fmt.Errorf("file %q is not below the workspace", name)
		}
	}
	return nil
}

// ioCriterion runs a command on each case, in a new sandbox without tests, and compares the output outside the sandbox.
type ioCriterion struct {
	command []string
	cases   []ioCase
}

type ioCase struct {
	caseName
	ioInput
	output outputExpected
	files  filesExpected
}

// readIO parses a criterion that needs a command.
func readIO(e *Entry, _ *Criteria) (criterion, error) {
	if len(e.Command) == 0 {
		return nil, errors.New("an io criterion needs a command")
	}
	c := &ioCriterion{command: e.Command}
	for _, one := range e.all() {
		c.cases = append(c.cases, ioCase{
			caseName: one.caseName, ioInput: one.ioInput, output: one.Expected.outputExpected, files: one.Expected.filesExpected,
		})
	}
	return c, e.only("exit_code", "stdout", "stdout_contains", "stderr", "files")
}

func (c *ioCriterion) planned(*examination) map[string]int { return ids(c.cases) }

// examine runs the cases, each in its own sandbox, so that a case cannot depend on an earlier one. After an exceeded
// limit or a breach it stops: each further case would cost as much again.
func (c *ioCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	f.Strength, f.Because = guild.Strong, "what the program printed and wrote was compared outside of its sandbox"
	var done []ioAnswer
	for i, one := range c.cases {
		if f.OverLimit || len(f.Breaches) > 0 {
			why := f.Fault
			if len(f.Breaches) > 0 {
				why = "the delivery tried what it must not"
			}
			f.Tests = append(f.Tests, tests(c.cases[i:], guild.TestMissing, notRunPrefix+why)...)
			break
		}
		j.begins(one.ID)
		answer, err := c.run(ctx, j, one, f)
		if err != nil {
			return err
		}
		if f.Tests[i].State != guild.TestPassed {
			answer = ioAnswer{}
		}
		done = append(done, answer)
	}
	f.proveCases(j.programName(c.command), c.lies(done), c.idle)
	return nil
}

// prove says what the cases can show if the program passes all.
func (c *ioCriterion) prove() Finding { return proven("the program", c.cases, c.lies(nil), c.idle) }

// ioAnswer holds the output, the exit code and the files of a program in one case.
type ioAnswer struct {
	run   *RunRecord // nil if the case did not pass
	files map[string][]byte
}

// run runs one case.
func (c *ioCriterion) run(ctx context.Context, j *examination, one ioCase, f *Finding) (ioAnswer, error) {
	if name := j.collision(one.Files); name != "" {
		message := "the delivery has a directory or a file in the way of the case's file " + name
		f.Tests = append(f.Tests, one.test(guild.TestFailed, message))
		return ioAnswer{}, nil
	}
	s := sandbox.Spec{
		Argv: slices.Concat(c.command, one.Args), Env: environment(), Limits: j.limits(),
		Copies:  j.layout.copies(true, nil),
		Collect: slices.Sorted(maps.Keys(one.files.Files)),
	}
	if len(one.Files) > 0 {
		dir, err := j.writeFiles(one.Files)
		if err != nil {
			return ioAnswer{}, err
		}
		s.Copies = append(s.Copies, sandbox.Copy{Host: dir, Inside: sandbox.Workspace})
	}
	run, left, err := j.runFiles(ctx, f, s, one.Stdin)
	if err != nil {
		return ioAnswer{}, err
	}
	f.Tests = append(f.Tests, one.judge(run, f, cmp.Or(one.output.differs(run), one.files.differs(left))))
	f.blameProgram(run)
	return ioAnswer{run, left}, nil
}

// programName returns the file of the workspace that a command runs.
func (j *examination) programName(command []string) string {
	for _, word := range command {
		if isDir, there := j.layout.seen[filepath.Clean(word)]; there && !isDir {
			return filepath.Clean(word)
		}
	}
	return "the program"
}

// idle reports whether a case passes whatever the program does, as long as it ends with exit code 0.
func (c *ioCriterion) idle(i int) bool {
	e := c.cases[i].output
	return len(c.cases[i].files.Files) == 0 && e.differs(&RunRecord{}) == "" && e.differs(&RunRecord{Stdout: odd, Stderr: odd}) == ""
}

// lies returns what lies say about the exit code, the output and the files. done has what the program has answered in
// the cases that passed.
func (c *ioCriterion) lies(done []ioAnswer) iter.Seq[part] {
	var stdout, stderr, wantOut, wantErr []string
	for _, one := range c.cases {
		wantOut = append(wantOut, one.output.Stdout.sample(), strings.Join(one.output.StdoutContains, "\n"))
		wantErr = append(wantErr, one.output.Stderr.sample())
	}
	for _, a := range done {
		if a.run != nil {
			stdout, stderr = append(stdout, a.run.Stdout), append(stderr, a.run.Stderr)
		}
	}
	given := c.given()
	return func(yield func(part) bool) {
		more := yield(c.exits()) &&
			yield(texts("standard output", slices.Concat(given, same(len(c.cases), stdout, wantOut)), func(i int, text string) bool {
				e := outputExpected{Stdout: c.cases[i].output.Stdout, StdoutContains: c.cases[i].output.StdoutContains}
				return e.differs(&RunRecord{Stdout: text}) == ""
			})) &&
			yield(texts("standard error", slices.Concat(given, same(len(c.cases), stderr, wantErr)), func(i int, text string) bool {
				return outputExpected{Stderr: c.cases[i].output.Stderr}.differs(&RunRecord{Stderr: text}) == ""
			}))
		for _, name := range c.leaves() {
			more = more && yield(c.file(name, given, done))
		}
	}
}

// file returns what lies say about a file that the program leaves.
func (c *ioCriterion) file(name string, given []rule, done []ioAnswer) part {
	var got, expected []string
	for i, one := range c.cases {
		match, expects := one.files.Files[name]
		if !expects {
			continue
		}
		expected = append(expected, match.sample())
		if i < len(done) && done[i].run != nil {
			got = append(got, string(done[i].files[name]))
		}
	}
	kept := rule{"as it was given", func(i int) (string, bool) {
		text, ok := c.cases[i].Files[name]
		return text, ok
	}}
	return texts(name, slices.Concat([]rule{kept}, given, same(len(c.cases), got, expected)), func(i int, text string) bool {
		match, expects := c.cases[i].files.Files[name]
		return !expects || match.differs(name, text) == ""
	})
}

// exits returns what lies say about the exit code: always one that a case expects, or the most usual ones.
func (c *ioCriterion) exits() part {
	codes := []int{0, 1, 2}
	for _, one := range c.cases {
		if e := one.output; e.ExitCode != nil && !slices.Contains(codes, *e.ExitCode) {
			codes = append(codes, *e.ExitCode)
		}
	}
	var p part
	for _, code := range codes {
		p = append(p, lie{fmt.Sprintf("always exit code %d", code), func(i int) bool {
			e := outputExpected{ExitCode: c.cases[i].output.ExitCode}
			return e.differs(&RunRecord{Result: sandbox.Result{Exit: code}}) == ""
		}})
	}
	return p
}

// given returns the rules that repeat what the cases give the program.
func (c *ioCriterion) given() []rule {
	files := func(i int) []string {
		var contents []string
		for _, name := range slices.Sorted(maps.Keys(c.cases[i].Files)) {
			contents = append(contents, c.cases[i].Files[name])
		}
		return contents
	}
	return slices.Concat(
		pieces("its standard input", func(i int) string { return c.cases[i].Stdin }),
		items("its arguments", func(i int) []string { return slices.Concat(c.command[1:], c.cases[i].Args) }),
		items("its files", files),
	)
}

// leaves returns the names of the files that cases expect.
func (c *ioCriterion) leaves() []string {
	all := map[string]bool{}
	for _, one := range c.cases {
		for name := range one.files.Files {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// writeFiles writes files to a host directory, from which they are copied into a sandbox.
func (j *examination) writeFiles(files map[string]string) (dir string, err error) {
	if dir, err = j.scratchDir("case"); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	for name, content := range files {
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return "", undecided("file %q: %w", name, err)
		}
		if err := root.WriteFile(name, []byte(content), 0o600); err != nil {
			return "", undecided("file %q: %w", name, err)
		}
	}
	return dir, nil
}
