package node

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/relay"
	"guild/internal/hand/workdir"
	"guild/internal/journal/fact"
	"guild/internal/judging/exam"
	"guild/internal/judging/typed"
	"guild/nutshell"
)

// openControl creates the server of the control API for the parts that are open. The Node implements control.Node for
// it.
func (n *Node) openControl() {
	c := control.ServerConfig{Journal: n.journal, Blobs: n.blobs, Policy: n.c.Policy, PubKey: n.pubkey.Hex(), Now: n.c.Now, Log: n.c.Log, Node: n}
	for _, p := range n.parts {
		if p.show != nil {
			p.show(&c.Parts)
		}
	}
	c.Evidence = n.collector(c.Audit)
	n.control = control.NewServer(c)
}

// Class returns the class that the configuration gives a task, or "".
func (n *Node) Class(task string) string { return n.c.Learning.Classes[task] }

// Recipient returns the age recipient of the node's own key for credentials.
func (n *Node) Recipient() (string, error) { return n.vaultKey.recipient() }

// Sandbox returns the reason why this node cannot judge anything, or nil.
func (n *Node) Sandbox(context.Context) error {
	if n.c.Examine != nil {
		return nil
	}
	return n.unboxed
}

// Judgeable implements control.Node. Typed jobs have no criteria: the description of their type is enough.
func (n *Node) Judgeable(ctx context.Context, packed []byte) error {
	if n.c.Examine != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "guild-order-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
	if err != nil {
		return err
	}
	if err := workdir.Unpack(ctx, b, dir); err != nil {
		return err
	}
	if _, isTyped, err := typed.RequestedIn(dir); isTyped || err != nil {
		return err
	}
	lacks, err := new(exam.Engine).Ready(os.DirFS(dir))
	if err == nil && len(lacks) > 0 {
		err = errors.New(strings.Join(lacks, "; "))
	}
	return err
}

// Pending implements control.Node.
func (n *Node) Pending(guard fact.Subject) string {
	for _, effect := range n.runner.Pending(guard) {
		return effect
	}
	return ""
}

// Offline implements control.Node.
func (n *Node) Offline() string { return n.connectivity.whyOffline() }

// Status describes the running node.
func (n *Node) Status() control.Status {
	s := control.Status{
		Version: n.c.Version, Node: n.name(), Npub: nip19.EncodeNpub(n.pubkey), PubKey: n.pubkey.Hex(),
		Started: n.started.UnixMilli(), Sandbox: n.caps.Tier,
		Journal: control.Journal{Dir: n.c.JournalDir, Last: uint64(n.metrics.entries.Values()[""])},
		Jobs:    map[string]int{}, Seen: int(n.metrics.providers.Values()[""]), Dropped: n.metrics.dropped.Values(),
		Yields: n.presence.yielding(),
	}
	links, events := map[string]relay.Status{}, n.metrics.relayEvents.Values()
	for _, r := range n.pool.Status() {
		links[r.URL] = r
	}
	for _, known := range n.scout.Status() { // our relays, and those that announcements are read from, the best first
		r, q := links[known.URL], n.pool.Quality(known.URL)
		view := control.Relay{URL: known.URL, Connected: r.Connected, Error: r.LastError, Events: events[known.URL], Tier: int(known.Tier)}
		if q.Samples > 0 {
			loss := int64(q.Loss * guild.Micro)
			view.Connect, view.Latency, view.Loss = q.Connect.Milliseconds(), q.Latency.Milliseconds(), &loss
		}
		s.Relays = append(s.Relays, view)
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
	for ending, count := range n.metrics.jobs.Values() {
		s.Jobs[ending] = int(count)
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
