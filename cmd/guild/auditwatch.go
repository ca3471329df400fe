package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/relay"
	"guild/seal"
)

type auditWatchOptions struct {
	Checkpoints []string // files
	Proofs      []string // files
}

func (p *program) auditWatchCommand() *cobra.Command {
	var o auditWatchOptions
	cmd := p.local(&cobra.Command{
		Use:   "watch NPUB",
		Short: "Look for two histories that somebody has signed",
		Long: `watch reads the checkpoints of a key, and the countersignatures of them, from
each of your relays, and compares them. Whoever shows some people one history
and others another has signed two checkpoints of as many entries of a journal
with different roots. Give it what you have yourself: a checkpoint with
--checkpoint, and with --proof what guild audit compare --json printed.

A countersignature of a checkpoint that no relay has is listed. It proves
nothing alone, since anybody can sign one; ask its author for the checkpoint.

It looks once.

Exit codes:
  0  no two contradict each other
  1  two histories were signed
  2  trouble: no relay has answered, or a file cannot be used`,
		Example: "  guild audit watch npub1…\n  guild audit watch npub1… --checkpoint seal.json --proof proof.json",
		Args:    cli.OneArg("the key of a customer"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		result, err := p.runAuditWatch(cmd.Context(), args[0], o)
		if err != nil && !errors.Is(err, errTwoHistories) && cmd.Context().Err() == nil {
			err = cli.WithCode(err, exitUsage) // a job that runs every day must tell them apart
		}
		return result, err
	})
	cmd.Flags().StringArrayVar(&o.Checkpoints, "checkpoint", nil, "a checkpoint that you have; may be repeated")
	cmd.Flags().StringArrayVar(&o.Proofs, "proof", nil, "a proof between two checkpoints; may be repeated")
	return cmd
}

// lookout is the output of audit watch --json.
type lookout struct {
	OK        bool           `json:"ok"`
	Signer    nostr.PubKey   `json:"signer"`
	Relays    []askedRelay   `json:"relays"`
	Histories []twoHistories `json:"contradictions"`
	Hidden    []statement    `json:"hidden"` // countersignatures of checkpoints that are not there
}

type askedRelay struct {
	URL   string `json:"url"`
	Count int    `json:"count"` // of checkpoints and countersignatures
	Error string `json:"error,omitempty"`
}

// twoHistories are two checkpoints of which one does not follow from the other.
type twoHistories struct {
	Reason string    `json:"reason"`
	First  statement `json:"first"`
	Second statement `json:"second"`
}

// statement is a checkpoint, or a countersignature of one.
type statement struct {
	seal.Checkpoint
	By    nostr.PubKey `json:"by"`
	Event nostr.Event  `json:"event"`
	From  []string     `json:"from"` // relays and files that have it
}

// history identifies the state of a journal that a statement is about.
type history struct {
	journal string
	size    uint64
}

var errTwoHistories = errors.New("two histories were signed")

func (p *program) runAuditWatch(ctx context.Context, npub string, o auditWatchOptions) (*cli.Result, error) {
	signer, err := parseSigner("the customer", npub)
	if err != nil {
		return nil, err
	}
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	found := statements{signer: signer, all: map[nostr.ID]*statement{}}
	w := lookout{Signer: signer}
	for _, name := range o.Checkpoints {
		e, err := readCheckpoint(name)
		if err == nil {
			err = found.given(e, name)
		}
		if err != nil {
			return nil, err
		}
	}
	var proofs []checkpointPair
	for _, name := range o.Proofs {
		g, err := readComparison(name)
		if err == nil {
			err = cmp.Or(found.given(g.Earlier, name), found.given(g.Later, name))
		}
		if err != nil {
			return nil, cli.WithHint(fmt.Errorf("%s: %w", name, err), "guild audit compare --json prints a proof")
		}
		proofs = append(proofs, g)
	}
	if len(c.Relays) == 0 {
		return nil, cli.WithHint(errors.New("no relays are set at which checkpoints could be"), "name some: GUILD_RELAYS=wss://… or relays in config.toml")
	}
	w.Relays = make([]askedRelay, len(c.Relays))
	err = p.withRelays(ctx, c.Relays, func(ctx context.Context, pool *relay.Pool) error {
		var asked sync.WaitGroup
		for i, url := range c.Relays {
			asked.Go(func() { w.Relays[i] = found.ask(ctx, pool, url) })
		}
		asked.Wait()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(w.Relays, func(r askedRelay) bool { return r.Error == "" }) {
		return nil, cli.WithHint(fmt.Errorf("no relay has answered: %s", w.Relays[0].Error), "guild doctor tries your relays")
	}
	if w.Histories, w.Hidden, err = found.compare(proofs); err != nil {
		return nil, err
	}
	w.OK = len(w.Histories) == 0
	result := &cli.Result{JSON: &w, Show: func() error { return p.writeWatched(w, len(found.all)) }}
	if !w.OK {
		return result, cli.Shown(errTwoHistories)
	}
	return result, nil
}

// statements are the checkpoints of a key, and the countersignatures of them, by their events.
type statements struct {
	signer nostr.PubKey

	mu  sync.Mutex
	all map[nostr.ID]*statement
}

// given adds a checkpoint out of a file. It must be by the key.
func (s *statements) given(e nostr.Event, name string) error {
	v, err := guild.Verify(e)
	if err != nil {
		return err
	}
	if e.PubKey != s.signer {
		return fmt.Errorf("checkpoint %.8s is signed by %s, and not by %s", e.ID.Hex(), nip19.EncodeNpub(e.PubKey), nip19.EncodeNpub(s.signer))
	}
	if _, err := seal.ParseCheckpoint(v); err != nil {
		return err
	}
	s.add(v, name)
	return nil
}

// add adds what an event says, if it is a checkpoint by the key or a countersignature of one.
func (s *statements) add(v guild.Verified, from string) {
	e := v.Event()
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.all[e.ID]; known != nil {
		if !slices.Contains(known.From, from) {
			known.From = append(known.From, from)
		}
		return
	}
	var point seal.Checkpoint
	if w, err := seal.ParseWitness(v); err == nil && w.Customer == s.signer {
		point = w.Checkpoint
	} else if point, err = seal.ParseCheckpoint(v); err != nil || e.PubKey != s.signer {
		return
	}
	s.all[e.ID] = &statement{Checkpoint: point, By: e.PubKey, Event: e, From: []string{from}}
}

// ask reads what one relay has. A relay answers with the newest events and may stop at some number, so the older ones are
// asked for until nothing new comes.
func (s *statements) ask(ctx context.Context, pool *relay.Pool, url string) (r askedRelay) {
	const (
		most  = 20_000 // events of a kind: two years of hourly seals
		crowd = 20     // events of one second, so that a relay may not show all of them
	)
	r.URL = url
	checkpoints := nostr.Filter{Kinds: []nostr.Kind{seal.Kind}, Authors: []nostr.PubKey{s.signer}}
	witnesses := nostr.Filter{Kinds: []nostr.Kind{seal.KindWitness}, Tags: nostr.TagMap{"p": {s.signer.Hex()}}}
	for _, filter := range []nostr.Filter{checkpoints, witnesses} {
		seen := map[nostr.ID]bool{}
		for more := true; more; {
			events, err := pool.Query(ctx, []nostr.Filter{filter}, url)
			if err == nil && len(seen) >= most {
				err = fmt.Errorf("over %d events of kind %d: not all were read", most, filter.Kinds[0])
			}
			if err != nil {
				r.Error = err.Error()
				return r
			}
			more = false
			for _, v := range events {
				e := v.Event()
				if !seen[e.ID] {
					seen[e.ID], more = true, true
					r.Count++
				}
				s.add(v, url)
				filter.Until = e.CreatedAt
			}
			other := func(v guild.Verified) bool { return v.Event().CreatedAt != filter.Until }
			if !more && len(events) >= crowd && !slices.ContainsFunc(events, other) {
				r.Error = fmt.Sprintf("%d events of one second: others may hide behind them", len(events))
				return r
			}
		}
	}
	return r
}

// compare returns the pairs of the key's own checkpoints that contradict each other, and the countersignatures of checkpoints
// that are not there. Only what the key has signed itself proves something against it. So a proof that does not hold, which
// anybody can make, is an error and no contradiction.
func (s *statements) compare(proofs []checkpointPair) (two []twoHistories, hidden []statement, err error) {
	sorted := make([]statement, 0, len(s.all))
	for _, one := range s.all {
		sorted = append(sorted, *one)
	}
	slices.SortFunc(sorted, func(a, b statement) int {
		return cmp.Or(cmp.Compare(a.Journal, b.Journal), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Event.CreatedAt, b.Event.CreatedAt),
			cmp.Compare(a.Event.ID.Hex(), b.Event.ID.Hex()))
	})
	two, hidden = []twoHistories{}, []statement{}
	first := map[history]statement{}
	roots := map[seal.Checkpoint]bool{}
	for _, one := range sorted {
		if one.Event.Kind != seal.Kind {
			continue
		}
		of := history{one.Journal, one.Size}
		before, known := first[of]
		switch {
		case !known:
			first[of] = one
		case before.Root != one.Root && !roots[one.Checkpoint]:
			two = append(two, twoHistories{fmt.Sprintf("both are of %d entries, and their roots differ", one.Size), before, one})
		}
		roots[one.Checkpoint] = true
	}
	for _, one := range sorted {
		if one.Event.Kind == seal.KindWitness && !roots[one.Checkpoint] {
			hidden = append(hidden, one)
		}
	}
	for _, g := range proofs {
		a, b := *s.all[g.Earlier.ID], *s.all[g.Later.ID]
		if a.Journal != b.Journal {
			continue
		}
		g.points = [2]seal.Checkpoint{a.Checkpoint, b.Checkpoint}
		if a.Size > b.Size {
			g.points[0], g.points[1] = b.Checkpoint, a.Checkpoint
		}
		if err := g.check(&g.Consistency); err != nil && a.Size != b.Size {
			return nil, nil, cli.WithHint(fmt.Errorf("the proof between %.8s and %.8s does not hold: %w", a.Event.ID.Hex(), b.Event.ID.Hex(), err),
				"a wrong proof accuses nobody: ask the owner for another")
		}
	}
	return two, hidden, nil
}

func (p *program) writeWatched(w lookout, count int) error {
	fmt.Fprintf(p.out, "signer    %s\n", nip19.EncodeNpub(w.Signer))
	for _, r := range w.Relays {
		said := cli.Count(r.Count, "event", "events")
		if r.Error != "" {
			said = "failed: " + r.Error
		}
		fmt.Fprintf(p.out, "relay     %s: %s\n", cli.Clean(r.URL), cli.Clean(said))
	}
	for _, h := range w.Hidden {
		fmt.Fprintf(p.out, "hidden    %s says that it saw %s of journal %s with the root %s, and nobody has that checkpoint\n",
			nip19.EncodeNpub(h.By), cli.Count(int(h.Size), "entry", "entries"), cli.Clean(h.Journal), h.Root)
	}
	for _, two := range w.Histories {
		fmt.Fprintf(p.out, "✗ journal %s: %s\n", cli.Clean(two.First.Journal), cli.Clean(two.Reason))
		for _, one := range []statement{two.First, two.Second} {
			fmt.Fprintf(p.out, "  event   %s, root %s, at %s\n", one.Event.ID.Hex(), one.Root, cli.Clean(fmt.Sprint(one.From)))
		}
	}
	if !w.OK {
		_, err := fmt.Fprintln(p.out, "✗ two histories were signed\nhint: keep the events (--json): they prove it to anybody")
		return err
	}
	if count == 0 {
		_, err := fmt.Fprintln(p.out, "– nothing was published: the owner has to set publish = true under [records]")
		return err
	}
	_, err := fmt.Fprintln(p.out, "✓ no two contradict each other")
	return err
}
