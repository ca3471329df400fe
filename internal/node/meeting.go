package node

import (
	"context"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/jobs"
	"guild/internal/meet"
)

// Meeting says how this node gets to know providers.
type Meeting struct {
	Auto    bool          // candidates are met without being asked to
	Daily   guild.Msat    // most that a day's automatic meetings may bid; 100,000 if zero
	Count   int           // how many may begin on a day; 20 if zero
	AtOnce  int           // under way at the same time; 2 if zero
	Timeout time.Duration // for one run; 10 minutes if zero
}

func (n *Node) openMeeting() {
	n.meet = meet.New(meet.Config{
		Journal: n.journal, Node: n.name(), Now: n.c.Now, Offers: n.registry.Offers, Kind: n.kind, Run: n.benchmark,
		Auto: n.c.Meeting.Auto, Daily: n.c.Meeting.Daily, Count: n.c.Meeting.Count, AtOnce: n.c.Meeting.AtOnce,
	}, n.folds.meet)
}

// benchmark opens the job of one run.
func (n *Node) benchmark(ctx context.Context, r meet.Run) error {
	_, err := n.jobs.Open(ctx, jobs.Order{
		ID: r.Job, Task: r.Task, Kind: r.Kind, Title: r.Title, Bundle: r.Bundle, Hidden: r.Hidden, Bid: r.Bid, Tries: 1,
		Providers: []nostr.PubKey{r.Service.PubKey}, Meeting: &r.Meeting, Timeout: n.c.Meeting.Timeout,
	})
	return err
}
