package work

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// assignment returns an assignment with real directories.
func assignment(t *testing.T) (a Assignment, said func() []string) {
	t.Helper()
	dir := t.TempDir()
	a = Assignment{Bundle: filepath.Join(dir, "bundle"), Delivery: filepath.Join(dir, "delivery"), Job: "job-1", Limit: time.Minute}
	for _, d := range []string{a.Bundle, a.Delivery} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var lines []string
	a.Say = func(line string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, line) }
	return a, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(lines) }
}

func TestCommandDirectoriesAndLines(t *testing.T) {
	a, said := assignment(t)
	x := Exec{Runner: Bare{}, Env: []string{"MODEL=small"},
		Command: `echo "half way"; echo; pwd; echo "$GUILD_JOB $MODEL"; env | grep -c NOSTR; echo done > "$GUILD_DELIVERY/out.txt"`}
	t.Setenv("NOSTR_SECRET_KEY", "secret")
	if err := x.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := said(); !slices.Equal(got, []string{"half way", a.Bundle, "job-1 small", "0"}) {
		t.Errorf("said %q", got)
	}
	if out, err := os.ReadFile(filepath.Join(a.Delivery, "out.txt")); err != nil || string(out) != "done\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestFailingCommand(t *testing.T) {
	a, _ := assignment(t)
	if err := (Exec{Runner: Bare{}, Command: "exit 3"}).Do(t.Context(), a); err == nil || err.Error() != "the worker failed with exit code 3" {
		t.Errorf("got %v", err)
	}
}

func TestOvertimeKillsAllProcesses(t *testing.T) {
	a, _ := assignment(t)
	a.Limit = 2 * time.Second
	began := time.Now()
	err := (Exec{Runner: Bare{}, Command: `sleep 60 & echo $! > "$GUILD_DELIVERY/child"; wait`}).Do(t.Context(), a)
	if err == nil || !strings.Contains(err.Error(), "limit") || time.Since(began) > 40*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	child, err := os.ReadFile(filepath.Join(a.Delivery, "child"))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(40 * time.Second); ; {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return // a killed process may take a moment to go
		}
		select {
		case <-deadline:
			t.Fatalf("what it started lives on: %s", stat)
		case <-time.Tick(10 * time.Millisecond):
		}
	}
}

