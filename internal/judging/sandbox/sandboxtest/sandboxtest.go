// Package sandboxtest tests a sandbox.Runner: that it isolates, enforces the limits, connects the streams, and leaves
// nothing behind. Every Runner must pass it.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"guild/internal/judging/sandbox"
)

// Test runs the suite. It calls newRunner once for each part. It skips, and logs, checks for features that the runner lacks;
// none of those is about isolation.
func Test(t *testing.T, newRunner func(*testing.T) sandbox.Runner) {
	caps := newRunner(t).Probe(t.Context())
	if !caps.Usable {
		t.Fatalf("not usable: %s; %s", caps.Reason, caps.Remedy)
	}
	for _, part := range []struct {
		name string
		test func(*testing.T, runner)
	}{
		{"probe", probe},
		{"streams", streams},
		{"endings", endings},
		{"host is hidden", host},
		{"network", network},
		{"limits", limits},
		{"usage", metrics},
		{"soft limits", soft},
		{"escapes", escapes},
		{"profiles", profiles},
		{"mounts and copies", shared},
		{"read-only copies", readOnly},
		{"program in two parts", program},
		{"channel", channel},
		{"served port", served},
		{"collect", collect},
		{"leftovers", leftovers},
		{"stopped", stopped},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, runner{newRunner(t), caps}) })
	}
	for _, f := range caps.Lacks {
		t.Logf("not tested, the runner lacks it: %s", f)
	}
}

// runner is the tested runner with its capabilities.
type runner struct {
	sandbox.Runner
	caps sandbox.Caps
}

// has reports whether the runner has a feature, and logs if it does not.
func (r runner) has(t *testing.T, f sandbox.Feature) bool {
	t.Helper()
	if !r.caps.Has(f) {
		t.Logf("not tested: the %s tier lacks: %s", r.caps.Tier, f)
	}
	return r.caps.Has(f)
}

// ran is a result with its output.
type ran struct {
	sandbox.Result
	stdout, stderr, results string
}

// sh runs a shell script with small limits, which change may alter.
func sh(t *testing.T, r runner, script string, change ...func(*sandbox.Spec)) ran {
	t.Helper()
	return with(t, r, "", script, change...)
}

// py runs a Python program.
func py(t *testing.T, r runner, program string, change ...func(*sandbox.Spec)) ran {
	t.Helper()
	change = append(change, func(s *sandbox.Spec) { s.Argv = []string{"/usr/bin/python3", "-I", "-c", program} })
	return with(t, r, "", "", change...)
}

// small returns a spec with small limits.
func small() sandbox.Spec {
	return sandbox.Spec{
		Env: []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"},
		Limits: sandbox.Limits{
			Wall: 20 * patience(), CPU: 5 * patience(), Memory: 256 << 20, Disk: 32 << 20, Output: 64 << 10, Pids: 50,
		},
	}
}

// with runs a shell script with this input.
func with(t *testing.T, r runner, stdin, script string, change ...func(*sandbox.Spec)) ran {
	t.Helper()
	s := small()
	s.Argv = []string{"/bin/sh", "-c", script}
	for _, c := range change {
		c(&s)
	}
	var stdout, stderr, results bytes.Buffer
	streams := sandbox.IO{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Results: &results}
	res, err := r.Run(t.Context(), s, streams)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return ran{Result: res, stdout: stdout.String(), stderr: stderr.String(), results: results.String()}
}

// prints fails the test unless the run exited with 0 and printed want.
func (r ran) prints(t *testing.T, want string) {
	t.Helper()
	if r.Exit != 0 || r.Killed != "" || strings.TrimSpace(r.stdout) != want {
		t.Errorf("exit %d %s %s\nstdout: %s\nstderr: %s\nwant:   %s", r.Exit, r.Signal, r.Killed, r.stdout, r.stderr, want)
	}
}

// killed fails the test unless the run was killed for the named limit.
func (r ran) killed(t *testing.T, by string) {
	t.Helper()
	if r.Killed != by {
		t.Errorf("killed by %q, want %q (exit %d, stdout %.200q, stderr %.200q)", r.Killed, by, r.Exit, r.stdout, r.stderr)
	}
}

