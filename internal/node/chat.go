package node

import (
	"context"
	"errors"
	"io"

	"guild/internal/hand/chat"
	"guild/internal/step/work"
)

// chatWorker returns the function that has a model do a request. Its commands run in the sandbox, without network.
func (n *Node) chatWorker(w Worker) (func(context.Context, work.Assignment) error, error) {
	if err := w.Chat.Check(); err != nil {
		return nil, err
	}
	if n.unboxed != nil {
		return nil, n.unboxed
	}
	mounts, err := n.mounts("", w)
	if err != nil {
		return nil, err
	}
	box := work.Exec{Env: pick(w.Env), Mounts: mounts, Runner: n.runnerBox, Limits: workerLimits, Log: n.c.Log}
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
		outcome, err := w.Chat.Do(ctx, task)
		a.RecordModel(w.Chat.Name, outcome.Tokens)
		if e, ok := errors.AsType[*chat.EndpointError](err); ok { // the owner sees the cause, the customer does not
			cause := e.Unwrap().Error()
			if a.Hide != nil {
				cause = a.Hide(cause)
			}
			return &work.FailedError{Text: e.Error(), Stderr: cause}
		}
		return err
	}, nil
}
