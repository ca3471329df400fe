package work

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/hand/workdir"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell"
)

// How a request can end.
const (
	delivered = "delivered"
	refused   = "refused"
	failed    = "failed"
)

// maxBundle is the largest packed bundle taken or sent, in bytes.
const maxBundle = 64 << 20

// presently is how long a worker may take without the customer being told that it has begun. What is done sooner
// needs no such event: it would arrive together with the result, to be signed, stored and verified for nothing.
// It is also how long an answer has the processor to itself before what is left of the work is cleared away.
const presently = 100 * time.Millisecond

func doing(request nostr.ID) string { return "work on " + request.Hex() }

// Due lists the answers to publish and the requests to work on, those of each service in the order in which its
// customers take turns. It implements due.Source.
func (w *Work) Due(now time.Time) []due.Work {
	var all []due.Work
	pending, services := w.fold.pending(), map[string][]request{}
	for _, r := range pending {
		switch {
		case r.Finished != nil:
			all = append(all, w.answers(r)...)
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
	here := w.now()
	for _, d := range slices.Sorted(maps.Keys(services)) {
		for _, t := range inTurn(services[d], here) {
			all = append(all, w.toDo(t, now)...)
		}
	}
	return all
}

// toDo lists what is due for a request that nobody has finished.
func (w *Work) toDo(t turn, now time.Time) []due.Work {
	s, offered := w.services[t.Service]
	switch {
	case t.running:
		return []due.Work{w.work(s, t.request)}
	case !offered:
		return []due.Work{w.giveUp(t.request, "the task is no longer offered here")}
	case w.Draining():
		return nil
	case !now.Before(time.UnixMilli(t.Received.Deadline)), w.state(t.Service) == Paused:
		return []due.Work{w.late(t.request)}
	}
	return []due.Work{w.work(s, t.request), w.late(t.request)}
}

// late gives a request up once its deadline has passed, whatever it waits for.
func (w *Work) late(r request) due.Work {
	late := w.giveUp(r, "its deadline passed before its turn came")
	late.Ready = time.UnixMilli(r.Received.Deadline)
	return late
}

func (w *Work) answers(r request) []due.Work {
	var all []due.Work
	for _, e := range r.Finished.Answers {
		relays := append([]string{r.Received.From}, r.Received.Relays...)
		all = append(all, due.Work{
			Key: due.Publishing(e.ID), Guard: fact.RequestSubject(r.ID), Tries: 8,
			Act: func(ctx context.Context) (due.Decision, error) {
				v, err := w.outbox.Own(e)
				if err != nil {
					return nil, fmt.Errorf("the answer to %.8s: %w", r.ID.Hex(), err)
				}
				ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
				defer cancel()
				return func(*journal.Tx) error { return nil }, w.c.Publish(ctx, v, relays)
			},
		})
	}
	return all
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
			return func(tx *journal.Tx) error {
				w.over(r) // whoever hands it back now decides after this
				if now, ok := w.fold.request(r.ID); !ok || now.Ending != "" || now.Withdrew {
					return nil
				}
				tx.Append(finished)
				for _, e := range finished.Answers {
					due.Claim(tx, due.Publishing(e.ID), w.c.Node)
				}
				return nil
			}, nil
		},
	}
}

// giveUp tells the customer of a request that nothing will come of it, and why.
func (w *Work) giveUp(r request, reason string) due.Work {
	return due.Work{
		Key: "give up " + r.ID.Hex(), Guard: fact.RequestSubject(r.ID), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			finished := fact.RequestFinished{Request: r.ID, Ending: failed, Reason: reason}
			finished, err := w.answerFeedback(ctx, *r.Received, finished,
				nip90.Feedback{Status: nip90.Error, Text: guild.Cut(reason, 500)})
			return w.settled(r.ID, finished), err
		},
	}
}

// settled is the decision that ends a request without doing its work any more.
func (w *Work) settled(id nostr.ID, finished fact.RequestFinished) due.Decision {
	return func(tx *journal.Tx) error {
		if now, ok := w.fold.request(id); !ok || now.Ending != "" || now.Withdrew {
			return nil
		}
		tx.Append(finished, fact.EffectSettled{Effect: doing(id)})
		for _, e := range finished.Answers {
			due.Claim(tx, due.Publishing(e.ID), w.c.Node)
		}
		return nil
	}
}

