package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/hand/key"
	"guild/internal/node"
	"guild/internal/policy"
	"guild/internal/step/agents"
	"guild/internal/step/jobs"
)

// nodeOptions are the options of the verbs that run a node.
type nodeOptions struct {
	Services []service    // offered to others; none for a customer
	Log      *slog.Logger // of the node
	Meet     bool         // new providers are benchmarked without a command
	Ready    io.Writer    // gets one line when the node listens; may be nil
	Events   *workEvents  // gets what happens to the services, and that the node listens; may be nil
}

// nodeConfig makes the node's configuration from that of the person.
func nodeConfig(c config.Config, id key.Identity, o nodeOptions) (node.Config, error) {
	if err := c.PrepareRuntime(); err != nil {
		return node.Config{}, err
	}
	for _, name := range []string{"hires", "tokens", "tries"} {
		durable.Sweep(filepath.Join(c.Paths.State, name))
	}
	followed, err := config.Keys(c.Follow)
	if err != nil {
		return node.Config{}, fmt.Errorf("follow: %w", err)
	}
	n := node.Config{
		Dir: c.Paths.Data, Socket: c.Socket(), Identity: id, Version: build().Version, Now: time.Now,
		JournalDir: c.JournalDir(), NookDir: c.Paths.Nook, HighWater: c.HighWater(), NoSync: c.Journal.NoSync,
		Relays: c.Relays, Embed: c.Embeds(), Addr: c.Relay.Addr, MintAddr: c.Wallet.Mint, Blossom: c.Blossom, Retry: c.Timeouts.Retry, Log: o.Log,
		Hiring: node.Hiring{
			Patience: patience(c.Timeouts), Limits: jobs.Limits(c.Limits), Kinds: kinds(c.Tasks), Synonyms: synonyms(c.Synonyms), Follow: followed,
		},
		Judging: node.Judging{
			AtOnce: c.Judge.Jobs, Tier: c.Judge.Tier, Analysis: c.Judge.Analysis, Cache: judgeCache(),
			Vectors: vectorsAt(c.Judge.Opinion), Opinion: opinionOf(c.Judge.Opinion), MostPay: guild.Msat(c.Judge.Opinion.Cap),
		},
		Learning: learning(c), Records: node.Records(c.Records),
		Meeting: node.Meeting{
			Auto:  o.Meet && c.Meeting.Auto && c.Meeting.Daily > 0,
			Daily: c.Meeting.Daily, Count: c.Meeting.Count, AtOnce: c.Meeting.AtOnce, Timeout: c.Meeting.TimeLimit,
		},
		Fetch: node.Fetch{Hosts: c.Work.Fetch}, Images: c.Images,
	}
	if n.Policy, err = policy.Named(c.Trust.Policy); err != nil {
		return node.Config{}, fmt.Errorf("trust.policy: %w", err)
	}
	if n.Agents, err = agentsOf(c.Agents); err != nil {
		return node.Config{}, fmt.Errorf("agents.%w", err)
	}
	n.Types = typesBeside(c, func(file string) {
		cmp.Or(o.Log, slog.Default()).Warn("a description of a job type is left out", "file", file)
	})
	for _, s := range o.Services {
		n.Workers = append(n.Workers, s.worker())
	}
	if o.Ready != nil {
		n.Ready = func(r node.Ready) {
			fmt.Fprintf(o.Ready, "ready  %s  %s\n", nip19.EncodeNpub(r.PubKey), strings.Join(r.Relays, " "))
		}
	}
	if events := o.Events; events != nil {
		n.Appended, n.Watch = events.entry, events.update
		n.Ready = func(r node.Ready) { events.ready(r, time.Now()) }
	}
	return n, nil
}

