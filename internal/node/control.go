package node

import (
	"cmp"
	"context"
	"slices"

	"fiatjaf.com/nostr/nip19"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/control"
	"guild/internal/relay"
)

func (n *Node) openControl() {
	n.control = control.NewServer(control.ServerConfig{
		Journal: n.journal, Blobs: n.blobs, Jobs: n.jobs, Fold: n.folds.jobs, Registry: n.registry, Partners: n.partners, Observed: n.folds.observed,
		Trust: n.folds.trust, Record: n.folds.record, Judge: n.judge, Judging: n.folds.judge, Work: n.work, Customers: n.folds.customers, Meet: n.meet, Meetings: n.folds.meet, PubKey: n.pubkey.Hex(), Status: n.status, Kind: n.kind, Class: n.class, Now: n.c.Now, Log: n.c.Log,
		Recommend: n.recommend, Seek: n.seek, Evidence: n.collector(),
		Learn: n.trust, Variables: n.folds.variables, Exchange: n.folds.exchange, Providers: n.folds.partners,
		Review: n.review, Backup: n.backup, Backups: n.folds.backup, Audit: n.audit, Mail: n.mail, Judgements: n.folds.said, Policy: n.c.Policy, Matrix: n.matrix, RestoreBackup: n.restore,
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

// class is the class that the configuration gives a task.
func (n *Node) class(task string) string { return n.c.Learning.Classes[task] }

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

// relayLines lists our relays, and those that announcements are read from, the best first.
func (n *Node) relayLines() []control.Relay {
	links := map[string]relay.Status{}
	for _, r := range n.pool.Status() {
		links[r.URL] = r
	}
	var lines []control.Relay
	for _, s := range n.scout.Status() {
		r := links[s.URL]
		lines = append(lines, control.Relay{URL: s.URL, Connected: r.Connected, Error: r.LastError, Events: int64(r.Events), Tier: int(s.Tier)})
	}
	return lines
}

// status is what the node says of itself.
func (n *Node) status() control.Status {
	s := control.Status{
		Version: n.c.Version, Node: n.name(), Npub: nip19.EncodeNpub(n.pubkey), PubKey: n.pubkey.Hex(),
		Started: n.started.UnixMilli(), Sandbox: n.caps.Tier,
		Journal: control.Journal{Dir: n.c.JournalDir, Last: n.journal.Last()},
		Jobs:    map[string]int{}, Seen: n.registry.Len(), Dropped: n.gate.counters(),
	}
	for _, r := range n.journal.Renewed() {
		s.Journal.Renewed = append(s.Journal.Renewed, r.Aside)
	}
	if n.local != nil {
		s.Local = n.local.URL()
	}
	if n.unboxed != nil {
		s.Sandbox = n.unboxed.Error()
	}
	s.Yields, s.Relays = n.presence.yielding(), n.relayLines()
	for _, j := range n.folds.jobs.All() {
		s.Jobs[cmp.Or(string(j.Ending), "open")]++
	}
	for _, w := range n.work.Services() {
		s.Services = append(s.Services, control.ServiceLine(w))
	}
	for effect, reason := range n.claims.Parked() {
		s.Parked = append(s.Parked, effect+": "+reason)
	}
	slices.Sort(s.Parked)
	for _, guard := range n.journal.Quarantined() {
		s.Quarantined = append(s.Quarantined, string(guard))
	}
	return s
}
