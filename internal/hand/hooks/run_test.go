package hooks_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"guild/internal/hand/hooks"
	"guild/nook"
)

// TestMain lets the test program be a wrapper and a reporter of its own.
func TestMain(m *testing.M) {
	spool := hooks.Spool{Dir: os.Getenv("HOOKS_TEST_SPOOL")}
	if len(os.Args) > 3 && os.Args[1] == "hook" {
		c := hooks.Call{Tool: os.Args[2], AgentID: os.Args[3], Args: os.Args[4:], Stdin: os.Stdin, Getenv: os.Getenv, Now: time.Now()}
		_ = c.Run(hooks.Spool{Dir: filepath.Join(os.Getenv("NOOK_HOME"), "spool")})
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "run" {
		c := hooks.Command{Args: os.Args[2:], AgentID: "a", Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Now: time.Now}
		status, err := c.Run(context.Background(), spool)
		if err != nil {
			os.Exit(125)
		}
		os.Exit(status)
	}
	os.Exit(m.Run())
}

func command(args ...string) hooks.Command {
	return hooks.Command{Args: args, AgentID: "a", Stdout: io.Discard, Stderr: io.Discard, Now: time.Now}
}

func TestCommandReportsItsStartAndEnd(t *testing.T) {
	for _, c := range []struct {
		name, script string
		status       int
		want         string // type of the last event, and its error
		tokens       int64
	}{
		{"success", "true", 0, nook.TypeCompleted + " ", 0},
		{"failure", "exit 7", 7, nook.TypeFailed + " exit status 7", 0},
		{"signal", "kill -9 $$", 137, nook.TypeFailed + " signal: killed", 0},
		{"Claude Code", `echo '{"type":"assistant","message":{"usage":{"input_tokens":9}}}'
			echo '{"type":"result","usage":{"input_tokens":9},"modelUsage":{"a":{"inputTokens":100,"outputTokens":5,"cacheReadInputTokens":1000},"b":{"inputTokens":1}}}'`, 0, nook.TypeCompleted + " ", 1106},
		{"Codex", `echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":5,"output_tokens":1}}'
			echo '{"type":"turn.completed","usage":{"input_tokens":30,"cached_input_tokens":5,"output_tokens":2}}'`, 0, nook.TypeCompleted + " ", 32},
		{"OpenAI", `printf '{\n "object": "chat.completion",\n "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}\n}'`, 0, nook.TypeCompleted + " ", 10},
		{"two answers", `for i in 1 2; do echo 'data: {"object":"chat.completion.chunk","usage":{"prompt_tokens":7,"completion_tokens":3}}'; done`, 0, nook.TypeCompleted + " ", 20},
		{"text", `echo '{"type":"assistant","usage":{"input_tokens":9}}'; echo 'usage: 5'; echo '{"usage": "all"}'`, 0, nook.TypeCompleted + " ", 0},
		{"huge", `echo '{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}}'`, 0, nook.TypeCompleted + " ", nook.MaxTokens},
		{"negative", `echo '{"usage":{"prompt_tokens":-5,"completion_tokens":2}}'`, 0, nook.TypeCompleted + " ", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSpool(t)
			status, err := command("sh", "-c", c.script).Run(t.Context(), s)
			if status != c.status || err != nil {
				t.Errorf("status %d, %v", status, err)
			}
			got := map[string]nook.Event{}
			for _, e := range drain(t, s) {
				got[e.Type] = e
			}
			want, problem, _ := strings.Cut(c.want, " ")
			last, ok := got[want]
			if len(got) != 2 || got[nook.TypeStarted].WorkUnitID != "sh" || !ok || last.Error != problem || last.Tokens != c.tokens {
				t.Errorf("%+v", got)
			}
			if want == nook.TypeCompleted && (last.WorkUnitID != "sh" || last.Success == nil || !*last.Success) {
				t.Errorf("%+v", last)
			}
		})
	}
}

func TestOutputPassesUntouched(t *testing.T) {
	var out, errs bytes.Buffer
	c := command("sh", "-c", `cat; printf 'no newline \000\377'; echo problem >&2`)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader("from stdin\r\n"), &out, &errs
	if _, err := c.Run(t.Context(), newSpool(t)); err != nil {
		t.Fatal(err)
	}
	if out.String() != "from stdin\r\nno newline \x00\xff" || errs.String() != "problem\n" {
		t.Errorf("%q, %q", out.String(), errs.String())
	}
}

func TestCommandThatDoesNotStartReportsNothing(t *testing.T) {
	s := newSpool(t)
	if _, err := command("/nowhere/at/all").Run(t.Context(), s); err == nil {
		t.Error("no error")
	}
	if got := drain(t, s); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestCommandRunsWithoutSpool(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, err := command("sh", "-c", "exit 4").Run(t.Context(), hooks.Spool{Dir: filepath.Join(file, "spool")}); status != 4 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	for _, name := range []string{"TERM", "INT", "HUP", "USR1"} {
		t.Run(name, func(t *testing.T) {
			s := newSpool(t)
			wrapper := exec.Command(os.Args[0], "run", "sh", "-c", `trap 'echo got; exit 9' `+name+`; echo ready; while :; do sleep 0.05; done`)
			wrapper.Env = append(os.Environ(), "HOOKS_TEST_SPOOL="+s.Dir)
			out, err := wrapper.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := wrapper.Start(); err != nil {
				t.Fatal(err)
			}
			ready := make([]byte, 6)
			if _, err := io.ReadFull(out, ready); err != nil {
				t.Fatal(err)
			}
			if err := exec.Command("kill", "-"+name, strconv.Itoa(wrapper.Process.Pid)).Run(); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(out)
			if err != nil || string(rest) != "got\n" {
				t.Errorf("%q, %v", rest, err)
			}
			_ = wrapper.Wait()
			if got := wrapper.ProcessState.ExitCode(); got != 9 {
				t.Errorf("exit status %d", got)
			}
			if got := drain(t, s); len(got) != 2 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestClosedOutputIsNoFailure(t *testing.T) {
	s := newSpool(t)
	sh := exec.Command("sh", "-c", `"$0" run sh -c 'yes; true' | head -n 1`, os.Args[0])
	sh.Env = append(os.Environ(), "HOOKS_TEST_SPOOL="+s.Dir)
	out, err := sh.CombinedOutput()
	if err != nil || string(out) != "y\n" {
		t.Errorf("%q, %v", out, err)
	}
	for _, e := range drain(t, s) {
		if e.Type == nook.TypeFailed {
			t.Errorf("%+v", e)
		}
	}
}
