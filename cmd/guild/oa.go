package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/oa"
)

func (p *program) oaCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "oa",
		Short: "Describe and check typed jobs of the OpenAgents surface",
		Long: `oa lists the known types of jobs, describes their requests and results, and
checks them. Beside the four types of the surface there are those that the files
schemas/*.json beside config.toml describe, in the form that 'guild oa schema'
prints.`,
		Example: "  guild oa ls\n  guild oa check request.json --type oa.embedding.v1",
	}, p.oaLsCommand(), p.oaSchemaCommand(), p.oaCheckCommand(), p.oaHashCommand())
}

// jobTypes returns the known job types, with those that are described beside the configuration.
func (p *program) jobTypes() (oa.Registry, error) {
	c, err := p.config()
	if err != nil {
		return oa.Registry{}, err
	}
	return typesBeside(c, func(file string) { fmt.Fprintln(p.err, "guild: left out:", cli.Clean(file)) }), nil
}

// describe finds the description of a job type.
func (p *program) describe(name string) (oa.Registry, oa.Schema, error) {
	id, err := oa.ParseID(name)
	if err != nil {
		return oa.Registry{}, oa.Schema{}, cli.Usage(err)
	}
	all, err := p.jobTypes()
	if err != nil {
		return all, oa.Schema{}, err
	}
	s, err := all.Schema(id)
	if err != nil {
		err = cli.WithHint(cli.Usage(err), "guild oa ls lists the job types that are known")
	}
	return all, s, err
}

func (p *program) completeJobTypes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := p.jobTypes()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, s := range all.Schemas() {
		names = append(names, s.ID.String())
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (p *program) oaLsCommand() *cobra.Command {
	cmd := p.local(&cobra.Command{
		Use:     "ls",
		Short:   "List the known job types",
		Example: "  guild oa ls\n  guild oa ls --json",
	}, func(*cobra.Command, []string) (*cli.Result, error) { return p.runOALs() })
	cmd.Flag("json").Usage = "print them as JSON"
	return cmd
}

// jobType is a job type as oa ls --json prints it.
type jobType struct {
	ID           string  `json:"job_type"`
	Kind         int     `json:"kind"`
	Verification oa.Mode `json:"verification_mode"`
	From         string  `json:"from"` // surface, or own: a file beside the configuration
	Description  string  `json:"description,omitempty"`
}

func (p *program) runOALs() (*cli.Result, error) {
	all, err := p.jobTypes()
	if err != nil {
		return nil, err
	}
	list := []jobType{}
	for _, s := range all.Schemas() {
		one := jobType{ID: s.ID.String(), Kind: s.ID.Kind(), Verification: s.VerificationMode, From: "surface", Description: s.Description}
		if _, err := oa.Known().Schema(s.ID); err != nil {
			one.From = "own"
		}
		list = append(list, one)
	}
	show := table(p, "", "JOB TYPE,VERIFICATION,FROM,WHAT", func(one jobType) []string {
		return []string{one.ID, string(one.Verification), one.From, cli.Cut(cli.Clean(one.Description), 60)}
	})
	return &cli.Result{JSON: list, Show: func() error { return show(list) }}, nil
}

func (p *program) oaSchemaCommand() *cobra.Command {
	var asSchema, result bool
	cmd := &cobra.Command{
		Use:   "schema TYPE",
		Short: "Print the description of a job type, or a JSON Schema",
		Long: `schema prints the description of a job type in the form of the OpenAgents
surface. With --json-schema it prints the JSON Schema (draft 2020-12) that
follows from it, for the request's payload or, with --result, for the result.`,
		Example:           "  guild oa schema oa.sandbox_run.v1\n  guild oa schema oa.embedding.v1 --json-schema --result > result.schema.json",
		Args:              cli.OneArg("a job type"),
		ValidArgsFunction: p.completeJobTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if result && !asSchema {
				return cli.Usage(errors.New("--result goes with --json-schema: a description is of both sides"))
			}
			return p.runOASchema(args[0], asSchema, result, cli.AsJSON(cmd))
		},
	}
	cmd.Flags().BoolVar(&asSchema, "json-schema", false, "print the JSON Schema of the request's payload")
	cmd.Flags().BoolVar(&result, "result", false, "with --json-schema: that of the result")
	cli.JSONFlag(cmd, "print it on one line")
	return cmd
}

