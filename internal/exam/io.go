package exam

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"guild"
	"guild/internal/sandbox"
)

// io runs a command on each case, in a fresh sandbox with no test in sight, and compares what came of it out here.
func (j *examination) io(ctx context.Context, c Criterion, f *Finding) error {
	f.Strength, f.Because = guild.Strong, "what the program printed and wrote was compared outside of its sandbox"
	cases := c.all()
	for i, one := range cases {
		if !one.Expected.content() {
			f.Strength, f.Because = guild.Weak, "an exit code alone is soon guessed"
		}
		if f.OverLimit || len(f.Breaches) > 0 {
			f.Tests = append(f.Tests, unrun(cases[i:], "not run: "+ending(f))...)
			break
		}
		if err := j.ioCase(ctx, c, one, f); err != nil {
			return err
		}
	}
	return nil
}

// ending says what ended a criterion before all its cases were run.
func ending(f *Finding) string {
	if len(f.Breaches) > 0 {
		return "the delivery tried what it must not"
	}
	return f.Fault
}

// unrun are the tests of cases that were not run.
func unrun(cases []Case, why string) []guild.Test {
	var tests []guild.Test
	for _, c := range cases {
		tests = append(tests, guild.Test{ID: c.ID, State: guild.TestMissing, Message: cut(why), Layer: c.Layer})
	}
	return tests
}

// ioCase is one case of an io criterion.
func (j *examination) ioCase(ctx context.Context, c Criterion, one Case, f *Finding) error {
	s := sandbox.Spec{
		Argv: append(slices.Clone(c.Command), one.Args...), Env: environment(), Limits: j.limits(),
		Copies:  j.layout.copies(true, nil),
		Collect: slices.Sorted(maps.Keys(one.Expected.Files)),
	}
	if name := j.collision(one.Files); name != "" {
		message := fmt.Sprintf("the delivery has a directory or a file in the way of the case's file %s", name)
		f.Tests = append(f.Tests, guild.Test{ID: one.ID, State: guild.TestFailed, Message: cut(message), Layer: one.Layer})
		return nil
	}
	if len(one.Files) > 0 {
		dir, err := j.writeFiles(one.Files)
		if err != nil {
			return err
		}
		s.Copies = append(s.Copies, sandbox.Copy{Host: dir, Inside: sandbox.Workspace})
	}
	return j.expect(ctx, one, f, s)
}

// collision is the name of a case's file that cannot be laid over the workspace, because the delivery has a
// directory there, or a file where a directory would be.
func (j *examination) collision(files map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if j.layout.seen[name] {
			return name
		}
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if isDir, there := j.layout.seen[dir]; there && !isDir {
				return name
			}
		}
	}
	return ""
}

// inTheWay is the name of a file below dir that cannot be laid over the workspace at a place there.
func (j *examination) inTheWay(dir, at string) string {
	names, err := survey(dir, map[string]bool{})
	if err != nil {
		return dir
	}
	files := map[string]string{}
	for _, name := range names {
		files[filepath.Join(at, name)] = ""
	}
	return j.collision(files)
}

// writeFiles writes a case's files for the host, to be copied into its sandbox.
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

// expect runs a command and judges it by its exit code, its output and the files that it leaves.
func (j *examination) expect(ctx context.Context, one Case, f *Finding, s sandbox.Spec) error {
	archive := &sandbox.Head{Most: maxArchive}
	run, err := j.runFiles(ctx, f, s, one.Stdin, archive)
	if err != nil {
		return err
	}
	t := guild.Test{ID: one.ID, State: guild.TestPassed, Layer: one.Layer, Micros: run.Result.Usage.WallMs * 1000}
	got := output{exit: run.Result.Exit, stdout: run.Stdout, stderr: run.Stderr, files: collected(archive.Bytes(), s.Collect)}
	switch why := one.Expected.met(got); {
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
	f.Tests = append(f.Tests, t)
	return nil
}
