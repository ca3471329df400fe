package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/judging/typed"
	"guild/oa"
)

// asTyped turns the options for a request of a typed job into those for its bundle: it packs the request, and sets the
// task, the criticality and the comparison by the verification that the request asks for.
func (p *program) asTyped(ctx context.Context, o hireOptions) (hireOptions, error) {
	if len(o.Release.Names) > 0 {
		return o, cli.Usage(errors.New("--release: a typed job takes no credentials"))
	}
	if err := checkOutput(o.Output); err != nil {
		return o, cli.Usage(fmt.Errorf("--output: %w", err))
	}
	types, s, err := p.describe(o.Type)
	if err != nil {
		return o, err
	}
	e, at, err := p.readJob(o.Source, s.ID.String())
	if err != nil {
		return o, cli.Usage(err)
	}
	for _, member := range unknownIn(s, oa.Inputs, e.Payload, at) {
		fmt.Fprintf(p.err, "note: %s is not described: a provider may ignore it\n", cli.Clean(member))
	}
	if err := types.CheckRequest(e.JobType, e.Payload); err != nil {
		if faults, ok := errors.AsType[oa.Faults](err); ok {
			err = inFile(faults, at)
		}
		err = cli.Usage(fmt.Errorf("%s is not a valid request: %w", inputName(o.Source), err))
		return o, cli.WithHint(err, "guild oa schema "+s.ID.String()+" shows what it must look like")
	}
	v, err := typed.VerificationOf(types, e)
	if err != nil {
		return o, err
	}
	if o.Level == "" && len(o.Providers) == 0 && v.Redundancy <= 1 && !verifiedAs(e) {
		checks, err := p.checks(e)
		if err != nil {
			return o, err
		}
		if !checks {
			v = oa.Verification{Mode: oa.Subjective, Redundancy: 2, Adjudication: oa.MajorityVote}
			fmt.Fprintln(p.err, "note: this node cannot check the result, so several providers are asked, of which two must agree; --criticality low asks one")
		}
	}
	if o.Level == "" {
		level, err := typed.CriticalityOf(v)
		if err != nil {
			return o, cli.WithHint(cli.Usage(fmt.Errorf("%s: %w", inputName(o.Source), err)), "--criticality sets how many")
		}
		o.Level, o.why = string(level), v
	}
	if o.Compare == "" && v.Adjudication.Together() && guild.Criticality(o.Level).Replicas() > 1 {
		o.Compare = string(v.Adjudication)
	}
	o.Task = s.ID.String()
	o.packed, err = typed.Bundle(ctx, e)
	return o, err
}

// verifiedAs reports whether a request says how its result is verified.
func verifiedAs(e oa.Envelope) bool {
	var inputs struct {
		Verification jsontext.Value `json:"verification"`
	}
	return json.Unmarshal(e.Payload, &inputs) == nil && len(inputs.Verification) > 0 && inputs.Verification.Kind() != 'n'
}

// checks reports whether a node with this configuration can check the result of a typed job by doing it again.
func (p *program) checks(e oa.Envelope) (bool, error) {
	c, err := p.config()
	if err != nil {
		return false, err
	}
	switch e.JobType.String() {
	case oa.SandboxRun:
		q, err := oa.Decode[oa.SandboxRequest](e.Payload)
		if err != nil {
			return false, err
		}
		_, known := c.Images[q.Sandbox.ImageDigest]
		return known || q.Sandbox.ImageDigest == typed.Host, nil
	case oa.Embedding:
		q, err := oa.Decode[oa.EmbeddingRequest](e.Payload)
		return q.Pinned() && vectorsAt(c.Judge.Opinion) != nil, err
	}
	return false, nil
}

// checkOutput returns why a file cannot be written, before a result for it is bought.
func checkOutput(name string) error {
	if name == "" {
		return nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory", name)
	}
	dir := filepath.Dir(name)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

// telling returns the program with the timeline on standard error, if standard output is for the result alone.
func (p *program) telling(o hireOptions) *program {
	if o.Type == "" || o.Output != "" || o.asJSON {
		return p
	}
	aside := *p
	aside.out = p.err
	return &aside
}

// explained adds to the error of a typed job's ending what its owner can do about it.
func (o hireOptions) explained(err error, job control.Job) error {
	if err == nil || o.Type == "" {
		return err
	}
	level := guild.Criticality(o.Level)
	if codeOf(err) == exitUnclaimed && level.Replicas() > 1 && o.why.Redundancy > 0 {
		err = fmt.Errorf("%w; the request's verification is %s of %d, which asks %d providers", err, o.why.Adjudication, o.why.Redundancy, level.Replicas())
		hint := "--criticality low asks one, and takes its result alone"
		if o.Task == oa.Embedding {
			hint += "; with model_hint and dimensions in the request, and an endpoint in [judge.opinion], one is enough"
		}
		return cli.WithHint(err, hint)
	}
	return err
}

// showResult prints the result of a typed job, or writes it to a file.
func (p *program) showResult(ctx context.Context, client *control.Client, job control.Job, output string, asJSON bool) error {
	again := "guild job result " + short(job.ID) + " prints it, as long as the job is kept"
	result, err := control.TypedResult.Call(ctx, client, job.ID)
	if err != nil {
		return cli.WithHint(fmt.Errorf("the result: %w", err), again)
	}
	if output != "" {
		if err := os.WriteFile(output, append(result, '\n'), 0o644); err != nil {
			return cli.WithHint(fmt.Errorf("the job was accepted, and its result is not written: %w", err), again)
		}
		return nil
	}
	if asJSON {
		return cli.PrintLine(p.out, map[string]any{"job": job.ID, "event": "result", "result": jsontext.Value(result)})
	}
	_, err = fmt.Fprintln(p.out, oa.Text(result))
	return err
}

func (p *program) jobResultCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "result JOB",
		Short: "Print the result of a typed job",
		Long: `result prints what a typed job came to: the result that was accepted, as JSON,
or the one that was made of all accepted ones.

JOB is a job's id or the beginning of one.`,
		Example:           "  guild job result 5f21c9aa | jq .\n  guild job result 5f21c9aa --output result.json",
		Args:              cli.OneArg("one job id"),
		ValidArgsFunction: p.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runJobResult(cmd.Context(), args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file for the result (default: standard output)")
	cli.JSONFlag(cmd, "print errors as JSON, too")
	return cmd
}

func (p *program) runJobResult(ctx context.Context, id, output string) error {
	if err := checkOutput(output); err != nil {
		return cli.Usage(fmt.Errorf("--output: %w", err))
	}
	return p.reading(ctx, func(client *control.Client, _ bool) error {
		result, err := control.TypedResult.Call(ctx, client, id)
		if err != nil {
			return err
		}
		if output != "" {
			return os.WriteFile(output, append(result, '\n'), 0o644)
		}
		_, err = fmt.Fprintln(p.out, oa.Text(result))
		return err
	})
}
