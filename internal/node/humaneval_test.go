package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"guild"
	"guild/examples/humaneval"
	"guild/internal/control"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
	"guild/nutshell"
)

// canonical is the variant that must be accepted.
const canonical = "canonical"

// TestHumanEval hires for every problem of HumanEval: over a relay, from a provider in a process of its own ("guild work"
// with a shell script), with the real judge. It hires for the canonical solution of every 18th problem and for one of its wrong
// ones in turn; for all of them when soaking, and for canonical ones alone with -short. The judge's own tests judge the
// solutions of all problems.
// The jobs of the canonical solutions are exported and verified twice: by this code, and by a program written from
// docs/VERIFY.md alone.
func TestHumanEval(t *testing.T) {
	needSandbox(t)
	relay := startRelay(t)
	customer, _ := start(t, relay, func(c *Config) {
		c.Examine = nil
		c.Hiring.Limits.PerMinute = 10_000 // one provider is asked for all solutions of a variant
	})
	market := openMarket(t, relay)
	awaitProviders(t, customer, len(market.providers))

	checks, exports := market.checks(t), newExports(t)
	var tally tally
	var crew errgroup.Group
	crew.SetLimit(8) // enough that the judge never waits for work
	for _, c := range checks {
		crew.Go(func() error {
			job := c.run(t, customer, market.providers[c.variant])
			tally.add(t, c, job)
			if c.variant == canonical {
				exports.add(t, customer, job)
			}
			return nil
		})
	}
	crew.Wait()
	exports.agree(t)
	fmt.Printf("%d passed, %d failed\n", tally.passed, tally.failed)
	t.Logf("the longest canonical run took %d ms of processor time; the limit is %d s", tally.longest, humaneval.TimeLimit)
	if tally.failed > 0 || tally.passed != len(checks) {
		t.Errorf("%d of %d checks passed", tally.passed, len(checks))
	}
}

// needSandbox fails the test if there is no sandbox, and says what to do.
func needSandbox(t *testing.T) {
	t.Helper()
	_, _, err := tiers.Best(t.Context())
	if unusable, ok := errors.AsType[*sandbox.UnusableError](err); ok {
		t.Fatalf("%v; remedy: %s", err, unusable.Remedy)
	} else if err != nil {
		t.Fatal(err)
	}
}

// market has one provider process for each variant of a solution.
type market struct {
	problems  []humaneval.Problem
	providers map[string]string // variant → npub
}

func openMarket(t *testing.T, relay string) market {
	t.Helper()
	m := market{providers: map[string]string{}}
	var err error
	if m.problems, err = humaneval.Problems(); err != nil {
		t.Fatal(err)
	}
	program, worker := build(t), workerScript(t)
	for variant, dir := range m.writeSolutions(t) {
		exec := fmt.Sprintf("%s '%s'", worker, dir)
		m.providers[variant] = startProvider(t, program, relay, "--exec", exec, "--mount", dir, "--name", variant,
			"--task", humaneval.Task, "--queue", "1000")
	}
	return m
}

