package partner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
)

// Order is a person's order about a provider.
type Order string

// The orders. Only a violation overrides suspend and force.
const (
	Suspend   Order = "suspend"   // it gets no work until another order
	Reinstate Order = "reinstate" // it is benchmarked again, and the rules apply from then on
	Force     Order = "force"     // it gets work at once
	Remove    Order = "remove"    // its key gets no more work, with any service
	Allow     Order = "allow"     // a removed key counts as new
)

// The errors of orders.
var (
	ErrOrder    = errors.New("unknown order: the orders are suspend, reinstate, force, remove and allow")
	ErrNobody   = errors.New("no such service")
	ErrRemoved  = errors.New("the key is removed: allow it first")
	ErrArchived = errors.New("not heard of for too long to be benchmarked")
)

// Set carries out a person's order about the service d of a key, or about all known services of the key if d is nil.
// Remove and Allow always apply to the whole key. Set returns the services that the order applies to. Errors match
// ErrOrder, ErrNobody, ErrRemoved or ErrArchived, or are those of the journal.
func (p *Partners) Set(ctx context.Context, key nostr.PubKey, d *string, o Order, reason string) ([]guild.Service, error) {
	if !slices.Contains([]Order{Suspend, Reinstate, Force, Remove, Allow}, o) {
		return nil, fmt.Errorf("order %.20q: %w", o, ErrOrder)
	}
	services := p.of(key, d, o)
	if len(services) == 0 {
		return nil, fmt.Errorf("%.8s: %w", key.Hex(), ErrNobody)
	}
	err := p.c.Journal.Do(ctx, fact.ProviderSubject(key), "", func(tx *journal.Tx) error {
		for _, s := range services {
			m, wanted, err := p.fold.order(s, o, reason)
			if err != nil {
				return err
			}
			if wanted {
				tx.Append(m)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s %.8s: %w", o, key.Hex(), err)
	}
	return services, nil
}

// of lists the services of a key to which an order applies.
func (p *Partners) of(key nostr.PubKey, d *string, o Order) []guild.Service {
	known := map[guild.Service]bool{}
	for _, s := range p.c.Services(key) {
		known[s] = true
	}
	p.fold.View(func(st *state) {
		for _, i := range st.keys[key] {
			known[st.Services.Of(i).Service] = true
		}
	})
	var all []guild.Service
	for s := range known {
		if d == nil || o == Remove || o == Allow || s.D == *d {
			all = append(all, s)
		}
	}
	if len(all) == 0 && (o == Remove || o == Allow) {
		all = append(all, guild.Service{PubKey: key}) // an unknown key can be removed, too
	}
	slices.SortFunc(all, func(a, b guild.Service) int { return slices.Compare([]byte(a.D), []byte(b.D)) })
	return all
}

// order returns the decision that carries out an order for one service. wanted is false if it changes nothing.
func (f *Fold) order(s guild.Service, o Order, reason string) (m fact.ProviderMoved, wanted bool, err error) {
	var r record
	var blocked bool
	f.View(func(st *state) { r, blocked = st.Services.Of(registry.IDOf(s)), st.blocked(s.PubKey) })
	from := r.state()
	m = fact.ProviderMoved{Service: s, From: from, Cause: guild.Cut(reason, maxCause), Signal: fact.SignalOwner, Policy: f.hash}
	if m.Cause == "" {
		m.Cause = string(o)
	}
	switch o {
	case Remove:
		m.To = guild.Removed
		return m, from != guild.Removed, nil
	case Allow:
		m.From, m.To = guild.Removed, guild.Seen
		return m, blocked, nil
	}
	if blocked {
		return m, false, ErrRemoved
	}
	switch o {
	case Suspend:
		m.To = guild.Suspended
		return m, from != m.To || !r.Owner, nil
	case Force:
		if from == guild.Archived {
			return m, false, ErrArchived
		}
		m.To = guild.Active
		return m, from != m.To || !r.Owner, nil
	}
	m.Signal = fact.SignalReleased
	switch {
	case from == guild.Archived:
		return m, false, ErrArchived
	case from.CanBecome(guild.Benchmarking):
		m.To = guild.Benchmarking
		return m, true, nil
	}
	m.To = from // it works or is being benchmarked: only the hold by a person ends
	return m, r.Owner, nil
}
