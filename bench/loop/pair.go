package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/node"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/internal/step/work"
	"guild/nutshell"
)

// pair is a customer's node and a provider's node.
type pair struct {
	name   string
	task   string
	client *control.Client // of the customer
	watch  *stopwatch
}

// openPair starts both nodes and waits until the customer knows the provider's offer.
func (s *stand) openPair(ctx, live context.Context, dir string, width int, noSync bool) (*pair, error) {
	watch := &stopwatch{jobs: map[guild.JobID]*timeline{}, attempts: map[nostr.ID]guild.JobID{}}
	p := &pair{name: "fsync on", task: "bench-on", watch: watch}
	if noSync {
		p.name, p.task = "fsync off", "bench-off"
	}
	socket := filepath.Join(dir, p.task)
	p.client = control.Dial(socket)
	offer := node.Worker{Task: p.task, Slots: width, Queue: 1000, Do: writeFile}
	configs := []node.Config{{Workers: []node.Worker{offer}}, {Socket: socket, Hiring: node.Hiring{Limits: jobs.Limits{AtOnce: 100_000, PerMinute: 100_000_000}}}}
	for i, c := range configs {
		c.Dir, c.NoSync = filepath.Join(dir, fmt.Sprintf("%s-%d", p.task, i)), noSync
		c.Relays, c.Appended, c.Examine = []string{s.relay.URL()}, p.watch.appended, accept
		if err := s.startNode(ctx, live, p.name, c); err != nil {
			return nil, err
		}
	}
	return p, p.meet(ctx)
}

// startNode runs a node and waits until it is ready.
func (s *stand) startNode(ctx, live context.Context, part string, c node.Config) error {
	if err := journal.Init(filepath.Join(c.Dir, "journal")); err != nil {
		return err
	}
	secret := key.NewSecret(nostr.Generate())
	ready := make(chan struct{}, 1)
	c.Identity = key.Identity{Signer: key.NewSigner(secret), PubKey: secret.PubKey()}
	c.Version, c.Log, c.Ready = "bench", quiet(), func(node.Ready) { ready <- struct{}{} }
	s.run(live, part, func(ctx context.Context) error { return node.Run(ctx, c) })
	select {
	case <-ready:
		return nil
	case <-time.After(time.Minute):
		return errors.New("the node is not ready after a minute")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// meet waits until the customer has read the provider's announcement.
func (p *pair) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for tick := time.Tick(20 * time.Millisecond); ; {
		offers, err := control.Providers.Call(ctx, p.client, p.task)
		if err != nil || len(offers) > 0 {
			return err
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("%s: the customer and the provider do not meet: %w", p.name, ctx.Err())
		}
	}
}

// lap hires the provider and waits until the job is closed. The verdict, trust, receipt and trajectory are then
// complete.
func (p *pair) lap(ctx context.Context) (lap, error) {
	packed, err := bundle(ctx, p.task)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	hired, err := p.client.Hire(ctx, bytes.NewReader(packed), control.Hire{Task: p.task})
	if err != nil {
		return nil, err
	}
	id, err := guild.ParseJobID(hired.ID)
	if err != nil {
		return nil, err
	}
	return p.watch.lap(ctx, id, start)
}

// bundle returns a request bundle with unique content.
func bundle(ctx context.Context, task string) ([]byte, error) {
	id := nostr.Generate().Hex()
	tree := fstest.MapFS{
		"nutshell.json": {Data: fmt.Appendf(nil, `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-%s",
			"task":{"title":"Write a file"},"extensions":{"guild":{"task":%q}}}`, id[:16], task)},
		"files/in.txt": {Data: []byte(id)},
	}
	var b bytes.Buffer
	_, err := nutshell.Pack(ctx, tree, &b, nutshell.Options{})
	return b.Bytes(), err
}

// writeFile is the worker.
func writeFile(_ context.Context, a work.Assignment) error {
	return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), []byte("done\n"), 0o644)
}

// accept is the judge.
func accept(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
	return guild.Verdict{
		Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 1, Passed: 1,
	}, judge.Evidence("accepted unread"), nil
}
