package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"fiatjaf.com/nostr"

	"guild"
	"guild/examples/humaneval"
	"guild/internal/control"
	"guild/internal/judging/suite"
	"guild/internal/policy"
	"guild/nip90"
)

// textJob is a job that a provider of text does.
type textJob struct {
	file    string // the file asked for
	bundle  []byte
	hidden  []byte
	program func(prompt string) string // what it answers
}

// textJobs returns a job and a benchmark; the benchmark for python, too, when soaking.
func textJobs(t *testing.T) map[string]textJob {
	t.Helper()
	problems, err := humaneval.Problems()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := problems[0].Bundle()
	if err != nil {
		t.Fatal(err)
	}
	criteria := tree.(fstest.MapFS)["tests/criteria.json"] // on a busy machine a start alone can take its time limit
	longer := fmt.Sprintf(`"time_limit_seconds": %d`, humaneval.TimeLimit)
	criteria.Data = bytes.Replace(criteria.Data, []byte(longer), []byte(longer+"0"), 1)
	all := map[string]textJob{
		"a job": {file: "solution.py", bundle: pack(t, tree), program: func(string) string { return problems[0].Canonical() }},
	}
	benchmarks := map[string]string{"benchmark-task": "solve.py"}
	if soaking() {
		benchmarks["python"] = "solution.py"
	}
	for task, file := range benchmarks {
		made, err := suite.Make(suite.Spec{Task: task, Modules: []string{"io"}, Seed: [32]byte{1}, Run: 1})
		if err != nil {
			t.Fatal(err)
		}
		all[task] = textJob{file, made.Bundle, made.Hidden, func(prompt string) string { return solve(t, task, file, prompt) }}
	}
	return all
}

// TestTextProviderDeliversPrograms hires a provider whose card says nothing but "k 5050" for programs. It answers in prose with
// one code block, as a language model does, and the real judge runs the tests.
func TestTextProviderDeliversPrograms(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	relay := startRelay(t)
	provider := newPeer(t, relay)
	provider.publish(nostr.Event{Kind: 31990, Tags: nostr.Tags{{"d", "x"}, {"k", "5050"}}})
	customer, _ := start(t, relay, func(c *Config) { c.Examine = nil })
	awaitProviders(t, customer, 1)
	for name, c := range textJobs(t) {
		h := control.Hire{Providers: []string{provider.pubkey.Hex()}, Timeout: ample.Milliseconds()}
		if c.hidden != nil {
			kept, err := control.KeepHidden.Call(t.Context(), customer, bytes.NewReader(c.hidden))
			if err != nil {
				t.Fatal(err)
			}
			h.Hidden = kept.Hash
		}
		id := open(t, customer, c.bundle, h)
		request := provider.next(5050)
		r, err := nip90.ParseRequest(request, nil)
		if err != nil {
			t.Fatal(err)
		}
		prompt := r.Inputs[0].Data
		if !strings.Contains(prompt, "Answer with the content of the file `"+c.file+"` and nothing else.") {
			t.Errorf("%s: %s", name, prompt)
		}
		provider.publish(nostr.Event{
			Kind: 6050, Tags: answers(request), Content: "Here it is:\n\n```python\n" + c.program(prompt) + "```\n\nIt needs no packages.\n",
		})
		job := finish(t, customer, id)
		if a := only(t, job); job.Ending != guild.JobAccepted || a.Verdict == nil || a.Verdict.Strength != guild.Strong {
			t.Errorf("%s: %s: %+v", name, job.Ending, a)
		}
	}
}

// TestBenchmarkOfACardThatDoesNotFit benchmarks the provider for a task that its card does not name, because a person names
// it, and says so.
func TestBenchmarkOfACardThatDoesNotFit(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	provider := newPeer(t, relay)
	provider.publish(nostr.Event{Kind: 31990, Tags: nostr.Tags{{"d", "x"}, {"k", "5050"}}})
	customer, _ := start(t, relay, func(c *Config) { c.Policy = policy.Specification() }) // three runs
	awaitProviders(t, customer, 1)
	asked := control.Bench{Provider: provider.pubkey.Hex()}
	_, err := control.BeginMeeting.Call(t.Context(), customer, asked)
	if problem, ok := errors.AsType[*control.ProblemError](err); !ok || !strings.Contains(problem.Problem.Hint, "a benchmark that --task names is sent all the same: python") {
		t.Errorf("without a task: %v", err)
	}
	asked.Task = "python"
	m, err := control.BeginMeeting.Call(t.Context(), customer, asked)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		provider.publish(nostr.Event{Kind: 6050, Tags: answers(provider.next(5050)), Content: "```\nx = 1\n```"})
	}
	eventually(t, "the meeting ends", func() bool {
		m, err = control.OneMeeting.Call(t.Context(), customer, m.ID)
		return err == nil && m.Ended != 0
	})
	if m.To != guild.Active || len(m.Runs) != 3 {
		t.Errorf("%+v", m)
	}
	why := ""
	for u, err := range customer.Watch(t.Context(), m.Runs[0].Job) {
		if err != nil {
			t.Fatal(err)
		}
		why += u.Text + "\n"
		if u.Ended != nil {
			break
		}
	}
	if !strings.Contains(why, "its announcement does not name the task, and you named it") {
		t.Errorf("it says: %s", why)
	}
}

// solve returns the program that solves a benchmark, made of the prompt alone.
func solve(t *testing.T, task, file, prompt string) string {
	t.Helper()
	bundle, delivery := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"nutshell.json":           `{"extensions":{"guild":{"task":"` + task + `"}}}`,
		"context/requirements.md": prompt,
	} {
		name = filepath.Join(bundle, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "python3", "../judging/suite/testdata/solver.py", bundle, delivery).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(delivery, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
