package node

import (
	"path/filepath"

	"guild/internal/scout"
)

func (n *Node) openScout() (err error) {
	n.scout, err = scout.Open(scout.Config{
		Pool: n.pool, Now: n.c.Now, File: filepath.Join(n.c.Dir, "relays.json"), Ours: n.urls, Log: n.c.Log,
		Known: func() []string { return nil },
	})
	return err
}