func TestWithdrawnCommandEnds(t *testing.T) {
	a, _ := assignment(t)
	ctx, cancel := context.WithCancel(t.Context())
	a.Say = func(string) { cancel() }
	began := time.Now()
	if err := (Exec{Runner: Bare{}, Command: "echo begun; sleep 60"}).Do(ctx, a); err == nil || time.Since(began) > 40*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestEndlessLineDoesNotBlock(t *testing.T) {
	a, said := assignment(t)
	x := Exec{Runner: Bare{}, Command: `head -c 3000000 /dev/zero | tr '\0' x; echo done > "$GUILD_DELIVERY/out.txt"`}
	if err := x.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for _, line := range said() {
		if len(line) > 2000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

func TestResolveProgram(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "it's a worker")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if resolved, program, err := Resolve("cat -n"); resolved != "cat -n" || program != "" || err != nil {
		t.Errorf("%q, %q, %v", resolved, program, err)
	}
	for _, bad := range []string{"", "   ", "./absent -x", "./"} {
		if _, _, err := Resolve(bad); err == nil {
			t.Errorf("%q is a command", bad)
		}
	}
	if err := os.Rename(program, filepath.Join(dir, "it's")); err != nil {
		t.Fatal(err)
	}
	resolved, program, err := Resolve("./it's --fast")
	if err != nil || resolved != `'`+dir+`/it'\''s' --fast` || program != dir+"/it's" {
		t.Errorf("%q, %q, %v", resolved, program, err)
	}
}

func TestResolveRefusesFileArguments(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("solve.py", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := Resolve("python3 solve.py --fast")
	if _, ok := errors.AsType[*CommandError](err); !ok {
		t.Errorf("the customer's solve.py would be run: %v", err)
	}
	for _, fine := range []string{"python3 other.py", "python3 " + dir + "/solve.py", "cat -n"} {
		if _, _, err := Resolve(fine); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

func TestFindProgram(t *testing.T) {
	for command, want := range map[string]bool{
		"cat -n": true, "cd files && ls": true, "A=1 sh -c true": true, "no-such-program --fast": false,
	} {
		if found, err := (Exec{Runner: Bare{}, Command: command}).Find(t.Context()); found != want || err != nil {
			t.Errorf("%s: %v, %v", command, found, err)
		}
	}
}

func TestUnsandboxedCommandReachesItsAPIByLoopback(t *testing.T) {
	a, said := assignment(t)
	x := Exec{Runner: Bare{}, API: api(t), Command: `/usr/bin/python3 -I -c '
import os, urllib.request, urllib.error
def ask(token):
    r = urllib.request.Request(os.environ["GUILD_API_URL"] + "/messages", b"{}", {"X-Api-Key": token})
    try:
        return urllib.request.urlopen(r).status
    except urllib.error.HTTPError as e:
        return e.code
print(ask(os.environ["GUILD_API_TOKEN"]), ask("another"), os.environ["GUILD_API_URL"], flush=True)
'`}
	if err := x.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.Join(said(), " "))
	if len(words) != 3 || words[0] != "200" || words[1] != "401" || !strings.HasPrefix(words[2], "http://127.0.0.1:") {
		t.Fatalf("said %q", words)
	}
	if _, err := http.Get(words[2]); err == nil {
		t.Error("the proxy is still there")
	}
}

func TestLoginTooLargeToBeSearchedIsRefused(t *testing.T) {
	a, _ := assignment(t)
	file := filepath.Join(t.TempDir(), "auth.json")
	x := Exec{Runner: Bare{}, Command: "true", Login: &Login{Host: file, Inside: ".codex/auth.json"}}
	for size, want := range map[int]string{maxSecretFile: "", maxSecretFile + 1: "the agent's login: " + file + " has more than 65536 bytes"} {
		if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := x.Do(t.Context(), a); err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestOwnerSeesWhyWorkerFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(func(context.Context, Assignment) error {
			return &FailedError{Text: "the worker failed with exit code 3", Stderr: "no module named x"}
		}))
		var log bytes.Buffer
		w.Work.c.Log = slog.New(slog.NewTextHandler(&log, nil))
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(time.Second)
		synctest.Wait()
		if n := strings.Count(log.String(), `msg="a worker failed"`); n != 1 || !strings.Contains(log.String(), "no module named x") {
			t.Errorf("logged %s", log.String())
		}
		for _, f := range w.told(customer, id) {
			if strings.Contains(f.Text+f.Content, "module") {
				t.Errorf("the customer was told %+v", f)
			}
		}
	})
}

func TestOvertimeKeepsWhatOwnerSees(t *testing.T) {
	s := python(func(ctx context.Context, _ Assignment) error {
		<-ctx.Done()
		return &FailedError{Text: "the worker went over its limit: wall", Stderr: "still at it"}
	})
	s.Limit = 50 * time.Millisecond
	trial, _, err := tries(t, s, bundle(t, nil))
	if err == nil || !strings.Contains(err.Error(), "the worker ran over its ") || trial.Stderr != "still at it" {
		t.Errorf("%v, stderr %q", err, trial.Stderr)
	}
}

func TestPromptOfAgent(t *testing.T) {
	a, said := assignment(t)
	manifest := `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-x",
		"task":{"title":"Say $(id) 'hello'","summary":"In one\nline."},"context":{"requirements":"context/requirements.md"},
		"acceptance":{"checklist":["It is short"]},"harness":{"constraints":["No \u001b[31mcolour"],"execution_strategy":"incremental","checkpoints":true}}`
	if err := os.WriteFile(filepath.Join(a.Bundle, "nutshell.json"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	x := Exec{Runner: Bare{}, Prompt: true, Model: "m1", Command: `echo "$GUILD_MODEL"; echo "$GUILD_PROMPT"`}
	if err := x.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(said(), "\n")
	for _, want := range []string{
		"m1\n", "Task: Say $(id) 'hello'\n", "In one\nline.", "Read first:\n- " + a.Bundle + "/context/requirements.md\n", "It must hold that:\n- It is short\n",
		"Constraints:\n- No", "Strategy: incremental\n", "Leave what is finished in " + a.Delivery + " as you go.", "Only what is in\n" + a.Delivery + " when you end is delivered",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Error("it has control characters")
	}
}