func probe(t *testing.T, r runner) {
	c := r.Probe(t.Context())
	if !c.Usable || c.Tier == "" || c.Reason != "" || c.Remedy != "" {
		t.Errorf("probe: %+v", c)
	}
}

func streams(t *testing.T, r runner) {
	t.Run("stdin, stdout and stderr", func(t *testing.T) {
		got := with(t, r, "hello\n", "cat; echo oops >&2")
		got.prints(t, "hello")
		if got.stderr != "oops\n" {
			t.Errorf("stderr %q", got.stderr)
		}
	})
	t.Run("descriptor 3", func(t *testing.T) {
		if got := sh(t, r, "echo result >&3"); got.results != "result\n" || got.stdout != "" {
			t.Errorf("results %q, stdout %q", got.results, got.stdout)
		}
	})
	t.Run("no other descriptor is open", func(t *testing.T) {
		py(t, r, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])").prints(t, "[0, 1, 2, 3]")
	})
	t.Run("the environment is what was given", func(t *testing.T) {
		got := py(t, r, "import os; print(*sorted(k for k in os.environ if k != 'LC_CTYPE' and k != 'PWD'))")
		got.prints(t, "LANG PATH")
	})
	t.Run("output beyond the limit is cut", func(t *testing.T) {
		got := sh(t, r, "head -c 100000 /dev/zero")
		if len(got.stdout) != 64<<10 || !got.Cut || got.Killed != "" {
			t.Errorf("%d bytes, cut %v, killed %q", len(got.stdout), got.Cut, got.Killed)
		}
	})
	t.Run("output arrives while the command runs", func(t *testing.T) {
		in, answer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer answer.Close()
		var lines bytes.Buffer
		out := writerFunc(func(p []byte) (int, error) { // answers each line; the command waits for the answers
			lines.Write(p)
			return answer.Write([]byte("go\n"))
		})
		s := sandbox.Spec{
			Argv:   []string{"/bin/sh", "-c", "echo one; read x; echo two; read x"},
			Limits: sandbox.Limits{Wall: time.Minute},
		}
		res, err := r.Run(t.Context(), s, sandbox.IO{Stdin: in, Stdout: out})
		if err != nil || res.Exit != 0 || lines.String() != "one\ntwo\n" {
			t.Errorf("%+v %v %q", res, err, lines.String())
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func endings(t *testing.T, r runner) {
	if got := sh(t, r, "exit 7"); got.Exit != 7 || got.Signal != "" || got.Killed != "" {
		t.Errorf("exit 7: %+v", got.Result)
	}
	if got := sh(t, r, "kill -SEGV $$"); got.Exit != 139 || got.Signal != "SIGSEGV" {
		t.Errorf("SIGSEGV: %+v", got.Result)
	}
	if got := sh(t, r, "true"); got.Usage.WallMs < 0 || got.Usage.MemoryPeak <= 0 {
		t.Errorf("usage: %+v", got.Usage)
	}
	burn := "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass"
	if got := py(t, r, burn); got.Usage.CPUMs < 800 || got.Usage.CPUMs > 10_000 {
		t.Errorf("usage of a second of processor time: %+v", got.Usage)
	}
	missing := func(s *sandbox.Spec) { s.Argv = []string{"/no/such/program"} }
	if got := sh(t, r, "", missing); got.Exit == 0 {
		t.Errorf("missing program: %+v", got.Result)
	}
}

func stopped(t *testing.T, r runner) {
	ctx, cancel := context.WithCancel(t.Context())
	out := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	s := sandbox.Spec{Argv: []string{"/bin/sh", "-c", "echo started; sleep 100"}}
	_, err := r.Run(ctx, s, sandbox.IO{Stdout: out})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Run(t.Context(), sandbox.Spec{}, sandbox.IO{}); err == nil {
		t.Error("a run of nothing")
	}
}

// patience returns a second, or as many seconds as GUILD_PATIENCE says, for emulated machines.
func patience() time.Duration {
	n, err := strconv.Atoi(os.Getenv("GUILD_PATIENCE"))
	if err != nil || n < 1 {
		n = 1
	}
	return time.Duration(n) * time.Second
}
