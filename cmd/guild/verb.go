package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/node"
)

// call makes cmd a verb that gets a resource and shows it: as JSON with --json, else with show. The Use line says which
// argument cmd takes (setArgs), and a flag with the name of one of the resource's query parameters sets that.
func call[T any](p *program, at visit, r control.Resource[T], cmd *cobra.Command, show func(T) error) *cobra.Command {
	p.setArgs(cmd)
	cli.JSONFlag(cmd, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return at(ctx, func(client *control.Client, _ bool) error {
			value, err := got(cmd, client, r, args)
			if err != nil {
				return err
			}
			return printed(p, cli.AsJSON(cmd), value, show)
		})
	}
	return cmd
}

// got gets a resource for cmd, whose first argument may name a provider in any form.
func got[T any](cmd *cobra.Command, client *control.Client, r control.Resource[T], args []string) (value T, err error) {
	ctx := cmd.Context()
	if namesProvider(cmd) {
		key, err := namedProvider(ctx, args[0])
		if err != nil {
			return value, cli.Usage(err)
		}
		args = []string{key}
	}
	get := func(args []string) (T, error) {
		return r.Call(ctx, client, slices.Concat(args, queryOf(cmd, r.Query()))...)
	}
	value, err = get(args)
	if namesProvider(cmd) && isUnknownName(args[0], err) {
		key, failed := resolveProvider(ctx, args[0])
		if failed != nil {
			return value, cli.Usage(failed)
		}
		return get([]string{key})
	}
	return value, err
}

// queryOf returns the values of the flags with the names of query parameters.
func queryOf(cmd *cobra.Command, names []string) []string {
	values := make([]string, len(names))
	for i, name := range names {
		if flag := cmd.Flag(name); flag != nil {
			values[i] = flag.Value.String()
		}
	}
	return values
}

// send makes cmd a verb that sends an action and shows the answer, as call does. order turns the arguments and flags into
// the body and the parameters of the path; its errors are wrong usage.
func send[In, Out any](p *program, at visit, a control.Action[In, Out], cmd *cobra.Command,
	order func(cmd *cobra.Command, args []string) (in In, params []string, err error), show func(Out) error) *cobra.Command {
	p.setArgs(cmd)
	cli.JSONFlag(cmd, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		in, params, err := order(cmd, args)
		if err != nil {
			return cli.Usage(err)
		}
		params = append(params, queryOf(cmd, a.Query())...)
		return at(ctx, func(client *control.Client, fresh bool) error {
			out, err := onceHeard(ctx, fresh && namesProvider(cmd), func() (Out, error) { return a.Call(ctx, client, in, params...) })
			if err != nil {
				return err
			}
			return printed(p, cli.AsJSON(cmd), out, show)
		})
	}
	return cmd
}

// local makes cmd a verb that does more than call the node, or asks none: it prints what run returns, as JSON with --json,
// else for a person. Arguments are as for call. A verb that prints while it runs takes cli.JSONFlag alone.
func (p *program) local(cmd *cobra.Command, run func(cmd *cobra.Command, args []string) (*cli.Result, error)) *cobra.Command {
	p.setArgs(cmd)
	return cli.Verb(cmd, p.out, run)
}

