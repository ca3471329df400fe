package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"fiatjaf.com/nostr"

	"guild/internal/hand/blob"
	"guild/internal/hand/key"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/step/trust/variables"
	"guild/internal/step/work"
)

// Try has a worker do a packed bundle as a node with this configuration would have it do a request, and returns the result of
// work.Try. It needs no identity, journal, relay or network, announces nothing, and may run beside a node of the same directory.
// say gets each line that a customer would read. The error says why nothing is delivered.
func Try(ctx context.Context, c Config, w Worker, bundle []byte, say func(line string)) (trial work.Trial, err error) {
	n := &Node{c: c.withDefaults()}
	n.c.Log = slog.New(slog.DiscardHandler) // the caller gets the errors
	dir, err := os.MkdirTemp("", "guild-try-")
	if err != nil {
		return trial, err
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	blobs, err := blob.Open(dir)
	if err != nil {
		return trial, err
	}
	n.runnerBox, n.caps, n.unboxed = tiers.Pick(ctx, n.c.Judging.Tier)
	if warm, ok := n.runnerBox.(io.Closer); ok {
		defer warm.Close()
	}
	if err := n.openImages(ctx); err != nil {
		return trial, err
	}
	n.images.Scratch = dir
	n.folds.variables = variables.NewFold(n.c.Policy)
	n.c.Workers = []Worker{w}
	services, err := n.services(ctx)
	if err != nil {
		return trial, err
	}
	secret := key.NewSecret(nostr.Generate()) // a new one, because nothing that it signs leaves this process
	return work.Try(ctx, work.Config{
		Blobs: blobs, Keyer: key.NewSigner(secret), PubKey: secret.PubKey(), Node: "guild", Producer: "guild@" + n.c.Version,
		Now: n.c.Now, Scratch: dir, Log: n.c.Log,
	}, services[0], bundle, say)
}
