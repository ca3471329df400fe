package exam

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/strength"
)

// grace is the time that the subject may continue after the examiner has ended. The other two are how much more the
// examiner may use than the subject, so that it can still report a request that was not answered.
const (
	grace        = 5 * time.Second
	examinerWall = 3 * time.Second
	examinerCPU  = 5 * time.Second
)

// half is one of the two sandboxes of a split examination, with its results.
type half struct {
	spec                    sandbox.Spec
	stdout, stderr, results bytes.Buffer
	result                  sandbox.Result
	err                     error
}

func (h *half) record(name string) RunRecord {
	return RunRecord{
		Argv:   append(h.spec.Argv[:len(h.spec.Argv):len(h.spec.Argv)], "-c", name), // the program's text would hide the rest of the evidence
		Limits: h.spec.Limits.WithDefaults(), Result: h.result,
		Stdout: h.stdout.String(), Stderr: h.stderr.String(), Results: h.results.String(),
	}
}

// split runs the customer's tests in one sandbox and the delivery in another, connected by a socket. The tests call the
// delivery through proxies.
//
// So no delivered code runs in the process that writes the results, and none can read the expected values. A test can
// still prove nothing, for example if it asks the delivery's own objects whether they are equal: prove finds that out.
func (c *pytestCriterion) split(ctx context.Context, j *examination, f *Finding) error {
	o, stdin, err := c.newOrder(false)
	if err != nil {
		return err
	}
	examiner := &half{spec: j.examinerSpec()}
	// The sandbox of the delivery has an empty directory in place of the tests, for data files that a test passes to it.
	empty, err := j.writeFiles(nil)
	if err != nil {
		return err
	}
	subject := &half{spec: sandbox.Spec{
		Argv: j.python(), Program: subjectProgram, Env: environment(), Limits: j.limits(),
		Copies: append(j.layout.copies(true, nil), sandbox.Copy{Host: empty, Inside: testsDir}),
	}}
	recording, err := j.runBoth(ctx, examiner, subject, stdin)
	if err != nil {
		return err
	}
	f.Runs = append(f.Runs, examiner.record(examinerProgram.Name), subject.record(subjectProgram.Name))
	f.Usage = f.Usage.Add(subject.result.Usage)
	f.Breaches = append(f.Breaches, subject.result.Breaches...)
	f.Warnings = append(f.Warnings, subject.result.Warnings...)
	if err := c.blame(ctx, j, f, examiner.result.Breaches); err != nil {
		return err
	}
	rep := readReport(examiner.results.String(), o.Word)
	if err := c.believe(ctx, j, f, &rep, &examiner.result, examiner.stderr.String()); err != nil {
		return err
	}
	if f.Fault == "" {
		f.Fault, f.OverLimit = splitFault(&rep, examiner, subject)
	}
	if err := c.blameTests(ctx, j, f, &rep, idle(examiner.result, subject.result)); err != nil {
		return err
	}
	if rep.ran != "" {
		f.Strength, f.Decided = guild.Weak, max(f.Decided, 1)
		f.Because = "what the delivery may have made ran beside the tests: " + cut(rep.ran)
		return nil
	}
	return j.prove(ctx, f, &rep, o, recording, examiner.spec, subject.spec)
}

// examinerSpec returns the sandbox of the tests. It contains the bundle's files, which tests may read, and nothing of the
// delivery.
func (j *examination) examinerSpec() sandbox.Spec {
	l := j.limits()
	l.Wall += examinerWall
	l.CPU = min(l.CPU+examinerCPU, sandbox.DefaultCPU)
	s := sandbox.Spec{
		Argv: j.python(), Program: examinerProgram,
		Env:    environment("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", places()),
		Copies: j.layout.copies(false, nil), Limits: l,
	}
	j.showTests(&s)
	return s
}

// blame determines the cause of breaches in the tests' sandbox. Breaches that also happen without the delivery are
// caused by the tests, and become warnings. The others are attributed to the delivery, because only its answers made
// the difference.
func (c *pytestCriterion) blame(ctx context.Context, j *examination, f *Finding, breaches []guild.Breach) error {
	if len(breaches) == 0 {
		return nil
	}
	var alone Finding
	if _, _, err := c.runInproc(ctx, j, &alone, true); err != nil {
		return err
	}
	f.attribute(breaches, alone.Breaches)
	return nil
}

