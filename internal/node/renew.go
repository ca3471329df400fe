package node

import (
	"path/filepath"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal"
	"guild/internal/relay"
	"guild/internal/scout"
)

// watermarksIn is the file in a data directory that remembers how far each relay was read.
func watermarksIn(dir string) string { return filepath.Join(dir, "watermarks.json") }

// readAgain returns what a journal calls before it begins a damaged stream anew: announcements and reviews are read at
// the relays again, the former as far back as they do not count as stale. What is addressed to us is not affected.
func readAgain(c Config) func(stream string) error {
	c = c.withDefaults()
	return func(stream string) error {
		if stream != journal.SeenStream {
			return nil
		}
		marks, err := relay.OpenWatermarks(watermarksIn(c.Dir))
		if err != nil {
			return err
		}
		fresh := c.Now().Add(-time.Duration(c.Policy.Lifecycle.Stale) * time.Millisecond)
		marks.Rewind(scout.Reads, nostr.Timestamp(fresh.Unix()))
		marks.Rewind(func(sub string) bool { return sub == reviewsName }, 0)
		return marks.Close()
	}
}
