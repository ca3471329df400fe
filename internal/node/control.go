package node

import (
	"cmp"
	"context"
	"slices"

	"fiatjaf.com/nostr/nip19"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/control"
)

func (n *Node) openControl() {
	n.control = control.NewServer(control.ServerConfig{
		Journal: n.journal, Blobs: n.blobs, Jobs: n.jobs, Fold: n.folds.jobs, Registry: n.registry, Observed: n.folds.observed,
		Trust: n.folds.trust, Record: n.folds.record, Judge: n.judge, Judging: n.folds.judge, PubKey: n.pubkey.Hex(), Status: n.status, Kind: n.kind, Now: n.c.Now, Log: n.c.Log,
		Recipient: func() (string, error) { return n.vaultKey.recipient() },
		Sandbox: func(context.Context) error {
			if n.c.Examine != nil {
				return nil
			}
			return n.unboxed
		},
	})
}

// kind is the NIP-90 kind of requests for a task.
func (n *Node) kind(task string) int { return cmp.Or(n.c.Kinds[task], guild.KindOf(task)) }

func (n *Node) serveControl(ctx context.Context, parts *errgroup.Group) error {
	if n.c.Socket == "" {
		return nil
	}
	l, err := control.Listen(n.c.Socket)
	if err != nil {
		return err
	}
	parts.Go(func() error { return n.control.Serve(ctx, l) })
	return nil
}

// status is what the node says of itself.
func (n *Node) status() control.Status {
	s := control.Status{
		Version: n.c.Version, Node: n.name(), Npub: nip19.EncodeNpub(n.pubkey), PubKey: n.pubkey.Hex(),
		Started: n.started.UnixMilli(), Sandbox: n.caps.Tier,
		Journal: control.Journal{Dir: n.c.JournalDir, Last: n.journal.Last()},
		Jobs:    map[string]int{}, Seen: n.registry.Len(), Dropped: n.gate.counters(),
	}
	if n.local != nil {
		s.Local = n.local.URL()
	}
	if n.unboxed != nil {
		s.Sandbox = n.unboxed.Error()
	}
	for _, r := range n.pool.Status() {
		s.Relays = append(s.Relays, control.Relay{URL: r.URL, Connected: r.Connected, Error: r.LastError, Events: int64(r.Events)})
	}
	for _, j := range n.folds.jobs.All() {
		s.Jobs[cmp.Or(string(j.Ending), "open")]++
	}
	for _, w := range n.work.Services() {
		s.Services = append(s.Services, control.Service{
			Task: w.Task, D: w.D, Running: w.Running, Queued: w.Queued, Slots: w.Slots, Done: w.Delivered, Failed: w.Failed,
		})
	}
	for effect, reason := range n.claims.Parked() {
		s.Parked = append(s.Parked, effect+": "+reason)
	}
	slices.Sort(s.Parked)
	return s
}
