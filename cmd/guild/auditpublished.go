package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/hand/relay"
	"guild/seal"
)

const publishedWait = 20 * time.Second // for all relays together

// publishedSeals returns signer's checkpoints, of any journal, that the configured relays have.
func (p *program) publishedSeals(ctx context.Context, c config.Config, signer nostr.PubKey) ([]nostr.Event, error) {
	if len(c.Relays) == 0 {
		return nil, cli.WithHint(errors.New("no relays are set at which seals could be"), "name some: GUILD_RELAYS=wss://… or relays in config.toml")
	}
	if signer == nostr.ZeroPK {
		return nil, cli.WithHint(errors.New("cannot tell who sealed this journal"), "name the key: --signer npub1…")
	}
	var found []guild.Verified
	err := p.withRelays(ctx, c.Relays, func(ctx context.Context, pool *relay.Pool) (err error) {
		found, err = pool.Query(ctx, []nostr.Filter{{Kinds: []nostr.Kind{seal.Kind}, Authors: []nostr.PubKey{signer}}})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("published seals: %w", err)
	}
	if len(found) == 0 {
		return nil, cli.WithHint(errors.New("the relays have no seal of this key"), "guild publishes them with publish = true under [records] in config.toml")
	}
	var events []nostr.Event
	for _, v := range found {
		events = append(events, v.Event())
	}
	return events, nil
}

// withRelays calls use with connections to relays, for publishedWait at most.
func (p *program) withRelays(ctx context.Context, urls []string, use func(context.Context, *relay.Pool) error) error {
	ctx, cancel := context.WithTimeout(ctx, publishedWait)
	defer cancel()
	pool := relay.New(relay.Config{
		URLs: urls, Now: p.now, Log: slog.New(slog.DiscardHandler),
		Receive: func(context.Context, string, guild.Verified) {},
	})
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }()
	err := use(ctx, pool)
	cancel()
	<-ended
	return err
}