// finish does the work and signs the answer. An error means that the node could not, not that the worker failed.
// The request counts as running from here until that is decided upon.
func (w *Work) finish(ctx context.Context, s Service, r fact.RequestReceived) (fact.RequestFinished, error) {
	ctx, stop := context.WithDeadline(ctx, time.UnixMilli(r.Deadline))
	defer stop()
	w.begin(r, stop)
	if w.withdrawn(r.Request) {
		stop() // it was taken back before there was anything to stop
	}

	finished := fact.RequestFinished{Request: r.Request, Ending: refused}
	if s.Price > 0 {
		finished.Reason = "payment required"
		f := nip90.Feedback{Status: nip90.PaymentRequired, Amount: s.Price}
		return w.answerFeedback(context.WithoutCancel(ctx), r, finished, f)
	}
	d, bundle, err := w.deliver(ctx, s, r)
	finished.Bundle = bundle
	switch {
	case err == nil:
	case w.withdrawn(r.Request):
		return finished, nil // nobody waits for it
	case errors.Is(ctx.Err(), context.Canceled):
		return finished, fmt.Errorf("stopped: %w", ctx.Err())
	}
	failure := err
	var kept documents
	var keeping sync.WaitGroup
	keeping.Go(func() { kept = w.keepSession(ctx, d.recording, r.Job, failure) })
	finished, err = w.answer(ctx, r, finished, d, failure)
	keeping.Wait()
	finished.Replay, finished.Session = kept.replay, kept.receipt
	return finished, err
}

// answer signs what a request came to: a delivery, or the failure.
func (w *Work) answer(ctx context.Context, r fact.RequestReceived, finished fact.RequestFinished, d delivery, failure error) (fact.RequestFinished, error) {
	if failure == nil {
		return w.answerDelivery(ctx, r, finished, d)
	}
	finished.Ending, finished.Reason = failed, guild.Cut(failure.Error(), 500)
	f := nip90.Feedback{Status: nip90.Error, Text: finished.Reason}
	if leak, ok := errors.AsType[*leakError](failure); ok {
		f.Text = guild.Cut(leak.told(), 500)
		w.c.Log.Warn("a delivery was stopped: it holds a secret", "service", r.Service, "request", r.Request.Hex(), "err", leak)
	}
	return w.answerFeedback(context.WithoutCancel(ctx), r, finished, f)
}

func (w *Work) withdrawn(request nostr.ID) bool {
	r, ok := w.fold.request(request)
	return ok && r.Withdrew
}