// attribute adds the breaches of the tests' sandbox to a finding: as a warning if the tests alone cause it, too.
func (f *Finding) attribute(breaches, alone []guild.Breach) {
	for _, b := range breaches {
		if slices.ContainsFunc(alone, func(own guild.Breach) bool { return own.Syscall == b.Syscall }) {
			f.Warnings = append(f.Warnings, "the tests themselves: "+b.Syscall+": "+b.Detail)
			continue
		}
		b.Detail = "in the tests, with what the delivery answered: " + b.Detail
		f.Breaches = append(f.Breaches, b)
	}
}

// splitFault returns why the two halves did not end properly.
func splitFault(rep *report, examiner, subject *half) (fault string, limit bool) {
	closed := ""
	if rep.end != nil {
		closed = rep.end.Closed
	}
	if fault, limit = halvesFault(closed, rep.end == nil, examiner, subject); fault != "" {
		return fault, limit
	}
	return rep.fault(examiner.result), false
}

// halvesFault returns why two halves did not end properly, in any language. The subject's reasons come first, because a
// failure of the subject makes the examiner fail too. closed is the examiner's reason for asking no more, and unended
// means that it has not reported its end.
func halvesFault(closed string, unended bool, examiner, subject *half) (fault string, limit bool) {
	res := subject.result
	switch {
	case res.Killed != "":
		return overLimit(res, subject.spec.Limits.WithDefaults()), true
	case errors.Is(subject.err, errLingers):
		return "the delivery's process did not end", true
	case (unended || closed != "") && res.Signal != "":
		return "the delivery's process was ended by " + res.Signal, false
	case strings.HasPrefix(closed, "the connection"):
		return fmt.Sprintf("the delivery's process ended, exit code %d", res.Exit), false
	case closed != "":
		return "the delivery's answers cannot be read: " + cut(closed), false
	case examiner.result.Killed != "":
		return "the tests, with what the delivery answered: " + overLimit(examiner.result, examiner.spec.Limits.WithDefaults()), true
	}
	return "", false
}

// errLingers is the cause of stopping a subject that continues after the examiner has ended.
var errLingers = errors.New("the examination is over")

// runBoth runs the two sandboxes concurrently until both have ended, and records what they say to each other.
func (j *examination) runBoth(ctx context.Context, examiner, subject *half, stdin []byte) (*strength.Recording, error) {
	asking, err := channelPair()
	if err != nil {
		return nil, err
	}
	asked, err := channelPair()
	if err != nil {
		return nil, errors.Join(err, asking[0].Close(), asking[1].Close())
	}
	var recording *strength.Recording
	var relayed error
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		recording, relayed = strength.Record(asking[1], asked[1])
	}()
	bounded, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		subject.result, subject.err = j.engine.Runner.Run(bounded, subject.spec, sandbox.IO{
			Stdout: &subject.stdout, Stderr: &subject.stderr, Channel: asked[0],
		})
	}()
	examiner.result, examiner.err = j.engine.Runner.Run(ctx, examiner.spec, sandbox.IO{
		Stdin: bytes.NewReader(stdin), Stdout: &examiner.stdout, Stderr: &examiner.stderr, Results: j.seen(&examiner.results),
		Channel: asking[0],
	})
	// The subject reads the end of its socket and should end by itself.
	late := time.AfterFunc(grace, func() { stop(errLingers) })
	if examiner.err != nil {
		stop(examiner.err)
	}
	<-done
	late.Stop()
	<-recorded
	if subject.err != nil && errors.Is(context.Cause(bounded), errLingers) && ctx.Err() == nil {
		subject.err = errLingers
		return recording, errors.Join(examiner.err, relayed)
	}
	if examiner.err != nil {
		return nil, examiner.err // that also stopped the subject
	}
	return recording, errors.Join(subject.err, relayed)
}

// python returns the interpreter's command line: isolated, and without writing compiled files.
func (j *examination) python() []string {
	return []string{cmp.Or(j.engine.Python, "/usr/bin/python3"), "-I", "-B"}
}
