package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/typed"
	"guild/oa"
)

// asTyped makes an order for a typed job of one for its request: the bundle, the task, and how many are asked, by what
// the request says of its verification.
func (p *program) asTyped(ctx context.Context, o hireOptions) (hireOptions, error) {
	if len(o.Release.Names) > 0 {
		return o, cli.Usage(errors.New("--release: a typed job takes no credentials"))
	}
	types, s, err := p.describe(o.Type)
	if err != nil {
		return o, err
	}
	e, err := p.readJob(o.Source, s.ID.String())
	if err != nil {
		return o, cli.Usage(err)
	}
	if err := types.CheckRequest(e.JobType, e.Payload); err != nil {
		err = cli.Usage(fmt.Errorf("%s is no good request: %w", inputName(o.Source), err))
		return o, cli.WithHint(err, "guild oa schema "+s.ID.String()+" shows what it must look like")
	}
	v, err := typed.VerificationOf(types, e)
	if err != nil {
		return o, err
	}
	if o.Level == "" {
		level, err := typed.CriticalityOf(v)
		if err != nil {
			return o, cli.WithHint(cli.Usage(fmt.Errorf("%s: %w", inputName(o.Source), err)), "--criticality sets how many")
		}
		o.Level = string(level)
	}
	if v.Adjudication.Together() && guild.Criticality(o.Level).Replicas() > 1 {
		o.Compare = string(v.Adjudication)
	}
	o.Task = s.ID.String()
	o.packed, err = typed.Bundle(ctx, e)
	return o, err
}

// showResult prints what a typed job came to, or writes it to a file.
func (p *program) showResult(ctx context.Context, client *control.Client, job control.Job, o hireOptions) error {
	result, err := client.Result(ctx, job.ID)
	if err != nil {
		return err
	}
	if o.Output != "" {
		return os.WriteFile(o.Output, append(result, '\n'), 0o644)
	}
	if o.JSON {
		return cli.PrintLine(p.out, map[string]any{"job": job.ID, "event": "result", "result": jsontext.Value(result)})
	}
	_, err = fmt.Fprintln(p.out, oa.Text(result))
	return err
}
