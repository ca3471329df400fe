package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// How a request can end.
const (
	delivered = "delivered"
	refused   = "refused"
	failed    = "failed"
	unpaid    = "unpaid" // its price did not come, so that it was never begun
)

// doing is the key of the effect that works on a request.
func doing(request nostr.ID) string { return "work on " + request.Hex() }

// Due lists the answers to publish and the requests to work on. The requests to a service are in the order in which its
// customers take turns. Due implements due.Source.
func (w *Work) Due(now time.Time) []due.Work {
	var all []due.Work
	pending, services := w.fold.pending(), map[string][]request{}
	for _, r := range pending {
		switch {
		case r.Finished != nil:
			all = append(all, w.publications(r)...)
		case r.Parked != "":
			all = append(all, w.giveUp(r, r.Parked))
		case r.repeats():
			all = append(all, w.again(r)...)
		default:
			services[r.Service] = append(services[r.Service], r)
		}
	}
	all = append(all, w.objections()...)
	w.forgetServed(pending)
	here := w.activity()
	for _, d := range slices.Sorted(maps.Keys(services)) {
		for _, t := range inTurn(services[d], here) {
			all = append(all, w.toDo(t, now)...)
		}
	}
	return all
}

// toDo lists what is due for a request that has not ended.
func (w *Work) toDo(t turn, now time.Time) []due.Work {
	s, offered := w.services[t.Service]
	switch {
	case t.running:
		return []due.Work{w.work(s, t.request)}
	case w.awaitsMoney(t.request):
		return w.quote(s, t.request)
	case !offered:
		return []due.Work{w.giveUp(t.request, "the task is no longer offered here")}
	case w.Draining():
		return nil
	case !now.Before(time.UnixMilli(t.Received.Deadline)), w.state(t.Service) == Paused:
		return []due.Work{w.late(t.request)}
	}
	return []due.Work{w.work(s, t.request), w.late(t.request)}
}

// giveUp ends a request with an error that says why.
func (w *Work) giveUp(r request, reason string) due.Work {
	return due.Work{
		Key: "give up " + r.ID.Hex(), Guard: fact.RequestSubject(r.ID), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) { return w.fail(ctx, r, reason, reason) },
	}
}

// late gives a request up when its deadline has passed, whatever it waits for.
func (w *Work) late(r request) due.Work {
	late := w.giveUp(r, "its deadline passed before its turn came")
	late.Ready = time.UnixMilli(r.Received.Deadline)
	return late
}

// work has the request done. A worker that takes the whole node down three times is not started again.
func (w *Work) work(s Service, r request) due.Work {
	return due.Work{
		Key: doing(r.ID), Guard: fact.RequestSubject(r.ID), Class: class(s.D), Tries: 3, Deaths: 3,
		Lease: s.Limit + time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			finished, err := w.finish(ctx, s, *r.Received)
			if err != nil {
				w.over(r)
				return nil, err
			}
			record := w.record(finished)
			return func(tx *journal.Tx) error {
				w.over(r) // now, so that Drain cannot end the request before this decision does
				return record(tx)
			}, nil
		},
	}
}

// finish does the work and signs the answer. An error means that the node failed, not the worker. The request counts as
// running from here until the decision on it.
func (w *Work) finish(ctx context.Context, s Service, r fact.RequestReceived) (fact.RequestFinished, error) {
	ctx, stop := context.WithDeadline(ctx, time.UnixMilli(r.Deadline))
	defer stop()
	w.begin(r, stop)
	if w.withdrawn(r.Request) {
		stop() // it was withdrawn before there was a run to stop
	}

	finished := fact.RequestFinished{Request: r.Request, Ending: refused}
	if s.Price > 0 && !w.wantsMoney(s) && (w.c.Money == nil || !w.c.Money.Funded(r.Request)) {
		finished.Reason = "payment required"
		return w.end(context.WithoutCancel(ctx), finished, answer{to: r, feedback: s.priced("")})
	}
	d, bundle, err := w.deliver(ctx, s, r)
	finished.Bundle, finished.Agent = bundle, d.agent
	switch {
	case err == nil:
	case w.withdrawn(r.Request):
		return finished, nil // nobody waits for an answer
	case errors.Is(ctx.Err(), context.Canceled):
		return finished, fmt.Errorf("stopped: %w", ctx.Err())
	}
	cause := err
	if cause != nil { // packing may have failed after the session ended as a success
		d.session = w.endSession(ctx, d.recording, r.Job, cause)
	}
	var trajectory, receipt guild.Hash
	var keeping sync.WaitGroup
	keeping.Go(func() { trajectory, receipt = w.keepSession(context.WithoutCancel(ctx), d.session, r.Job) })
	if cause == nil {
		finished, err = w.succeed(ctx, r, finished, d)
	} else {
		text := guild.Cut(cause.Error(), maxText)
		finished.Ending, finished.Reason = failed, text
		if failure, ok := errors.AsType[*FailedError](cause); ok {
			w.c.Log.Warn("a worker failed", "service", r.Service, "job", r.Job, "err", failure, "stderr", failure.Stderr)
		}
		if leak, ok := errors.AsType[*leakError](cause); ok {
			text = leak.told()
			w.c.Log.Warn("a delivery was stopped: it holds a secret", "service", r.Service, "request", r.Request.Hex(), "err", leak)
		}
		finished, err = w.end(context.WithoutCancel(ctx), finished, failure(r, text))
	}
	keeping.Wait()
	finished.Replay, finished.Session, finished.Tokens = trajectory, receipt, d.session.tokens
	return finished, err
}

// withdrawn reports whether the customer has withdrawn a request.
func (w *Work) withdrawn(request nostr.ID) bool {
	r, ok := w.fold.request(request)
	return ok && r.Withdrew
}

// begin notes that a worker is on a request.
func (w *Work) begin(r fact.RequestReceived, stop context.CancelFunc) {
	w.notify(Working, r, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[r.Request] = run{since: w.c.Now(), stop: stop}
}

// over notes that no worker is on a request any more, and that its customer has had its turn.
func (w *Work) over(r request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, r.ID)
	w.served[visitor{r.Customer, r.Service}] = w.c.Now().UnixMilli()
}
