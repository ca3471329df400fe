package node

import (
	"testing"
	"testing/synctest"
	"time"
)

// What others write changes the agents' subscription at most once a minute.
func TestAgentsFiltersChangeSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, never := make(chan struct{}), make(chan struct{})
		close(closed)
		for _, c := range []struct {
			name           string
			changed, heard chan struct{}
			want           time.Duration
		}{
			{"by the owner", closed, never, 0},
			{"by others", never, closed, time.Minute},
			{"by none", never, never, 5 * time.Minute},
		} {
			began := time.Now()
			if err := untilChanged(t.Context(), c.changed, c.heard); err != nil || time.Since(began) != c.want {
				t.Errorf("%s: after %s, %v", c.name, time.Since(began), err)
			}
		}
	})
}
