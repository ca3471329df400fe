package node

import (
	"path/filepath"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/hand/relay"
	"guild/internal/journal"
	"guild/internal/market/scout"
)

// watermarksIn is the file in a data directory that remembers how far each relay was read.
func watermarksIn(dir string) string { return filepath.Join(dir, "watermarks.json") }

// readAgain returns a function for journal.Options.Renew. When a damaged stream of events seen at relays is begun anew, it
// has them read again: reviews from the start, announcements as far back as they are not stale. Events to us are not in
// that stream.
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
