package node

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"guild/internal/hand/relay"
)

// jump is the difference between the wall clock and the elapsed time from which the node assumes that the machine
// slept. Events of the meantime have then still to arrive.
const jump = 30 * time.Second

// connectivity tracks since when events of others can reach this node: since a relay of ours is connected and the
// machine is awake.
//
// A time limit for a provider must not include a time in which its answer could not arrive. So the steps count a
// provider's silence from here, not from the moment of the request.
type connectivity struct {
	pool *relay.Pool
	urls []string
	now  func() time.Time
	wake func() // called when something changed

	mu    sync.Mutex
	start time.Time // zero while no relay is connected
	last  time.Time // of the last update
}

// normalized returns the valid URLs in the form that the pool uses.
func normalized(urls []string) []string {
	var clean []string
	for _, raw := range urls {
		if url, err := relay.Normalize(raw); err == nil {
			clean = append(clean, url)
		}
	}
	return clean
}

// offline reports whether none of our relays is connected.
func (c *connectivity) offline() bool {
	return !slices.ContainsFunc(c.pool.Status(), func(r relay.Status) bool { return r.Connected && slices.Contains(c.urls, r.URL) })
}

// unconnected returns the latest error of each of our relays that is not connected, by URL; "" for one that has none yet.
func (c *connectivity) unconnected() map[string]string {
	errs := map[string]string{}
	for _, url := range c.urls {
		errs[url] = ""
	}
	for _, r := range c.pool.Status() {
		_, ours := errs[r.URL]
		switch {
		case ours && r.Connected:
			delete(errs, r.URL)
		case ours:
			errs[r.URL] = r.LastError
		}
	}
	return errs
}

// noAnswer is the reason of a relay that is not connected and has no error yet.
const noAnswer = "it has not answered yet"

// whyOffline returns why none of our relays is connected, or "" if one is.
func (c *connectivity) whyOffline() string {
	if !c.offline() {
		return ""
	}
	var parts []string
	errs := c.unconnected()
	for _, url := range slices.Sorted(maps.Keys(errs)) {
		parts = append(parts, url+": "+cmp.Or(errs[url], noAnswer))
	}
	return "no relay is connected, and is tried again: " + strings.Join(parts, "; ")
}

// connectTime limits how long a start waits for the relays to connect.
const connectTime = 2 * time.Second

// warnUnconnected logs each of our relays that is not connected, once each has connected or failed, or after connectTime.
func (c *connectivity) warnUnconnected(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	errs := c.unconnected()
	for slices.Contains(slices.Collect(maps.Values(errs)), "") && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		errs = c.unconnected()
	}
	for _, url := range slices.Sorted(maps.Keys(errs)) {
		log.Warn("a relay cannot be reached, and is tried again", "relay", url, "err", cmp.Or(errs[url], noAnswer))
	}
}

// since returns the time since which events of others can reach us, or zero if they cannot now. It checks the clock
// itself, because its caller may run after a sleep of the machine but before the next update.
func (c *connectivity) since() time.Time {
	now := c.now().Round(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slept(now) && !c.start.IsZero() {
		c.start = now
	}
	return c.start
}

// slept reports whether the wall clock has jumped since the last update. The caller must hold c.mu.
func (c *connectivity) slept(now time.Time) bool { return !c.last.IsZero() && now.Sub(c.last) > jump }

// run updates the state every second until ctx ends. It uses the wall clock, because the monotonic clock stops while a
// machine sleeps.
func (c *connectivity) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		c.update(c.now().Round(0), c.offline())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// update records whether a relay is connected. A new start is noted after a connection, a sleep of the machine, or a
// clock that was set back; then the runner is woken, because waits that depended on it change.
func (c *connectivity) update(now time.Time, offline bool) {
	c.mu.Lock()
	before := c.start
	switch {
	case offline:
		c.start = time.Time{}
	case c.start.IsZero() || c.slept(now) || now.Before(c.start):
		c.start = now
	}
	c.last = now
	changed := c.start != before
	c.mu.Unlock()
	if changed {
		c.wake()
	}
}
