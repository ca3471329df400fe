package node

import (
	"path/filepath"

	"fiatjaf.com/nostr"

	"guild/internal/scout"
)

func (n *Node) openScout() (err error) {
	const relays, people = 1000, 500 // that are looked at for newcomers; the scout takes fewer
	n.scout, err = scout.Open(scout.Config{
		Pool: n.pool, Receive: n.receive, Now: n.c.Now, File: filepath.Join(n.c.Dir, "relays.json"), Ours: n.urls, Log: n.c.Log,
		Known:  func() []string { return n.registry.RelaysNamed(relays) },
		People: func() (followed, providers []nostr.PubKey) { return n.c.Follow, n.folds.registry.Dealt(people) },
	})
	return err
}
