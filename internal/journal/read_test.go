package journal_test

import (
	"testing"

	"guild/internal/journal/journaltest"
)

// The history is read more often than the server allows consumers.
func TestEntriesManyTimes(t *testing.T) {
	const entries, readings = 20, 1_100
	j := journaltest.Open(t, newJobs())
	decide(t, j, entries)
	for i := range readings {
		read := 0
		for _, err := range j.Entries(t.Context(), 1) {
			if err != nil {
				t.Fatalf("reading %d: %v", i, err)
			}
			read++
			if i%2 == 0 && read == entries/2 {
				break // a reader that leaves early leaves nothing behind either
			}
		}
	}
}