// agentsOf returns the settings of the node's agents.
func agentsOf(c config.Agents) (a node.Agents, err error) {
	a = node.Agents{Asked: agents.Asking(c.Asked), AutoAccept: c.AutoAccept, Budget: c.Budget, Learn: c.Learn}
	if a.Owners, err = config.Keys(c.Owners); err != nil {
		return a, fmt.Errorf("owners: %w", err)
	}
	if a.Allow, err = config.Keys(c.Allow); err != nil {
		return a, fmt.Errorf("allow: %w", err)
	}
	return a, nil
}

func patience(t config.Timeouts) jobs.Patience {
	p := jobs.Patience{Discover: t.Discover, Offers: t.Offers, Silence: t.Silence, Extend: t.Result, Job: t.Job}
	copy(p.Ladder[:], t.Delivery)
	return p
}

// learning returns the settings of trust, reviews and backups.
func learning(c config.Config) node.Learning {
	l := node.Learning{
		Thresholds: map[string]guild.Trust{}, Classes: map[string]string{}, Budgets: map[string]jobs.Budget{},
		Mirrors: c.Review.Mirrors, CID: c.Review.CID, Silent: !c.Review.Publish, Unsaved: !c.Backup.Auto,
	}
	if c.Budget != (config.Budget{}) {
		l.Budgets[jobs.Others] = jobs.Budget{Daily: c.Budget.Daily, Monthly: c.Budget.Monthly}
	}
	for task, set := range c.Tasks {
		if set.Threshold != 0 {
			l.Thresholds[task] = guild.Trust(set.Threshold*guild.Micro + 0.5)
		}
		if set.Class != "" {
			l.Classes[task] = set.Class
		}
		if set.Daily != 0 || set.Monthly != 0 || set.Bid != 0 {
			l.Budgets[task] = jobs.Budget{Daily: set.Daily, Monthly: set.Monthly, Base: set.Bid}
		}
	}
	return l
}

func kinds(tasks map[string]config.TaskSet) map[string]int {
	kinds := map[string]int{}
	for task, set := range tasks {
		if set.Kind != 0 {
			kinds[task] = set.Kind
		}
	}
	return kinds
}

// synonyms turns "word means task" into the words of each task.
func synonyms(words map[string]string) map[string][]string {
	of := map[string][]string{}
	for _, word := range slices.Sorted(maps.Keys(words)) {
		of[words[word]] = append(of[words[word]], word)
	}
	return of
}

// runNode runs a node until ctx ends.
func runNode(ctx context.Context, c config.Config, id key.Identity, o nodeOptions) error {
	n, err := nodeConfig(c, id, o)
	if err != nil {
		return err
	}
	return endWithin(ctx, farewell, func() error { return node.Run(ctx, n) })
}

// farewell bounds the time that a node takes to end: ten seconds for its running work, the rest for its last events and seal.
const farewell = time.Minute

// endWithin runs run, and fails if it does not end within patience after ctx. The process then ends as if it were killed:
// every fact is on the disk, and the next start goes on from there.
func endWithin(ctx context.Context, patience time.Duration, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return cli.WithHint(fmt.Errorf("the node was told to end %v ago and did not", patience), "nothing that was recorded is lost; start it again")
	}
}

// startOwnNode runs a node in this process, for a verb that found none running. stop waits until no job is open and no
// other client is left, or until its context ends.
func startOwnNode(ctx context.Context, c config.Config, id key.Identity, o nodeOptions) (client *control.Client, stop func(context.Context) error, err error) {
	n, err := nodeConfig(c, id, o)
	if err != nil {
		return nil, nil, err
	}
	ready, quit, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	n.Quit = quit
	n.Ready = func(node.Ready) { close(ready) }
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() { done <- node.Run(running, n) }()
	select {
	case err := <-done:
		cancel()
		return nil, nil, err
	case <-ctx.Done():
		cancel()
		return nil, nil, errors.Join(ctx.Err(), <-done)
	case <-ready:
	}
	stop = func(ctx context.Context) error {
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		close(quit)
		return <-done
	}
	return control.Dial(c.Socket()), stop, nil
}
