package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"guild/internal/control"
	"guild/internal/hand/blob"
	"guild/internal/hand/key"
)

// Inspect opens the data of a stopped node for reading: it connects to no relay and performs no effects. The client
// answers every request that needs no running node. close unlocks the directory.
func Inspect(ctx context.Context, c Config) (client *control.Client, close func() error, err error) {
	return inspect(ctx, c, true)
}

// InspectJournal does the same as Inspect, but does not load data that others published.
func InspectJournal(ctx context.Context, c Config) (client *control.Client, close func() error, err error) {
	return inspect(ctx, c, false)
}

func inspect(ctx context.Context, c Config, seen bool) (client *control.Client, close func() error, err error) {
	n := &Node{c: c.withDefaults()}
	if err := n.openStopped(ctx, seen); err != nil {
		return nil, nil, errors.Join(err, n.close())
	}
	client, hangUp := control.InProcess(ctx, n.control)
	return client, func() error {
		hangUp()
		return n.close()
	}, nil
}

// openStopped opens the parts for reading. It passes no function to renew damaged streams: an inspection must not
// change the data.
func (n *Node) openStopped(ctx context.Context, seen bool) (err error) {
	if err := n.openJournal(ctx, nil); err != nil {
		return err
	}
	if n.pubkey, err = key.Owner(n.c.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n.c.Identity.PubKey = n.pubkey // the files of Nook name the node by it
	if n.blobs, err = blob.Open(filepath.Join(n.c.Dir, "blob")); err != nil {
		return fmt.Errorf("open the blobs: %w", err)
	}
	for _, p := range n.parts {
		if p.inspect == nil {
			continue
		}
		if err := p.inspect(ctx, seen); err != nil {
			return err
		}
	}
	n.openControl()
	return nil
}
