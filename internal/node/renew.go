package node

import (
	"path/filepath"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/hand/relay"
	"guild/internal/journal"
	"guild/internal/market/scout"
)

// watermarksIn returns the path of the file in a data directory that stores how far each relay was read.
func watermarksIn(dir string) string { return filepath.Join(dir, "watermarks.json") }

// readAgain returns a function for journal.Options.Renew. When a damaged stream of seen events is replaced by an empty
// one, it rewinds the watermarks so that these events are read again: all reviews, and announcements that are not
// stale. Events addressed to us are not in that stream.
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
