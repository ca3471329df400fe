package main

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/hand/key"
	"guild/internal/judging/exam"
	"guild/internal/judging/typed"
	"guild/internal/node"
	"guild/internal/step/judge"
	"guild/internal/step/work"
)

// examples has a packed bundle for each language: brackets, durations, spans and top-words of the examples directory, which
// TestShippedExamplesAreThoseOfTheDirectory writes with -update.
//
//go:embed tries/*.nut
var examples embed.FS

// exampleTasks lists the tasks that an example is shipped for.
func exampleTasks() []string { return []string{"python", "javascript", "go", "shell"} }

// tryOptions are the flags of work try.
type tryOptions struct {
	workOptions
	Keep string // directory for what the worker left

	without nostr.ID // lesson that does not apply, of an agent of this node
	pair    bool     // one of two tries that are compared: it shows nothing, and does not count as the worker's try
}

func (p *program) workTryCommand() *cobra.Command {
	var o tryOptions
	cmd := p.local(&cobra.Command{
		Use:   "try [SERVICE] [BUNDLE]",
		Short: "Have a worker do a bundle, and judge it; announce nothing",
		Long: `try has a worker do a task exactly as it would do a customer's: in the same
sandbox, with the same directories and variables, and with the same search for
secrets. It shows what a customer would read, and judges the delivery as a
customer would. Nothing is announced or recorded, and no relay, node or identity
is needed.

The worker is that of SERVICE in the configuration, or the flags describe it, as
for guild work. BUNDLE is a directory or a .nut file; for a typed job it is a
request in JSON. Without one, a shipped example is used: there is one for each
of the tasks python, javascript, go and shell, which can also be named.

A service is announced once its worker has passed a try; guild work and guild up
say so otherwise. A worker with another command, variables, mounts or network is
another worker. --keep leaves the bundle, the delivery, REPLAY.jsonl and
RECEIPT.json in a directory.

Exit codes: 0 the delivery was accepted, 1 nothing was delivered or judged, 2
wrong usage, 5 SECURITY_VIOLATION, 6 a person must decide, 7 it was rejected.`,
		Example: "  guild work try --task python --exec ./agent/solve.sh\n" +
			"  guild work try --task code-review --exec ./review.sh ./my-task\n" +
			"  guild work try python --keep ./tried\n  guild work try python --json | jq .outcome",
		Args: cli.Arity(cobra.MaximumNArgs(2), "a service and a bundle"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		o.asJSON = cli.AsJSON(cmd)
		out, err := p.runTry(cmd.Context(), o, args, cmd.Flags().Changed)
		if out.Service == "" {
			return nil, err
		}
		return &cli.Result{JSON: out, Show: func() error { return nil }}, err // runTry has printed it step by step
	})
	o.flags(cmd)
	cmd.Flags().StringVar(&o.Keep, "keep", "", "new directory for the delivery and the record of the session")
	return cmd
}

// trial is one try: of a service with a bundle.
type trial struct {
	service service
	name    string // of the bundle, for people
	bundle  []byte // packed, as a customer sends it
	dir     string // directory or file of the bundle with the customer's private files, for the judge
	scratch string
}

// tryReport is the output of work try --json.
type tryReport struct {
	Service  string   `json:"service"`
	Tasks    []string `json:"tasks"`
	Bundle   string   `json:"bundle"`
	Passed   bool     `json:"passed"`
	Lines    []string `json:"lines"`             // feedback that a customer would read
	Failure  string   `json:"failure,omitempty"` // why nothing was delivered
	Stderr   string   `json:"stderr,omitempty"`  // the end of the standard error of a command that failed
	TookMs   int64    `json:"took_ms"`           // of the worker
	Size     int      `json:"delivery_bytes"`
	Kept     string   `json:"kept,omitempty"`
	Judgment *judged  `json:"judged,omitempty"` // as guild judge run --json; absent if nothing was delivered
}

func (p *program) runTry(ctx context.Context, o tryOptions, args []string, given func(string) bool) (out tryReport, err error) {
	c, err := p.config()
	if err != nil {
		return out, err
	}
	if err := vacantDir(o.Keep); err != nil {
		return out, cli.Usage(fmt.Errorf("--keep: %w", err))
	}
	scratch, err := os.MkdirTemp("", "guild-try-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(scratch)
	t := trial{scratch: scratch}
	if err := checkNetworkWord(args, given); err != nil {
		return out, err
	}
	if t.service, args, err = o.chooseService(c, args, given); err != nil {
		return out, cli.Usage(err)
	}
	if err := p.setBundle(ctx, &t, args); err != nil {
		return out, err
	}
	return p.try(ctx, c, t, o)
}

// checkNetworkWord refuses an argument that was meant as the value of --network. The flag may stand alone, so its value needs
// an equals sign.
func checkNetworkWord(args []string, given func(string) bool) error {
	for _, word := range args {
		if _, err := os.Stat(word); err != nil && given("network") && (word == string(work.NetworkFull) || word == string(work.NetworkNone)) {
			return cli.Usage(fmt.Errorf("write --network=%s", word))
		}
	}
	return nil
}

// chooseService returns the service to try, and the remaining arguments. The flags describe it, or the first argument names one
// of the configuration.
func (o tryOptions) chooseService(c config.Config, args []string, given func(string) bool) (service, []string, error) {
	if len(o.Tasks) > 0 || o.Service.Exec != "" || o.Endpoint != "" || o.Agent != "" || len(o.MCP) > 0 {
		if len(o.Tasks) > 1 {
			o.Tasks = o.Tasks[:1] // one worker does them all
		}
		services, err := o.services(c, given)
		if err != nil {
			return service{}, nil, err
		}
		return services[0], args, nil
	}
	names := slices.Sorted(maps.Keys(c.Services))
	if len(args) == 0 && len(names) == 1 {
		args = names
	}
	if len(args) == 0 || !slices.Contains(names, args[0]) {
		hint := "guild work try --task python --exec ./agent/solve.sh"
		if len(names) > 0 {
			hint = "name one of " + strings.Join(names, ", ") + ", or: " + hint
		}
		if len(args) == 0 {
			return service{}, nil, cli.WithHint(errors.New("which worker is to be tried?"), hint)
		}
		return service{}, nil, cli.WithHint(fmt.Errorf("%.80q: no such service is configured", args[0]), hint)
	}
	d := args[0]
	s, err := fromConfig(c, d)
	if err == nil {
		err = s.resolveMounts()
	}
	if err != nil {
		return service{}, nil, fmt.Errorf("services.%s: %w", d, err)
	}
	return s, args[1:], nil
}

// setBundle sets the bundle of a try: the given one, or the example for the first task that has one.
func (p *program) setBundle(ctx context.Context, t *trial, args []string) error {
	if len(args) > 1 {
		return cli.Usage(fmt.Errorf("a try takes one bundle, not %d", len(args)))
	}
	source := ""
	if len(args) == 1 {
		source = args[0]
	} else if i := slices.IndexFunc(t.service.Tasks, func(task string) bool { return slices.Contains(exampleTasks(), task) }); i >= 0 {
		source = t.service.Tasks[i]
	}
	var err error
	_, missing := os.Stat(source)
	switch {
	case source == "" && t.service.Type != "":
		err = cli.WithHint(cli.Usage(fmt.Errorf("which request is %s to be tried with?", t.service.D)), "guild work try "+t.service.D+" request.json; docs/TYPED.md has one of each type")
	case source == "":
		err = cli.WithHint(cli.Usage(fmt.Errorf("no example is shipped for the task %q", t.service.Tasks[0])),
			"give a bundle of yours, or one of the examples: "+strings.Join(exampleTasks(), ", "))
	case missing != nil && slices.Contains(exampleTasks(), source):
		t.name = "the example for " + source
		t.bundle, err = examples.ReadFile("tries/" + source + ".nut")
	case t.service.Type != "" && filepath.Ext(source) == ".json":
		t.name = source
		t.bundle, err = p.typedBundle(ctx, source, t.service.Type)
	default:
		t.name, t.dir = source, source
		commitments, _, failed := hiddenTests(ctx, source, rand.Reader)
		if err = failed; err == nil {
			t.bundle, _, err = packBundle(ctx, source, commitments)
		}
	}
	if err != nil || t.dir != "" {
		return err
	}
	t.dir = filepath.Join(t.scratch, "bundle.nut")
	return os.WriteFile(t.dir, t.bundle, 0o600)
}

// typedBundle packs the request of a typed job.
func (p *program) typedBundle(ctx context.Context, file, jobType string) ([]byte, error) {
	e, _, err := p.readJob(file, jobType)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return typed.Bundle(ctx, e)
}

// try runs the worker and the judge. The result is complete unless the error is about neither.
func (p *program) try(ctx context.Context, c config.Config, t trial, o tryOptions) (out tryReport, err error) {
	n, err := nodeConfig(c, key.Identity{}, nodeOptions{})
	if err != nil {
		return out, err
	}
	show := func(step, format string, args ...any) {
		if o.asJSON || o.pair {
			return
		}
		if cli.IsTerminal(p.err) {
			fmt.Fprint(p.err, "\r\x1b[K") // what p.waiting shows there
		}
		fmt.Fprintf(p.out, "%-9s %s\n", step, cli.Clean(fmt.Sprintf(format, args...)))
	}
	worker := t.service.worker()
	if len(t.service.As) > 0 {
		worker.Behave = p.behaveFor(c, t.service, o.without)
	}
	out = tryReport{Service: t.service.D, Tasks: t.service.Tasks, Bundle: t.name, Lines: []string{}}
	show("bundle", "✓ %s, %d bytes", t.name, len(t.bundle))
	began := p.now()
	done := p.waiting(func() string { return "working" })
	did, failure := node.Try(ctx, n, worker, t.bundle, func(line string) {
		out.Lines = append(out.Lines, line)
		show("", "│ %s", line)
	})
	done()
	out.TookMs, out.Size = p.now().Sub(began).Milliseconds(), len(did.Delivery)
	took := (time.Duration(out.TookMs) * time.Millisecond).Round(100 * time.Millisecond)
	if o.Keep != "" {
		if err := keepTrial(o.Keep, t.bundle, did); err != nil {
			return tryReport{}, err
		}
		out.Kept = o.Keep
	}
	if failure != nil && o.pair {
		out.Failure = failure.Error()
		return out, ctx.Err()
	}
	if failure != nil {
		return p.undelivered(ctx, c, t, out, did, failure, show)
	}
	show("work", "✓ delivered %d bytes after %s", out.Size, took)
	v, person, err := p.judgeTrial(ctx, t, did.Delivery, &out, o)
	if err != nil {
		return out, err
	}
	out.Passed = v.Outcome == guild.Success
	if o.pair {
		return out, nil
	}
	if err := recordTry(c, t.service, out.Passed); err != nil {
		return out, fmt.Errorf("record the try: %w", err)
	}
	if out.Passed && person == nil {
		show("tried", "%s may be announced", t.service.D)
	}
	err = judgedError(v, person)
	if err != nil && o.Keep == "" {
		err = cli.WithHint(err, "with --keep DIR, guild judge run DIR/bundle.nut DIR/delivery.nut shows the whole verdict")
	}
	return out, err
}

// undelivered shows why a worker delivered nothing.
func (p *program) undelivered(ctx context.Context, c config.Config, t trial, out tryReport, did work.Trial, failure error, show func(step, format string, args ...any)) (tryReport, error) {
	if ctx.Err() != nil {
		return tryReport{}, ctx.Err()
	}
	out.Failure, out.Stderr = failure.Error(), did.Stderr
	for line := range strings.Lines(did.Stderr) {
		show("", "│ %s", strings.TrimSpace(line))
	}
	show("work", "✗ %s", out.Failure)
	err := fmt.Errorf("nothing was delivered: %w", failure)
	return out, errors.Join(err, recordTry(c, t.service, false))
}

// judgeTrial judges a delivery as guild judge run does, and shows the verdict.
func (p *program) judgeTrial(ctx context.Context, t trial, delivery []byte, out *tryReport, o tryOptions) (v guild.Verdict, person *judge.PersonNeeded, err error) {
	file := filepath.Join(t.scratch, "delivery.nut")
	if err := os.WriteFile(file, delivery, 0o600); err != nil {
		return v, nil, err
	}
	var whole judge.Evidence
	v, _, person, err = p.judgeFiles(ctx, t.dir, file, t.scratch, "", judgeOptions{}, func(e judge.Evidence) { whole = e })
	if errors.Is(err, exam.ErrUndecided) {
		result := p.undecidedResult(v, err).JSON.(judged)
		out.Judgment = &result
		return v, nil, err
	}
	if err != nil {
		return v, nil, err
	}
	r := p.judgedResult(v, whole, person, "")
	result := r.JSON.(judged)
	out.Judgment = &result
	if !o.asJSON && !o.pair {
		p.showTrialVerdict(unabridged(v, json.RawMessage(whole)))
	}
	return v, person, nil
}

// showTrialVerdict prints a verdict, and the tests that did not pass.
func (p *program) showTrialVerdict(v guild.Verdict) {
	mark := "✗"
	if v.Outcome == guild.Success {
		mark = "✓"
	}
	fmt.Fprintf(p.out, "judge     %s %s: %d of %d passed, %s, score %s\n", mark, v.Outcome, v.Passed, v.Expected, v.Strength, v.Score)
	for _, b := range v.Breaches {
		fmt.Fprintf(p.out, "          ✗ violation %s %s\n", cli.Clean(b.Syscall), cli.Clean(b.Detail))
	}
	for _, t := range v.Tests {
		if t.State != guild.TestPassed {
			writeTest(p.out, t, palette{})
		}
	}
}

// vacantDir returns an error for a directory that exists and is not empty. An empty name is no directory.
func vacantDir(dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	return nil
}

// keepTrial writes the bundle, what a worker left, and the record of its session.
func keepTrial(dir string, bundle []byte, did work.Trial) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"bundle.nut": bundle, "delivery.nut": did.Delivery, "REPLAY.jsonl": did.Replay, "RECEIPT.json": did.Receipt} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
