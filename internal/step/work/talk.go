package work

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild/nip90"
)

// How often a customer is told something of a request that has not ended.
const (
	// pause is the least time between two partial results of one request.
	pause = 500 * time.Millisecond
	// heartbeat is the longest time without a message. A customer (jobs.Patience) waits at least 60 s longer after each
	// message, and of many messages it counts one in 30 s: less would be lost, more would be too late.
	heartbeat = 35 * time.Second
	// retry is the delay after a message that no relay took.
	retry = 10 * time.Second
)

// talk publishes the answers that are not recorded (see tell), and heartbeats for requests that wait or are worked on. A
// customer that hears nothing for too long gives the job to somebody else.
//
// It is one loop, so that its maps need no lock. A worker may print faster than relays take events, so of the lines
// within a pause only the last one is published. Heartbeats that are due at the same time are published together, since
// one relay that is slow must not delay the heartbeats of all requests.
type talk struct {
	*Work
	last map[nostr.ID]time.Time // of the last message
	held map[nostr.ID]answer    // the last line within a pause
	next map[nostr.ID]time.Time // heartbeat

	reasons map[nostr.ID]string // why requests wait, as it was shown last
}

// Talk publishes what customers are told of their requests before these end, until ctx ends.
func (w *Work) Talk(ctx context.Context) error {
	t := talk{Work: w, last: map[nostr.ID]time.Time{}, held: map[nostr.ID]answer{}, next: map[nostr.ID]time.Time{}}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	w.warnUnpayable()
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-w.queue:
			id := a.to.Request
			if a.feedback.Status == nip90.Partial && w.c.Now().Sub(t.last[id]) < pause {
				t.held[id] = a
				continue
			}
			delete(t.held, id)
			t.send(ctx, a)
		case <-tick.C:
			t.flush(ctx)
			t.beat(ctx)
			t.showWaiting()
		}
	}
}

// flush publishes the lines that were held back, of requests that have not ended, and forgets old times.
func (t *talk) flush(ctx context.Context) {
	now := t.c.Now()
	for id, a := range t.held {
		if now.Sub(t.last[id]) < pause {
			continue
		}
		delete(t.held, id)
		if r, ok := t.fold.request(id); ok && r.Ending == "" && !r.Withdrew {
			t.send(ctx, a)
		}
	}
	for id, at := range t.last {
		if now.Sub(at) > time.Minute {
			delete(t.last, id)
		}
	}
}

// beat publishes the heartbeats that are due.
func (t *talk) beat(ctx context.Context) {
	now, next := t.c.Now(), map[nostr.ID]time.Time{}
	var late []answer
	for _, r := range t.fold.pending() {
		text := t.progress(r, now)
		if text == "" {
			continue
		}
		at, known := t.next[r.ID]
		if !known {
			at = time.UnixMilli(r.At).Add(heartbeat)
		}
		next[r.ID] = at
		if !now.Before(at) {
			late = append(late, answer{to: *r.Received, feedback: nip90.Feedback{Status: nip90.Processing, Text: text}})
		}
	}
	t.next = next // requests that ended are left out
	t.send(ctx, late...)
}

// progress returns the text of a heartbeat, or "" if the request is not going to be worked on now.
func (w *Work) progress(r request, now time.Time) string {
	if r.Finished != nil || r.Parked != "" || !now.Before(time.UnixMilli(r.Received.Deadline)) {
		return ""
	}
	worked := r.ID
	if r.repeats() {
		worked = r.Received.Repeats // its answer is the answer to this one too
	}
	w.mu.Lock()
	run, runs := w.running[worked]
	w.mu.Unlock()
	switch {
	case runs:
		return "working for " + minutes(now.Sub(run.since))
	case w.Draining() || w.state(r.Service) == Paused:
		return ""
	case w.awaitsMoney(r):
		return "waiting for its payment for " + minutes(now.Sub(time.UnixMilli(r.At)))
	}
	return "waiting for its turn for " + minutes(now.Sub(time.UnixMilli(r.At)))
}

// minutes writes a time in words.
func minutes(d time.Duration) string {
	switch n := int(d / time.Minute); n {
	case 0:
		return "less than a minute"
	case 1:
		return "1 minute"
	default:
		return fmt.Sprintf("%d minutes", n)
	}
}

// send publishes answers at the same time, each at one relay: the one that its request came from.
func (t *talk) send(ctx context.Context, all ...answer) {
	for _, a := range all {
		if a.feedback.Status == nip90.Partial && a.result == nil {
			t.notify(Said, a.to, a.feedback.Content)
		}
	}
	errs := make([]error, len(all))
	var sending sync.WaitGroup
	for i, a := range all {
		sending.Go(func() {
			e, err := t.sign(ctx, a)
			if err == nil {
				err = t.publish(ctx, e, []string{a.to.From}, 5*time.Second)
			}
			errs[i] = err
		})
	}
	sending.Wait()
	now := t.c.Now()
	for i, a := range all {
		id := a.to.Request
		t.last[id], t.next[id] = now, now.Add(heartbeat)
		if errs[i] != nil {
			t.next[id] = now.Add(retry)
		}
		if errs[i] != nil && ctx.Err() == nil {
			t.c.Log.Debug("feedback was not published", "request", id.Hex(), "err", errs[i])
		}
	}
}
