package node

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"

	"guild/internal/step/work"
)

// LearnByModel has the model that did a request write the lesson, instead of a command.
const LearnByModel = "model"

// learnTask is the task for the model.
const learnTask = `bundle/verdict.json is what a customer says of work that you did, and bundle/REPLAY.jsonl is what you did.
If they show something that would help with other tasks of this kind, write it to delivery/lesson.md: a line with a title,
and then at most five sentences. It must hold for other tasks too, and have nothing in it that belongs to the customer.
If there is nothing of the kind, write no file. Then finish.`

// learner returns who writes lessons about requests to a service: the owner's command, or the service's model.
func (n *Node) learner(ctx context.Context, service string) (func(context.Context, work.Assignment) error, error) {
	if n.c.Agents.Learn != LearnByModel {
		command, err := n.command(Worker{Command: n.c.Agents.Learn})
		return command.Do, err
	}
	for _, w := range n.c.Workers {
		if w.Chat == nil || cmp.Or(w.D, w.Task) != service {
			continue
		}
		m := *w.Chat
		m.Brief = func(context.Context, fs.FS) (string, error) { return learnTask, nil }
		do, _, err := n.chatWorker(ctx, Worker{Chat: &m})
		return do, err
	}
	return nil, fmt.Errorf("the service %.80q is not done by a model", service)
}
