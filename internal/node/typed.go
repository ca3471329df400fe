package node

import (
	"context"
	"runtime"
	"time"

	"guild/internal/judging/opinion"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/typed"
	"guild/internal/step/work"
	"guild/oa"
)

// typedService creates the service for a job type.
func (n *Node) typedService(ctx context.Context, w Worker) (work.Service, error) {
	id, err := oa.ParseID(w.Type)
	if err == nil {
		_, err = n.c.Types.Schema(id)
	}
	if err != nil {
		return work.Service{}, err
	}
	t := work.Typed{Type: id, Author: typed.Author{PubKey: n.pubkey.Hex(), Now: n.c.Now, Types: n.c.Types}}
	walls := n.caps.Tier
	switch {
	case w.Command != "":
		command, err := n.command(w)
		if err == nil {
			err = checkProgram(ctx, w.Command, command)
		}
		if err != nil {
			return work.Service{}, err
		}
		t.Do, t.Behave = command.DoTyped, true
	case w.Model != nil:
		model := *w.Model
		model.Prefer = n.folds.variables.Models
		if err := model.Check(); err != nil {
			return work.Service{}, err
		}
		t.Do = func(ctx context.Context, _ work.Assignment, e oa.Envelope) ([]byte, error) { return model.Do(ctx, e) }
		walls = "none"
	default:
		if n.unboxed != nil {
			return work.Service{}, n.unboxed
		}
		box := n.images
		box.Network = w.Network == work.NetworkFull
		box.Most.Wall = w.Limit
		t.Do, t.Accept = work.DoRun(box), box.Accept
	}
	s := n.service(w, t.Work)
	s.Check, s.Walls = t.Check, walls
	return s, nil
}

// openImages creates the sandboxes for commands of oa.sandbox_run.v1: one for each configured image, and one with this
// machine's files.
func (n *Node) openImages(ctx context.Context) error {
	if n.unboxed != nil {
		return nil
	}
	most := workerLimits
	most.CPUs = max(runtime.NumCPU(), sandbox.DefaultCPUs)
	images, err := typed.OpenImages(ctx, n.runnerBox, n.c.Images)
	n.images = typed.Sandbox{Images: images, Most: most, Scratch: n.scratch(), Fetch: n.inputs().Fetch}
	return err
}

// checker returns the checker for results of typed jobs. It runs commands again in the available images, and recomputes
// samples of embeddings.
func (n *Node) checker() typed.Checker {
	c := typed.Checker{Types: n.c.Types, Vectors: n.c.Judging.Vectors}
	if n.unboxed == nil {
		box := n.images
		box.Network, box.Most.Wall = true, time.Hour // as in our own requests
		c.Sandbox = &box
	}
	return c
}

// opinion returns the configured opinion, which chooses between results. A chat without a model uses the model with the
// best record.
func (n *Node) opinion() opinion.Opinion {
	chat, ok := n.c.Judging.Opinion.(opinion.Chat)
	if !ok {
		return n.c.Judging.Opinion
	}
	chat.Prefer = n.folds.variables.Models
	return chat
}
