package work

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// told is feedback on its way to a customer. It is not kept: what counts is the result.
type told struct {
	request fact.RequestReceived
	say     nip90.Feedback
}

// say tells the customer how it goes. When the relay is slower than the worker, lines are left out.
func (w *Work) say(r fact.RequestReceived, s nip90.Status, line string) {
	w.tellLater(told{r, nip90.Feedback{Status: s, Content: guild.Cut(line, 2000)}})
}

func (w *Work) tellLater(t told) {
	select {
	case w.talk <- t:
	default:
	}
}

const (
	// pause is the least time between two partial feedback events on one request.
	pause = 500 * time.Millisecond
	// silence is how long a customer hears nothing of a request that is not finished. A word need not be worth more than
	// 60 s of a customer's patience, and of many words one in 30 s is heard (jobs.Patience.Extend and slowly).
	silence = 35 * time.Second
	// retell is how soon it is tried again when no relay took that.
	retell = 10 * time.Second
)

// talk is the feedback of all requests.
type talk struct {
	*Work
	last  map[nostr.ID]time.Time // when something was told
	held  map[nostr.ID]told      // the last line that was printed within a pause
	quiet map[nostr.ID]time.Time // until when nothing need be told
}

// Talk publishes feedback until ctx ends. Of the lines that a worker prints within a pause, the last is told. Where there
// are none, it tells the customer that its request is worked on, or waits for its turn.
func (w *Work) Talk(ctx context.Context) error {
	t := talk{Work: w, last: map[nostr.ID]time.Time{}, held: map[nostr.ID]told{}, quiet: map[nostr.ID]time.Time{}}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case one := <-w.talk:
			id := one.request.Request
			if one.say.Status == nip90.Partial && w.c.Now().Sub(t.last[id]) < pause {
				t.held[id] = one
				continue
			}
			delete(t.held, id)
			t.tell(ctx, one)
		case <-tick.C:
			t.flush(ctx)
			t.reassure(ctx)
		}
	}
}

// flush tells what was held back and still interests somebody, and forgets who was told long ago.
func (t *talk) flush(ctx context.Context) {
	now := t.c.Now()
	for id, one := range t.held {
		if now.Sub(t.last[id]) < pause {
			continue
		}
		delete(t.held, id)
		if r, ok := t.fold.request(id); ok && r.Ending == "" && !r.Withdrew {
			t.tell(ctx, one)
		}
	}
	for id, at := range t.last {
		if now.Sub(at) > time.Minute {
			delete(t.last, id)
		}
	}
}

// reassure tells those customers who have heard nothing for a while what becomes of their requests. They would take
// them elsewhere otherwise.
func (t *talk) reassure(ctx context.Context) {
	now, quiet := t.c.Now(), map[nostr.ID]time.Time{}
	var late []told
	for _, r := range t.fold.pending() {
		text := t.progress(r, now)
		if text == "" {
			continue
		}
		until, known := t.quiet[r.ID]
		quiet[r.ID] = until
		if !known {
			quiet[r.ID] = time.UnixMilli(r.At).Add(silence)
		}
		if !now.Before(quiet[r.ID]) {
			late = append(late, told{*r.Received, nip90.Feedback{Status: nip90.Processing, Text: text}})
		}
	}
	t.quiet = quiet // without those that are finished
	t.tell(ctx, late...)
}

// progress returns the text of a heartbeat, or "" if the request is not going to be worked on now.
func (w *Work) progress(r request, now time.Time) string {
	if r.Finished != nil || r.Parked != "" || !now.Before(time.UnixMilli(r.Received.Deadline)) {
		return ""
	}
	worked := r.ID
	if r.repeats() {
		worked = r.Received.Repeats // and its answer is this one's, too
	}
	w.mu.Lock()
	run, runs := w.running[worked]
	w.mu.Unlock()
	switch {
	case runs:
		return "working for " + minutes(now.Sub(run.since))
	case w.Draining() || w.state(r.Service) == Paused:
		return ""
	}
	return "waiting for its turn for " + minutes(now.Sub(time.UnixMilli(r.At)))
}

// minutes is a time in words.
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

// tell publishes feedback, all of it at once: a slow relay must not hold up what others take.
func (t *talk) tell(ctx context.Context, all ...told) {
	errs := make([]error, len(all))
	var telling sync.WaitGroup
	for i, one := range all {
		telling.Go(func() { errs[i] = t.publish(ctx, one) })
	}
	telling.Wait()
	now := t.c.Now()
	for i, one := range all {
		id := one.request.Request
		t.last[id], t.quiet[id] = now, now.Add(silence)
		if errs[i] != nil {
			t.quiet[id] = now.Add(retell)
		}
		if errs[i] != nil && ctx.Err() == nil {
			t.c.Log.Debug("feedback was not published", "request", id.Hex(), "err", errs[i])
		}
	}
}

func (w *Work) publish(ctx context.Context, t told) error {
	e, err := w.feedback(ctx, t.request, t.say)
	if err != nil {
		return err
	}
	v, err := w.outbox.Own(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return w.c.Publish(ctx, v, []string{t.request.From}) // one relay: a slow one must not hold up the others' feedback
}
