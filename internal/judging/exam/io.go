package exam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

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
	for i, one := range c.cases {
		if e := one.output; e.Stdout == nil && len(e.StdoutContains) == 0 && e.Stderr == nil && len(one.files.Files) == 0 {
			f.Strength, f.Because = guild.Weak, "an exit code alone is soon guessed"
		}
		if f.OverLimit || len(f.Breaches) > 0 {
			why := f.Fault
			if len(f.Breaches) > 0 {
				why = "the delivery tried what it must not"
			}
			f.Tests = append(f.Tests, tests(c.cases[i:], guild.TestMissing, notRunPrefix+why)...)
			break
		}
		j.begins(one.ID)
		if err := c.run(ctx, j, one, f); err != nil {
			return err
		}
	}
	return nil
}

// run runs one case.
func (c *ioCriterion) run(ctx context.Context, j *examination, one ioCase, f *Finding) error {
	if name := j.collision(one.Files); name != "" {
		message := "the delivery has a directory or a file in the way of the case's file " + name
		f.Tests = append(f.Tests, one.test(guild.TestFailed, message))
		return nil
	}
	s := sandbox.Spec{
		Argv: slices.Concat(c.command, one.Args), Env: environment(), Limits: j.limits(),
		Copies:  j.layout.copies(true, nil),
		Collect: slices.Sorted(maps.Keys(one.files.Files)),
	}
	if len(one.Files) > 0 {
		dir, err := j.writeFiles(one.Files)
		if err != nil {
			return err
		}
		s.Copies = append(s.Copies, sandbox.Copy{Host: dir, Inside: sandbox.Workspace})
	}
	run, left, err := j.runFiles(ctx, f, s, one.Stdin)
	if err != nil {
		return err
	}
	f.Tests = append(f.Tests, one.judge(run, f, cmp.Or(one.output.differs(run), one.files.differs(left))))
	f.blameProgram(run)
	return nil
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
