package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// Trial is the result of Try.
type Trial struct {
	Delivery []byte // packed, as a customer gets it; nil if the worker delivered nothing
	Replay   []byte // REPLAY.jsonl of the session; nil if no worker began
	Receipt  []byte // RECEIPT.json of the session

	Stderr string // the end of the standard error of a command that failed, without secrets
}

// Try has the worker of a service do a packed bundle as it does a request: the same checks, directories, sandbox, search for
// secrets, record and delivery. Nothing is recorded in a journal or published, and nothing is paid. say gets each line that
// a customer reads; it is called from one goroutine and has returned when Try returns. The error says why nothing is delivered.
//
// Of c only Keyer, PubKey, Blobs, Scratch, Secrets, Now, Node, Producer and Log are used. The key may be a random one.
func Try(ctx context.Context, c Config, s Service, bundle []byte, say func(line string)) (Trial, error) {
	c.Payloads = local(bundle)
	w := New(c, NewFold())
	s = s.withDefaults()
	r, err := w.trialRequest(ctx, s, bundle)
	if err != nil {
		return Trial{}, err
	}
	request, err := nip90.ParseRequest(r.Event, nil)
	if err == nil {
		err = w.check(request)
	}
	if err == nil && s.Check != nil {
		err = s.Check(request)
	}
	if err != nil {
		return Trial{}, err
	}
	done, heard := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		w.sayLines(done, say)
	}()
	d, _, err := w.deliver(ctx, s, r)
	close(done)
	<-heard
	t := Trial{Delivery: d.packed}
	if failed, ok := errors.AsType[*FailedError](err); ok {
		t.Stderr = failed.Stderr
	}
	if err != nil {
		d.session = w.endSession(ctx, d.recording, r.Job, err)
	}
	t.Replay, t.Receipt = d.session.replay, d.session.receipt
	return t, errors.Join(err, w.Drain(context.WithoutCancel(ctx)))
}

// trialRequest returns a request for a packed bundle that the node makes to itself.
func (w *Work) trialRequest(ctx context.Context, s Service, bundle []byte) (fact.RequestReceived, error) {
	job := guild.NewJobID().String()
	r := nip90.Request{Kind: s.Kind, Provider: &w.c.PubKey, Job: job}
	r.Set(nip90.ParamJobType, s.Task)
	p := nip90.NewParcel(bundle)
	if len(bundle) > nip90.Inline {
		p.Inline, p.URL = nil, localURL
	}
	if err := r.SetBundle(p); err != nil {
		return fact.RequestReceived{}, err
	}
	e, err := r.Event()
	if err == nil {
		e.CreatedAt = nostr.Timestamp(w.c.Now().Unix())
		e, err = w.outbox.Sign(ctx, e)
	}
	return fact.RequestReceived{
		Request: e.ID, Customer: e.PubKey, Task: s.Task, Service: s.D, Kind: s.Kind, Job: job, Event: e,
		Deadline: w.c.Now().Add(s.Limit + time.Minute).UnixMilli(),
	}, err
}

// sayLines passes on the lines of the worker, until done is closed and the queue is empty.
func (w *Work) sayLines(done <-chan struct{}, say func(line string)) {
	line := func(a answer) {
		if a.feedback.Status == nip90.Partial && a.feedback.Content != "" {
			say(a.feedback.Content)
		}
	}
	for {
		select {
		case a := <-w.queue:
			line(a)
			continue
		case <-done:
		}
		for {
			select {
			case a := <-w.queue:
				line(a)
			default:
				return
			}
		}
	}
}

// localURL is where the bundle of a trial is, if it is too large for an event.
const localURL = "https://localhost/bundle"

// local is the Payloads of a trial: the one bundle.
type local []byte

// Upload implements Payloads. A trial sends nothing.
func (local) Upload(context.Context, []byte, bool) (string, *[32]byte, error) {
	return "", nil, errors.New("a trial uploads nothing")
}

// Fetch implements Payloads.
func (l local) Fetch(_ context.Context, p fact.Place, want guild.Hash, _ int64) (io.ReadCloser, error) {
	if p.URL != localURL || guild.Sum(l) != want {
		return nil, fmt.Errorf("%s is not the bundle of the trial", p.URL)
	}
	return io.NopCloser(bytes.NewReader(l)), nil
}