// begin notes that a worker is on a request.
func (w *Work) begin(r fact.RequestReceived, stop context.CancelFunc) {
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

// deliver unpacks the bundle, has the worker do it, and packs what it left.
func (w *Work) deliver(ctx context.Context, s Service, r fact.RequestReceived) (d delivery, bundle guild.Hash, err error) {
	if ctx.Err() != nil {
		return d, bundle, errors.New("its deadline passed before its turn came")
	}
	request, err := nip90.ParseRequest(r.Event, nip90.OpenWith(ctx, w.c.Keyer))
	if err != nil {
		return d, bundle, err
	}
	dir, err := os.MkdirTemp(w.c.Scratch, "request-")
	if err != nil {
		return d, bundle, err
	}
	defer w.discard(dir)
	m, err := w.material(ctx, s, r, request, dir)
	if err != nil {
		return d, bundle, err
	}
	bundle = guild.Sum(m.raw)
	b, err := nutshell.Open(bytes.NewReader(m.raw), int64(len(m.raw)), nutshell.DefaultLimits())
	if err != nil {
		return d, bundle, fmt.Errorf("the bundle: %w", err)
	}
	credentials, err := w.openVault(ctx, request, s.Secrets)
	if err != nil {
		return d, bundle, err
	}
	var keeping errgroup.Group
	keeping.Go(func() error { return w.keep(ctx, m.raw, m.inline) })
	d, err = w.assign(ctx, s, r, b, m, dir, credentials)
	return d, bundle, errors.Join(credentials.hideIn(err), keeping.Wait())
}

// keep stores a bundle. One that is inside of an event is in the journal too.
func (w *Work) keep(ctx context.Context, bundle []byte, inline bool) error {
	put := w.c.Blobs.PutBytes
	if inline {
		put = w.c.Blobs.PutCopy
	}
	_, err := put(ctx, bundle)
	return err
}

// discard removes the directory that a request was worked on in, a little later, so that the answer need not
// share the processor and the disk with that. Drain waits for it.
func (w *Work) discard(dir string) {
	w.mu.Lock()
	w.discarding++
	w.mu.Unlock()
	time.AfterFunc(presently, func() {
		if err := os.RemoveAll(dir); err != nil {
			w.c.Log.Warn("what a worker left cannot be removed", "err", err)
		}
		w.mu.Lock()
		w.discarding--
		w.mu.Unlock()
	})
}

// assign has the worker do it in directories below dir. The credentials are gone when the worker has ended.
func (w *Work) assign(ctx context.Context, s Service, r fact.RequestReceived, b *nutshell.Bundle, m material, dir string, o *opened) (d delivery, err error) {
	defer w.shut(o)
	begin := sync.OnceFunc(func() { w.sayBegun(s, r) })
	a := Assignment{
		Bundle: filepath.Join(dir, "bundle"), Delivery: filepath.Join(dir, "delivery"), Vault: o.file, Job: r.Job,
		Limit: min(s.Limit, time.UnixMilli(r.Deadline).Sub(w.c.Now())), Hide: o.hide,
		Say: func(line string) { begin(); w.say(r, nip90.Partial, o.hide(line)) },
	}
	if a.recording, err = w.newRecording(s, r, o.hide); err != nil {
		return d, err
	}
	d.recording = a.recording
	a.Inputs = m.inputs
	if m.plain {
		a.Inputs = filepath.Join(a.Bundle, plainInputs)
	}
	if err := workdir.Unpack(ctx, b, a.Bundle); err != nil {
		return d, fmt.Errorf("the bundle: %w", err)
	}
	if workdir.HoldsForeign(b) {
		if _, err := workdir.Quarantine(a.Bundle); err != nil {
			return d, fmt.Errorf("the bundle: %w", err)
		}
	}
	if err := os.Mkdir(a.Delivery, 0o755); err != nil {
		return d, err
	}
	defer time.AfterFunc(presently, begin).Stop()
	limited, cancel := context.WithTimeout(ctx, a.Limit)
	defer cancel()
	if err := s.Do(limited, a); err != nil {
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			return d, fmt.Errorf("the worker ran over its %s", a.Limit.Round(time.Second))
		}
		return d, err
	}
	w.shut(o)
	d, err = w.pack(ctx, b, m.plain, a.Delivery, o)
	d.recording = a.recording
	return d, err
}

// shut takes the credentials away. It may be done twice.
func (w *Work) shut(o *opened) {
	if err := o.shut(); err != nil {
		w.c.Log.Error("the credentials of a request could not be removed", "file", o.file, "err", err)
	}
}

// pack turns the directory that the worker filled into a delivery bundle, which holds no secret that it was given.
func (w *Work) pack(ctx context.Context, request *nutshell.Bundle, plain bool, dir string, o *opened) (d delivery, err error) {
	left, err := workdir.FS(dir, nutshell.DefaultLimits())
	if err != nil {
		return d, fmt.Errorf("what the worker left: %w", err)
	}
	defer left.Close()
	if entries, err := fs.ReadDir(left, "."); err != nil || len(entries) == 0 {
		return d, errors.New("the worker left nothing in GUILD_DELIVERY")
	}
	own, err := nutshell.WorkerResult(left)
	if err == nil {
		own, err = o.mark(own)
	}
	if err != nil {
		return d, fmt.Errorf("the worker's result.json: %w", err)
	}
	if plain {
		if err := unsuccessful(own); err != nil {
			return d, err
		}
		if d.text, err = plainAnswer(left); err != nil {
			return d, fmt.Errorf("what the worker left: %w", err)
		}
	}
	tree, err := nutshell.Delivery(request.Manifest(), own, left, nutshell.DeliveryInfo{
		ID: "nut-" + newUUID(), Deliverer: w.c.Node, CompletedAt: w.c.Now(),
	})
	if err != nil {
		return d, fmt.Errorf("the delivery: %w", err)
	}
	if err := o.leak(tree); err != nil { // also in what was made of the worker's result.json
		return d, err
	}
	var packed bytes.Buffer
	if _, err := nutshell.Pack(ctx, tree, &packed, nutshell.Options{}); err != nil {
		return d, fmt.Errorf("the delivery: %w", err)
	}
	if packed.Len() > maxBundle {
		return d, fmt.Errorf("the delivery of %d bytes is too large", packed.Len())
	}
	d.packed = packed.Bytes()
	return d, nil
}

// newUUID makes a random (version 4) UUID, as bundle ids have it.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
