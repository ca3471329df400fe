package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/internal/judging/opinion"
	"guild/internal/step/judge"
	"guild/internal/step/trust/variables"
	"guild/oa"
)

// compareOptions are the flags of judge compare.
type compareOptions struct {
	adjudication string
	task         string
}

func (p *program) judgeCompareCommand() *cobra.Command {
	var o compareOptions
	cmd := p.local(&cobra.Command{
		Use:   "compare REQUEST RESULT...",
		Short: "Compare results of a job that no test can decide",
		Long: `compare adjudicates results of a subjective job, such as a ranking or an
analysis. REQUEST and each RESULT are JSON files. The ways to adjudicate:

  majority_vote  more than half of the results must say the same
  judge_model    a model, or a command of yours, compares them in both orders;
                 [judge.opinion] in the configuration says which
  merge          one result is made of all
  none           every result is taken

No verdict on opinions proves anything: above max_pay_msat, if that is set, a
person decides about the money.`,
		Example: "  guild judge compare request.json a.json b.json c.json\n" +
			"  guild judge compare request.json a.json b.json --adjudication judge_model",
		Args: cli.Arity(cobra.MinimumNArgs(2), "a request and its results"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		return p.runJudgeCompare(cmd.Context(), args, o)
	})
	cmd.Flags().StringVar(&o.adjudication, "adjudication", string(oa.MajorityVote), "majority_vote, judge_model, merge or none")
	cmd.Flags().StringVar(&o.task, "task", oa.RetrievalRerank, "the job's type")
	cli.Choices(cmd, "adjudication", adjudications()...)
	return cmd
}

// compared is the output of judge compare --json.
type compared struct {
	Best     []string        `json:"best"` // files
	Verdicts []guild.Verdict `json:"verdicts"`
	Merged   json.RawMessage `json:"merged,omitempty"`
	Person   string          `json:"person,omitempty"`
}

// adjudications returns the ways to adjudicate.
func adjudications() []string {
	return []string{string(oa.MajorityVote), string(oa.JudgeModel), string(oa.Merge), string(oa.NoAdjudication)}
}

func (p *program) runJudgeCompare(ctx context.Context, files []string, o compareOptions) (*cli.Result, error) {
	if ways := adjudications(); !slices.Contains(ways, o.adjudication) {
		return nil, cli.Usage(fmt.Errorf("--adjudication %.40q: want one of %s", o.adjudication, strings.Join(ways, ", ")))
	}
	q := opinion.Question{Task: o.task}
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, cli.Usage(err)
		}
		if i == 0 {
			q.Request = raw
		} else {
			q.Results = append(q.Results, raw)
		}
	}
	if err := q.Check(); err != nil {
		return nil, cli.Usage(err)
	}
	asked, err := p.opinion(ctx)
	if err != nil {
		return nil, err
	}
	choice, merged, err := opinion.Adjudicate(ctx, oa.Adjudication(o.adjudication), q, asked)
	if errors.Is(err, opinion.ErrNoJudge) {
		return nil, cli.WithHint(cli.Usage(err), "name a command, or a url and a model, in [judge.opinion] of the configuration")
	}
	if err != nil {
		return nil, err
	}
	out := compared{Best: []string{}, Merged: merged}
	for _, i := range choice.Best {
		out.Best = append(out.Best, files[1+i])
	}
	verdicts, err := judge.Opine(oa.Adjudication(o.adjudication), len(q.Results), choice)
	out.Verdicts = verdicts
	result := &cli.Result{JSON: &out, Show: func() error { return p.showCompared(files[1:], out) }}
	if person, undecided := errors.AsType[*judge.PersonNeeded](err); undecided {
		out.Person = person.Reason
		return result, cli.WithCode(&judge.PersonNeeded{Reason: person.Reason}, exitUndecided)
	}
	return result, nil
}

func (p *program) showCompared(files []string, out compared) error {
	for i, v := range out.Verdicts {
		fmt.Fprintf(p.out, "%s %s  %s %s\n", testMark(v.Tests[0].State), cli.Clean(files[i]), v.Outcome, cli.Clean(v.Cause))
	}
	if out.Merged != nil {
		fmt.Fprintf(p.out, "%s\n", cli.Clean(string(out.Merged)))
	}
	return nil
}

// opinion returns the judge that the configuration appoints to compare results; nil without one.
func (p *program) opinion(ctx context.Context) (opinion.Opinion, error) {
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	named := c.Judge.Opinion
	if named.Command != "" || named.URL == "" || named.Model != "" && named.Model != opinion.Auto {
		return appointed(named, nil)
	}
	prefer, err := p.preferred(ctx)
	if err != nil {
		return nil, err
	}
	return appointed(named, prefer)
}

// preferred returns the models that did well here for each task: the variable MODEL_PREFERENCE.
func (p *program) preferred(ctx context.Context) (func(task string) []string, error) {
	var m control.Matrix
	err := p.reading(ctx, func(client *control.Client, _ bool) (err error) {
		m, err = control.Trust.Call(ctx, client)
		return err
	})
	if err != nil {
		return nil, err
	}
	of := map[string][]string{}
	for _, v := range m.Variables {
		var models []string
		if v.Name == fact.ModelPreference && json.Unmarshal(v.Value, &models) == nil {
			of[v.Key] = models
		}
	}
	return func(task string) []string { return slices.Concat(of[task], of[variables.FallbackChain]) }, nil
}

func appointed(c config.Opinion, prefer func(task string) []string) (opinion.Opinion, error) {
	switch {
	case c.Command != "":
		return opinion.Command{Argv: []string{"/bin/sh", "-c", c.Command}, Env: os.Environ()}, nil
	case c.URL == "":
		return nil, nil
	}
	chat := opinion.Chat{URL: c.URL, Model: c.Model, Prefer: prefer}
	var err error
	if chat.Key, err = keyIn(c.KeyEnv); err != nil {
		return nil, fmt.Errorf("judge.opinion.%w", err)
	}
	return chat, chat.Check()
}
