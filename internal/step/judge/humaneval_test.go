package judge_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"guild"
)

// problem is a line of testdata/humaneval.jsonl.
type problem struct {
	ID       string `json:"task_id"`
	Prompt   string `json:"prompt"`
	Function string `json:"entry_point"`
	Solution string `json:"canonical_solution"`
	Test     string `json:"test"`
}

func problems(t testing.TB) []problem {
	t.Helper()
	f, err := os.Open("testdata/humaneval.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []problem
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var p problem
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// files returns the request bundle of a problem.
func (p problem) files() map[string]string {
	return map[string]string{
		"tests/test_solution.py": "from solution import *  # some tests use helpers of the prompt\n" + p.Test +
			"\n\ndef test_" + p.Function + "():\n    check(" + p.Function + ")\n",
		"tests/criteria.json": `{"test_framework": "pytest", "time_limit_seconds": 20,
			"criteria": [{"id": "AC-1", "type": "pytest", "script": "tests/test_solution.py"}]}`,
	}
}

// faults are ways to fail a problem, each with the expected outcome.
var faults = []struct {
	name string
	code string // %s is the function's name
	want guild.Outcome
}{
	{"a wrong result", "\ndef %s(*a, **k): return object()\n", guild.Failure},
	{"an exception", "\ndef %s(*a, **k): raise RuntimeError('no')\n", guild.Failure},
	{"a missing function", "\ndel %s\n", guild.Failure},
	{"an early exit", "\ndef %s(*a, **k): import os; os._exit(0)\n", guild.Error},
}

// fooled has the problems whose tests a lie passes: they ask one delivered function whether another is right.
var fooled = map[string]string{
	"HumanEval/32": "poly says 0 of every root", "HumanEval/38": "decode repeats what encode was given",
	"HumanEval/50": "decode repeats what encode was given",
}

func TestHumanEval(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many sandboxes")
	}
	e := newEngine(t)
	soak := os.Getenv("GUILD_SOAK") != ""
	for i, p := range problems(t) {
		fault := faults[i%len(faults)]
		if i/len(faults)%4 != 0 && !soak { // make soak takes all
			continue
		}
		t.Run(strings.ReplaceAll(p.ID, "/", "-"), func(t *testing.T) {
			t.Parallel()
			bundle := request(t, p.files())
			right := p.Prompt + p.Solution
			v, evidence := judged(t, e, bundle, deliver(t, map[string]string{"solution.py": right}))
			want := guild.Strong
			if _, ok := fooled[p.ID]; ok {
				want = guild.Weak
			}
			if v.Outcome != guild.Success || v.Strength != want {
				t.Errorf("the canonical solution: %s %s (%s) %.2000s", v.Strength, v.Outcome, v.Cause, evidence)
			}
			wrong := right + fmt.Sprintf(fault.code, p.Function)
			v, _ = judged(t, e, bundle, deliver(t, map[string]string{"solution.py": wrong}))
			if v.Outcome != fault.want {
				t.Errorf("%s: %s (%s), want %s", fault.name, v.Outcome, v.Cause, fault.want)
			}
		})
	}
}

func BenchmarkJudge(b *testing.B) {
	p := problems(b)[0]
	bundle, delivery := b.TempDir(), b.TempDir()
	lay(b, bundle, p.files())
	lay(b, delivery+"/delivery/artifacts", map[string]string{"solution.py": p.Prompt + p.Solution})
	e := newEngine(b)
	for b.Loop() {
		if v, _, err := e.Judge(b.Context(), bundle, delivery); err != nil || v.Outcome != guild.Success {
			b.Fatal(v, err)
		}
	}
}