func (p *program) runOASchema(name string, asSchema, result, asJSON bool) error {
	_, s, err := p.describe(name)
	if err != nil {
		return err
	}
	write := s.Encode
	if asSchema {
		write = func() ([]byte, error) { return s.JSONSchema(sideOf(result)) }
	}
	text, err := write()
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintLine(p.out, json.RawMessage(text))
	}
	return cli.PrintJSON(p.out, json.RawMessage(text))
}

func sideOf(result bool) oa.Side {
	if result {
		return oa.Outputs
	}
	return oa.Inputs
}

// oaCheckOptions are the flags of oa check.
type oaCheckOptions struct {
	file, jobType, request string
	result                 bool
}

func (p *program) oaCheckCommand() *cobra.Command {
	var o oaCheckOptions
	cmd := p.local(&cobra.Command{
		Use:   "check [FILE|-]",
		Short: "Check a request or a result",
		Long: `check lists the faults of a typed job's request, field by field, and exits 1 if
there are any. The file has an envelope, which names its job type, or a bare
payload with --type. With --result it has a result; --request names the request
for it, for faults that only the two together show, and those of the request
itself. Missing provenance of a result is listed, and is no fault.`,
		Example: "  guild oa check request.json --type oa.sandbox_run.v1\n" +
			"  guild oa check result.json --type oa.embedding.v1 --result --request r.json",
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		o.file = append(args, "-")[0]
		return p.runOACheck(o)
	})
	cmd.Flags().StringVar(&o.jobType, "type", "", "the job type; needed where no envelope says it")
	cmd.Flags().BoolVar(&o.result, "result", false, "it is a result")
	cmd.Flags().StringVar(&o.request, "request", "", "with --result: the file of the request that it answers")
	cmd.Flag("json").Usage = "print what was found as JSON"
	_ = cmd.RegisterFlagCompletionFunc("type", p.completeJobTypes) // it is there
	return cmd
}

// oaChecked is the output of oa check --json.
type oaChecked struct {
	JobType  string     `json:"job_type"`
	Document string     `json:"document"` // request or result
	Hash     guild.Hash `json:"hash"`     // canonical: of a request, the job hash
	Valid    bool       `json:"valid"`
	Faults   oa.Faults  `json:"faults"`            // by their paths in the file
	Unknown  []string   `json:"unknown,omitempty"` // members that the description does not have
	Lacks    []oa.Lack  `json:"lacks,omitempty"`   // of a result
}

func (p *program) runOACheck(o oaCheckOptions) (*cli.Result, error) {
	if o.request != "" && !o.result {
		return nil, cli.Usage(errors.New("--request goes with --result: it names what the result answers"))
	}
	e, at, err := p.readJob(o.file, o.jobType)
	if err != nil {
		return nil, err
	}
	all, s, err := p.describe(e.JobType.String())
	if err != nil {
		return nil, err
	}
	checked := oaChecked{JobType: s.ID.String(), Document: "request", Hash: guild.Sum(e.Payload), Faults: oa.Faults{}}
	if o.result {
		checked.Document, checked.Lacks = "result", s.Lacks(e.Payload)
		err = p.checkResult(all, e, o.request)
	} else {
		err = all.CheckRequest(s.ID, e.Payload)
	}
	if err != nil && !errors.As(err, &checked.Faults) {
		return nil, fmt.Errorf("%s: %w", inputName(o.file), err)
	}
	checked.Valid, checked.Faults, checked.Unknown = err == nil, inFile(checked.Faults, at), unknownIn(s, sideOf(o.result), e.Payload, at)
	var bad error
	if !checked.Valid {
		bad = fmt.Errorf("%s is not a valid %s of %s: %s", inputName(o.file), checked.Document, checked.JobType, cli.Count(len(checked.Faults), "fault", "faults"))
	}
	result := &cli.Result{JSON: checked, Show: func() error { return cmp.Or(p.showChecked(o, checked), bad) }}
	if bad != nil {
		return result, cli.Shown(bad) // by the JSON; else Show returns it
	}
	return result, nil
}

