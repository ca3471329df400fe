package node

import (
	"context"
	"iter"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	routing "guild/internal/market/route"
)

// hiringMarket implements jobs.Market.
type hiringMarket struct{ *Node }

func (m hiringMarket) Offers(task string, kind int) iter.Seq[guild.Offer] {
	return m.registry.Offers(task, kind)
}

func (m hiringMarket) OffersOf(p nostr.PubKey, task string, kind int) []guild.Offer {
	return m.registry.OffersOf(p, task, kind)
}

func (m hiringMarket) Provider(s guild.Service) guild.Provider { return m.folds.partners.Provider(s) }

func (m hiringMarket) Measured(s guild.Service, now time.Time) routing.Measured {
	return m.folds.observed.Routing(s, now)
}

// hiringNetwork implements jobs.Network.
type hiringNetwork struct{ *Node }

func (n hiringNetwork) Publish(ctx context.Context, e guild.Verified, relays []string) error {
	return n.publish(ctx, e, relays)
}

func (n hiringNetwork) Relays() []string { return n.relays() }

func (n hiringNetwork) Rank(relays []string) []string { return n.pool.Rank(relays) }

func (n hiringNetwork) Look(ctx context.Context, provider nostr.PubKey, request nostr.ID, kind nostr.Kind, relays []string) ([]guild.Verified, error) {
	return n.find(ctx, nostr.Filter{
		Kinds: []nostr.Kind{kind}, Authors: []nostr.PubKey{provider}, Tags: nostr.TagMap{"e": {request.Hex()}}, Limit: 100,
	}, relays)
}

func (n hiringNetwork) Hears() time.Time { return n.connectivity.since() }
