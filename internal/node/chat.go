package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"guild/internal/hand/chat"
	"guild/internal/hand/mcp"
	"guild/internal/step/work"
	"guild/nutshell/vault"
)

// chatWorker returns the function that has a model do a request, and the files and directories of this machine that the sandbox
// mounts for it. Its commands and those of MCP servers run in the sandbox, without network.
func (n *Node) chatWorker(ctx context.Context, w Worker) (do func(context.Context, work.Assignment) error, mounts []string, err error) {
	if err := w.Chat.Check(); err != nil {
		return nil, nil, err
	}
	if n.unboxed != nil {
		return nil, nil, n.unboxed
	}
	mounts, err = n.mounts("", w)
	if err != nil {
		return nil, nil, err
	}
	box := work.Exec{Env: pick(w.Env), Mounts: mounts, Runner: n.runnerBox, Limits: workerLimits, Log: n.c.Log}
	serverBoxes := map[string]work.Exec{} // by the names of the servers
	for _, server := range w.MCP {
		if server.Command == "" {
			continue
		}
		x, err := n.command(Worker{Command: server.Command, Env: w.Env, Mounts: w.Mounts})
		if err == nil {
			err = checkProgram(ctx, server.Command, x)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the MCP server %s: %w", server.Name, err)
		}
		serverBoxes[server.Name] = x
		mounts = slices.Concat(mounts, x.Mounts)
	}
	slices.Sort(mounts)
	mounts = slices.Compact(mounts)
	return func(ctx context.Context, a work.Assignment) error {
		task := chat.Task{
			Bundle: a.Bundle, Delivery: a.Delivery, Inputs: a.Inputs, Hints: a.Hints, Say: a.Say, Record: a.Record,
			Run: func(ctx context.Context, command string, out io.Writer) (int, error) {
				return box.Step(ctx, a, command, out)
			},
		}
		if b := a.Behaviour; b != nil {
			task.Prompt, task.Tools, task.Files = b.Prompt, b.Tools, b.Files
		}
		servers := slices.Clone(w.MCP)
		for i, server := range servers {
			servers[i].Run = func(ctx context.Context, in io.Reader, out io.Writer) error {
				return forOwner(serverBoxes[server.Name].Serve(ctx, a, in, out))
			}
		}
		more, err := mcp.Open(ctx, n.c.Log, servers, task.Tools)
		if err != nil {
			return failed(a, err)
		}
		defer more.Close()
		task.More = more.Offered()
		outcome, err := w.Chat.Do(ctx, task)
		a.RecordModel(w.Chat.Name, outcome.Tokens)
		return failed(a, err)
	}, mounts, nil
}

// failed returns the error of a model or an MCP server so that the owner sees its cause, which the customer does not.
func failed(a work.Assignment, err error) error {
	_, model := errors.AsType[*chat.EndpointError](err)
	_, server := errors.AsType[*mcp.ServerError](err)
	if !model && !server {
		return err
	}
	cause := errors.Unwrap(err).Error()
	if a.Hide != nil {
		cause = a.Hide(cause)
	}
	return &work.FailedError{Text: err.Error(), Stderr: cause}
}

// forOwner returns an error whose text includes what a command wrote to its standard error.
func forOwner(err error) error {
	if e, ok := errors.AsType[*work.FailedError](err); ok && e.Stderr != "" {
		return fmt.Errorf("%w: %s", e, e.Stderr)
	}
	return err
}

// queriesOf lists the queries of the URLs of MCP servers as secrets, because they may have tokens.
func queriesOf(servers []mcp.Server) (all []work.Secret) {
	for _, s := range servers {
		if query := s.Query(); query != "" {
			all = append(all, work.Secret{What: "the address of the MCP server " + s.Name, Text: vault.NewSecret([]byte(query)), Owner: true})
		}
	}
	return all
}