// checkResult checks a result, beside its request if that is given. A request with faults is not compared with it, and its
// faults come after the result's own, under "request.".
func (p *program) checkResult(all oa.Registry, e oa.Envelope, request string) error {
	if request == "" {
		return all.CheckResult(e.JobType, nil, e.Payload)
	}
	asked, at, err := p.readJob(request, e.JobType.String())
	if err != nil {
		return err
	}
	err = all.CheckRequest(asked.JobType, asked.Payload)
	if err == nil {
		return all.CheckResult(e.JobType, asked.Payload, e.Payload)
	}
	var own, others oa.Faults
	if !errors.As(err, &others) {
		return fmt.Errorf("the request: %w", err)
	}
	if err := all.CheckResult(e.JobType, nil, e.Payload); err != nil && !errors.As(err, &own) {
		return err
	}
	return append(slices.Clone(own), inFile(others, "request."+at)...)
}

func (p *program) showChecked(o oaCheckOptions, c oaChecked) error {
	for _, f := range c.Faults {
		fmt.Fprintln(p.out, cli.Clean(f.String()))
	}
	for _, member := range c.Unknown {
		fmt.Fprintln(p.out, "note:", cli.Clean(member), "is not described: a reader may ignore it")
	}
	for _, l := range c.Lacks {
		fmt.Fprintln(p.out, "note:", cli.Clean(l.String()))
	}
	if !c.Valid {
		return nil
	}
	_, err := fmt.Fprintf(p.out, "%s is a valid %s of %s: %s\n", cli.Clean(inputName(o.file)), c.Document, c.JobType, c.Hash)
	return err
}

func (p *program) oaHashCommand() *cobra.Command {
	cmd := p.local(&cobra.Command{
		Use:   "hash [FILE|-]",
		Short: "Print the job hash of a request",
		Long: `hash prints the hash of a request's payload as it is: no default is filled in
and no number is rewritten. For an envelope it is the hash of the payload
inside, and a different job_hash is an error.`,
		Example: "  guild oa hash request.json\n  guild oa hash --json - < envelope.json",
	}, func(_ *cobra.Command, args []string) (*cli.Result, error) { return p.runOAHash(append(args, "-")[0]) })
	cmd.Flag("json").Usage = "print the hash as JSON"
	return cmd
}

func (p *program) runOAHash(name string) (*cli.Result, error) {
	text, err := p.readBounded(name, oa.MaxSize)
	if err != nil {
		return nil, err
	}
	var h guild.Hash
	if oa.IsEnvelope(text) {
		var e oa.Envelope
		e, err = oa.DecodeEnvelope(text)
		h = e.JobHash
	} else {
		h, err = oa.JobHash(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inputName(name), err)
	}
	return p.hashed(h), nil
}

// readJob reads an envelope, or a bare payload of a job type. at is the prefix of the payload's paths in the file.
func (p *program) readJob(name, jobType string) (e oa.Envelope, at string, err error) {
	text, err := p.readBounded(name, oa.MaxSize)
	if err != nil {
		return e, "", err
	}
	if oa.IsEnvelope(text) {
		at = "payload."
	} else if jobType == "" {
		err := cli.Usage(fmt.Errorf("%s: no envelope says its job type", inputName(name)))
		return e, "", cli.WithHint(err, "name it with --type; guild oa ls lists the job types that are known")
	}
	if e, err = oa.DecodeAs(jobType, text); err != nil {
		return e, "", fmt.Errorf("%s: %w", inputName(name), err)
	}
	return e, at, nil
}

// inFile names faults by their paths in the file that they were read from.
func inFile(faults oa.Faults, at string) oa.Faults {
	moved := slices.Clone(faults)
	for i := range moved {
		moved[i].Path = pathInFile(moved[i].Path, at)
	}
	return moved
}

func pathInFile(path, at string) string {
	for _, side := range []oa.Side{oa.Inputs, oa.Outputs} {
		if path == string(side) {
			return cmp.Or(strings.TrimSuffix(at, "."), "all of it")
		}
		if inside, ok := strings.CutPrefix(path, string(side)+"."); ok {
			return at + inside
		}
	}
	return path
}

// unknownIn returns the members of a payload that its description does not have, by their paths in the file.
func unknownIn(s oa.Schema, side oa.Side, payload []byte, at string) (paths []string) {
	for _, path := range s.Unknown(side, payload) {
		paths = append(paths, pathInFile(path, at))
	}
	return paths
}