// build builds the guild program.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "guild")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "../../cmd/guild").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// workerScript returns the example script that finds the solution of a request in a directory.
func workerScript(t *testing.T) string {
	t.Helper()
	script, err := filepath.Abs("../../examples/workers/able")
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// writeSolutions writes what each variant delivers, as DIR/<bundle id>/solution.py.
func (m market) writeSolutions(t *testing.T) (dirs map[string]string) {
	t.Helper()
	dirs = map[string]string{}
	for _, variant := range variants() {
		dirs[variant] = t.TempDir()
		for _, p := range m.problems {
			dir := filepath.Join(dirs[variant], p.BundleID())
			err := os.Mkdir(dir, 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "solution.py"), []byte(solution(p, variant)), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return dirs
}

func solution(p humaneval.Problem, variant string) string {
	if variant == canonical {
		return p.Canonical()
	}
	return p.Mutants()[variant]
}

// variants returns the variants to hire for; the endless loops take longest and are last.
func variants() []string {
	if testing.Short() {
		return []string{canonical}
	}
	return []string{canonical, humaneval.WrongResult, humaneval.Exception, humaneval.MissingFunction, humaneval.EndlessLoop}
}

// startProvider runs "guild work" until the test ends and returns its npub.
func startProvider(t *testing.T, program, relay string, args ...string) (npub string) {
	t.Helper()
	home := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GUILD_WORK_PER_MINUTE=0"} // one customer sends all requests at once
	made := exec.CommandContext(t.Context(), program, "init", "--home", home, "--json")
	made.Env = env
	out, err := made.Output()
	var identity struct{ Npub string }
	if err != nil || json.Unmarshal(out, &identity) != nil {
		t.Fatalf("guild init: %v\n%s", err, out)
	}
	var said bytes.Buffer
	work := exec.Command(program, append([]string{"work", "--untried", "--home", home, "--relay", relay}, args...)...)
	work.Env, work.Stdout, work.Stderr = env, &said, &said
	work.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		work.Process.Signal(os.Interrupt)
		hard := time.AfterFunc(time.Minute, func() { work.Process.Kill() })
		defer hard.Stop()
		if err := work.Wait(); err != nil || t.Failed() {
			t.Errorf("guild work: %v\n%s", err, guild.Cut(said.String(), 4000))
		}
	})
	return identity.Npub
}

// awaitProviders waits until a customer knows n announced services.
func awaitProviders(t *testing.T, customer *control.Client, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d services are announced", n), func() bool {
		known, err := control.Providers.Call(t.Context(), customer)
		return err == nil && len(known) >= n
	})
}

// check is a job with a known result.
type check struct {
	problem humaneval.Problem
	variant string
	bundle  []byte
}

// checks returns all jobs. The endless loops are spread among the others, so that the judge always has both.
func (m market) checks(t *testing.T) []check {
	t.Helper()
	var all []check
	for i, p := range m.problems {
		tree, err := p.Bundle()
		if err != nil {
			t.Fatal(err)
		}
		packed := pack(t, tree)
		for n, variant := range variants() {
			if soaking() || i%18 == 0 && (n == 0 || n == 1+i/18%(len(variants())-1)) {
				all = append(all, check{p, variant, packed})
			}
		}
	}
	return all
}

// pack packs a tree into a bundle.
func pack(t *testing.T, tree fs.FS) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (c check) run(t *testing.T, customer *control.Client, provider string) control.Job {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	job, err := customer.Hire(ctx, bytes.NewReader(c.bundle), control.Hire{Providers: []string{provider}})
	if err == nil {
		job, err = watch(ctx, customer, job.ID)
	}
	if err != nil {
		t.Errorf("%s, %s: %v", c.problem.ID, c.variant, err)
	}
	return job
}

// want returns the verdicts that the judge may reach.
func (c check) want() []guild.Outcome {
	switch c.variant {
	case canonical:
		return []guild.Outcome{guild.Success}
	case humaneval.EndlessLoop:
		return []guild.Outcome{guild.Error}
	default:
		return []guild.Outcome{guild.Failure}
	}
}

func (c check) ending() guild.Ending {
	if c.variant == canonical {
		return guild.JobAccepted
	}
	return guild.JobRejected
}

// tally counts the results of the checks.
type tally struct {
	mu             sync.Mutex
	passed, failed int
	longest        int64 // processor time of the longest canonical run, in ms
}

func (y *tally) add(t *testing.T, c check, job control.Job) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(job.Attempts) != 1 || job.Attempts[0].Verdict == nil {
		y.failed++
		t.Errorf("%s, %s: no verdict: %s %s %+v", c.problem.ID, c.variant, job.Ending, job.Reason, job.Attempts)
		return
	}
	v := job.Attempts[0].Verdict
	if job.Ending != c.ending() || !slices.Contains(c.want(), v.Outcome) || job.Attempts[0].Receipt == "" {
		y.failed++
		t.Errorf("%s, %s: %s, %s: %s", c.problem.ID, c.variant, job.Ending, v.Outcome, strings.TrimSpace(v.Cause))
		return
	}
	y.passed++
	if c.variant == canonical {
		y.longest = max(y.longest, v.Usage.CPUMs)
	}
}
