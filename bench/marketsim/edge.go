package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
	"guild/nip90"
)

// praise returns a colluding provider's recommendation of all colluding providers.
func (n *node) praise() nip89.Recommendation {
	r := nip89.Recommendation{Handles: fmt.Sprint(kind)}
	for _, p := range n.providers {
		if p.character == colluding {
			r.Handlers = append(r.Handlers, nip89.Recommended{PubKey: p.pubkey, D: p.service().D, Relay: relay})
		}
	}
	return r
}

// publish replaces the relays. It accepts every event and delivers a request to its provider exactly once.
func (n *node) publish(_ context.Context, v guild.Verified, _ []string) error {
	e := v.Event()
	if !nip90.IsRequest(int(e.Kind)) {
		return nil
	}
	r, err := nip90.ParseRequest(e, nil)
	if err == nil && r.Provider == nil {
		err = errors.New("it is for nobody")
	}
	if err != nil {
		return n.failed(err)
	}
	job, err := guild.ParseJobID(r.Job)
	if err != nil {
		return n.failed(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, now := n.by[*r.Provider], n.now()
	if _, again := n.requests[e.ID]; again {
		return nil
	}
	o := n.arrives(p, job, r.Bid, now)
	n.requests[e.ID] = request{provider: p, outcome: o, job: job, at: now}
	n.going.Go(func() { n.answer(p, e.ID, o) })
	return nil
}

// arrives draws the outcome of a request and counts it. The caller holds the lock.
func (n *node) arrives(p *provider, job guild.JobID, bid guild.Msat, now time.Duration) outcome {
	number, ordinary := numberOf(job)
	if !ordinary {
		n.runs[p.n]++
		o := n.ask(p, 1<<40+n.runs[p.n], now, true)
		if o.ending != full {
			n.tally.Runs++
			n.tally.Benched += bid
		}
		return o
	}
	idle, asked := n.idle[job]
	if !asked {
		idle = n.market.jobs[number]
		n.first(p, number, now)
	}
	n.waited(max(now-idle, 0))
	if now > idle {
		n.tell("job %d waited %s", number, (now - idle).Round(time.Second))
	}
	o := n.ask(p, number, now, false)
	n.asked(p, now, o)
	n.idle[job] = now + o.after
	return o
}

// answer plays the provider: it sends feedback and then the delivery.
func (n *node) answer(p *provider, request nostr.ID, o outcome) {
	switch o.ending {
	case silent:
	case full:
		n.rest(o.after)
		n.says(p, nip90.Feedback{Request: request, Customer: n.pubkey, Status: nip90.Error, Text: "at capacity"}.Event())
	default:
		n.rest(time.Second)
		n.says(p, nip90.Feedback{Request: request, Customer: n.pubkey, Status: nip90.Processing}.Event())
		n.rest(o.after - time.Second)
		r := nip90.Result{Kind: nip90.ResultKind(kind), Request: request, Customer: n.pubkey}
		err := r.SetDelivery(nip90.NewParcel(bundle))
		e, unmade := r.Event()
		if err := errors.Join(err, unmade); err != nil {
			n.failed(err)
			return
		}
		n.says(p, e)
	}
}

// says lets a provider sign an event and passes it to jobs.
func (n *node) says(p *provider, e nostr.Event) {
	if n.ctx.Err() != nil {
		return
	}
	v, err := n.sign(p, e)
	if err == nil {
		err = n.jobs.Observe(n.ctx, v)
	}
	if _, dropped := errors.AsType[*guild.DropError](err); !dropped && err != nil {
		n.failed(fmt.Errorf("provider %d: %w", p.n, err))
	}
}
