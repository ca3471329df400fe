package namespaces

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
)

// warm returns a runner for one test.
func warm(t testing.TB) *Runner {
	r := &Runner{}
	t.Cleanup(func() { r.Close() })
	return r
}

// fork runs a program in a fork or fails.
func (r *Runner) fork(t *testing.T, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	t.Helper()
	return r.warm.run(t.Context(), r.base, s, streams)
}

// stdin is the input of every program here.
const stdin = "hello\n"

// program returns a run of main() with small limits, but enough time for a busy machine.
func program(setup string, change ...func(*sandbox.Spec)) sandbox.Spec {
	s := sandbox.Spec{
		Argv:    []string{"/usr/bin/python3", "-I", "-B"},
		Program: &sandbox.Program{Name: "test", Setup: setup},
		Env:     []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "Z=1", "A=ä"},
		Limits: sandbox.Limits{
			Wall: time.Minute, CPU: 30 * time.Second, Memory: 256 << 20, Disk: 32 << 20, Output: 64 << 10, Pids: 50,
		},
	}
	for _, c := range change {
		c(&s)
	}
	s.Limits = s.Limits.WithDefaults()
	return s
}

// ran holds the result and the output of a run.
type ran struct {
	exit                    int
	signal, killed          string
	cut                     bool
	stdout, stderr, results string
	breaches                []guild.Breach
	usage                   guild.Usage
}

func result(r sandbox.Result, out *[3]bytes.Buffer) ran {
	return ran{r.Exit, r.Signal, r.Killed, r.Cut, out[0].String(), out[1].String(), out[2].String(), r.Breaches, r.Usage}
}

// forked runs a program in a fork.
func forked(t *testing.T, r *Runner, s sandbox.Spec) ran {
	t.Helper()
	res, err := run(t, r, s)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// cold runs a program in its own interpreter.
func cold(t *testing.T, r *Runner, s sandbox.Spec) ran {
	t.Helper()
	s.Argv = s.Command()
	s.Program = nil
	var out [3]bytes.Buffer
	res, err := r.Run(t.Context(), s, sandbox.IO{
		Stdin: strings.NewReader(stdin), Stdout: &out[0], Stderr: &out[1], Results: &out[2],
	})
	if err != nil {
		t.Fatal(err)
	}
	return result(res, &out)
}

// body returns a program with these lines as main().
func body(lines string) string {
	return "import os, sys\n\ndef main():\n    " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ")
}

// does returns a run of some lines. All such runs share one template.
func does(lines string, change ...func(*sandbox.Spec)) sandbox.Spec {
	s := program(body("exec(os.environ.pop('LINES'), globals())"), change...)
	s.Env = append(s.Env, "LINES="+strings.TrimSpace(lines))
	return s
}

// run runs a program in a fork, which may fail.
func run(t *testing.T, r *Runner, s sandbox.Spec) (ran, error) {
	t.Helper()
	var out [3]bytes.Buffer
	res, err := r.fork(t, s, sandbox.IO{
		Stdin: strings.NewReader(stdin), Stdout: &out[0], Stderr: &out[1], Results: &out[2],
	})
	if err != nil {
		return ran{}, err
	}
	return result(res, &out), nil
}