// answerOf gets a resource for a local verb that chooses among several. The args are those of its Call.
func answerOf[T any](ctx context.Context, at visit, r control.Resource[T], show func(T) error, args ...string) (*cli.Result, error) {
	var value T
	err := at(ctx, func(client *control.Client, _ bool) (err error) {
		value, err = r.Call(ctx, client, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &cli.Result{JSON: value, Show: func() error { return show(value) }}, nil
}

// setArgs sets the arguments that cmd takes, and their completion, by its Use line, unless cmd has them.
func (p *program) setArgs(cmd *cobra.Command) {
	if cmd.Args != nil {
		return
	}
	_, words, _ := strings.Cut(cmd.Use, " ")
	switch words {
	case "JOB":
		cmd.Args, cmd.ValidArgsFunction = cli.OneArg("one job id"), p.completeJobs
	case "JOB|RECEIPT":
		cmd.Args, cmd.ValidArgsFunction = cli.OneArg("a job or a receipt id"), p.completeJobs
	case "FILE|JOB|RECEIPT|-":
		cmd.Args, cmd.ValidArgsFunction = cli.OneArg("a file, a job, a receipt, or -"), p.completeJobsAndFiles
	case "[FILE|-]":
		cmd.Args = cli.Arity(cobra.MaximumNArgs(1), "at most one file")
	case "PROVIDER":
		cmd.Args = cli.OneArg("a provider")
	default: // no argument
		cmd.Args = cli.NoArgs()
	}
}

// namesProvider reports whether the first argument of cmd is a provider.
func namesProvider(cmd *cobra.Command) bool {
	_, words, _ := strings.Cut(cmd.Use, " ")
	return strings.HasPrefix(words, "PROVIDER")
}

// printLines prints the values of a sequence as they come: as JSON on a line each, or with show.
func printLines[T any](p *program, asJSON bool, all iter.Seq2[T, error], show func(T) error) error {
	for value, err := range all {
		if err == nil && asJSON {
			err = cli.PrintLine(p.out, value)
		} else if err == nil {
			err = show(value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printed prints a value as JSON, or has show print it for a person.
func printed[T any](p *program, asJSON bool, value T, show func(T) error) error {
	if asJSON {
		return cli.PrintJSON(p.out, value)
	}
	return show(value)
}

// table returns a func that prints a list as a table with this head, its columns separated by commas. Without anything to
// list it says none on standard error, or prints the head alone if none is empty.
func table[T any](p *program, none, head string, row func(T) []string) func([]T) error {
	return func(all []T) error {
		if len(all) == 0 && none != "" {
			fmt.Fprintln(p.err, none)
			return nil
		}
		rows := [][]string{strings.Split(head, ",")}
		for _, one := range all {
			rows = append(rows, row(one))
		}
		return cli.Table(p.out, rows)
	}
}

// givenFlag returns the value of a flag that may be given as empty, nil if it was not given.
func givenFlag(cmd *cobra.Command, name string) *string {
	flag := cmd.Flag(name)
	if flag == nil || !flag.Changed {
		return nil
	}
	value := flag.Value.String()
	return &value
}

// visit opens a node, has do use it, and closes what it opened. fresh says that the node was started just for that.
type visit func(ctx context.Context, do func(client *control.Client, fresh bool) error) error

// reading visits the running node, or the directory of a stopped one.
func (p *program) reading(ctx context.Context, do func(*control.Client, bool) error) error {
	return p.inspecting(ctx, nobody, node.Inspect, do)
}

// readingJournal is reading for verbs that need the journal alone.
func (p *program) readingJournal(ctx context.Context, do func(*control.Client, bool) error) error {
	return p.inspecting(ctx, nobody, node.InspectJournal, do)
}

func nobody(config.Config) (key.Identity, error) { return key.Identity{}, nil }

// inspecting visits the running node. Without one it inspects the directory, with the identity that who returns.
func (p *program) inspecting(ctx context.Context, who func(config.Config) (key.Identity, error),
	inspect func(context.Context, node.Config) (*control.Client, func() error, error), do func(*control.Client, bool) error) error {
	c, err := p.config()
	if err != nil {
		return err
	}
	client := control.Dial(c.Socket())
	if _, err := control.NodeStatus.Call(ctx, client); err == nil {
		return do(client, false)
	} else if !errors.Is(err, control.ErrNotRunning) {
		return err
	}
	id, err := who(c)
	if err != nil {
		return err
	}
	n, err := nodeConfig(c, id, nodeOptions{Log: p.logger(p.err)})
	if err != nil {
		return err
	}
	client, closeAll, err := inspect(ctx, n)
	if err != nil {
		return err
	}
	defer func() {
		if err := closeAll(); err != nil {
			p.logger(p.err).Warn("closing the directory of a stopped node", "err", err)
		}
	}()
	return do(client, false)
}

// running visits the running node; a client's calls fail if none runs.
func (p *program) running(_ context.Context, do func(*control.Client, bool) error) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	return do(client, false)
}

// client returns a client of the node of this home, whether one runs or not.
func (p *program) client() (*control.Client, error) {
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	return control.Dial(c.Socket()), nil
}

// acting visits the running node, or one that it starts in this process. That one ends when no job is open and no other
// client is left.
func (p *program) acting(ctx context.Context, do func(client *control.Client, fresh bool) error) error {
	client, own, err := p.anyNode(ctx)
	if err != nil {
		return err
	}
	err = do(client, own != nil)
	if own == nil {
		return err
	}
	return errors.Join(err, own(rest(ctx, err)))
}
