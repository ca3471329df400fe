package work

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/internal/workdir"
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

// Due lists the requests to work on and the answers to publish. It implements due.Source.
func (w *Work) Due(now time.Time) []due.Work {
	var all []due.Work
	for _, r := range w.fold.pending() {
		if r.Finished != nil {
			all = append(all, w.answers(r)...)
			continue
		}
		s, offered := w.services[r.Service]
		switch {
		case r.Parked != "":
			all = append(all, w.giveUp(r, r.Parked))
		case !offered:
			all = append(all, w.giveUp(r, "the task is no longer offered here"))
		case !w.Draining():
			all = append(all, w.work(s, r))
		}
	}
	return all
}

func (w *Work) answers(r request) []due.Work {
	var all []due.Work
	for _, e := range r.Finished.Answers {
		relays := append([]string{r.Received.From}, r.Received.Relays...)
		all = append(all, due.Work{
			Key: due.Publishing(e.ID), Guard: fact.RequestSubject(r.ID), Tries: 8,
			Act: func(ctx context.Context) (due.Decision, error) {
				v, err := w.own(e)
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

// own returns one of our own events as verified: at once if this process signed it.
func (w *Work) own(e nostr.Event) (guild.Verified, error) {
	if v, ok := w.signed.LoadAndDelete(e.ID); ok {
		return v.(guild.Verified), nil
	}
	return guild.Verify(e)
}

// work has the request done. A worker that takes the whole node down three times is not started again.
func (w *Work) work(s Service, r request) due.Work {
	return due.Work{
		Key: doing(r.ID), Guard: fact.RequestSubject(r.ID), Class: class(s.D), Tries: 3, Deaths: 3,
		Lease: s.Limit + time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			finished, err := w.finish(ctx, s, *r.Received)
			if err != nil {
				w.mark(r.ID, nil)
				return nil, err
			}
			return func(tx *journal.Tx) error {
				w.mark(r.ID, nil) // whoever hands it back now decides after this
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
	w.mark(r.Request, stop)
	if w.withdrawn(r.Request) {
		stop() // it was taken back before there was anything to stop
	}

	finished := fact.RequestFinished{Request: r.Request, Ending: refused}
	if s.Price > 0 {
		finished.Reason = "payment required"
		f := nip90.Feedback{Status: nip90.PaymentRequired, Amount: s.Price}
		return w.answerFeedback(context.WithoutCancel(ctx), r, finished, f)
	}
	delivery, bundle, err := w.deliver(ctx, s, r)
	finished.Bundle = bundle
	switch {
	case err == nil:
		return w.answerDelivery(ctx, r, finished, delivery)
	case w.withdrawn(r.Request):
		return finished, nil // nobody waits for it
	case errors.Is(ctx.Err(), context.Canceled):
		return finished, fmt.Errorf("stopped: %w", ctx.Err())
	}
	finished.Ending, finished.Reason = failed, guild.Cut(err.Error(), 500)
	f := nip90.Feedback{Status: nip90.Error, Text: finished.Reason}
	return w.answerFeedback(context.WithoutCancel(ctx), r, finished, f)
}

func (w *Work) withdrawn(request nostr.ID) bool {
	r, ok := w.fold.request(request)
	return ok && r.Withdrew
}

func (w *Work) mark(id nostr.ID, stop context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop == nil {
		delete(w.running, id)
	} else {
		w.running[id] = stop
	}
}

// deliver unpacks the bundle, has the worker do it, and packs what it left.
func (w *Work) deliver(ctx context.Context, s Service, r fact.RequestReceived) (delivery []byte, bundle guild.Hash, err error) {
	if ctx.Err() != nil {
		return nil, bundle, errors.New("its deadline passed before its turn came")
	}
	request, err := nip90.ParseRequest(r.Event, nip90.OpenWith(ctx, w.c.Keyer))
	if err != nil {
		return nil, bundle, err
	}
	raw, inline, err := w.bundle(ctx, request)
	if err != nil {
		return nil, bundle, fmt.Errorf("the bundle: %w", err)
	}
	bundle = guild.Sum(raw)
	b, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	if err != nil {
		return nil, bundle, fmt.Errorf("the bundle: %w", err)
	}
	dir, err := os.MkdirTemp(w.c.Scratch, "request-")
	if err != nil {
		return nil, bundle, err
	}
	defer w.discard(dir)
	credentials, err := w.openVault(ctx, request)
	if err != nil {
		return nil, bundle, err
	}
	var keeping errgroup.Group
	keeping.Go(func() error { return w.keep(ctx, raw, inline) })
	delivery, err = w.assign(ctx, s, r, b, dir, credentials)
	return delivery, bundle, errors.Join(credentials.hideIn(err), keeping.Wait())
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
func (w *Work) assign(ctx context.Context, s Service, r fact.RequestReceived, b *nutshell.Bundle, dir string, o *opened) ([]byte, error) {
	defer w.shut(o)
	begin := sync.OnceFunc(func() { w.say(r, nip90.Processing, "") })
	a := Assignment{
		Bundle: filepath.Join(dir, "bundle"), Delivery: filepath.Join(dir, "delivery"), Vault: o.path(), Job: r.Job,
		Limit: min(s.Limit, time.UnixMilli(r.Deadline).Sub(w.c.Now())), Hide: o.hide,
		Say: func(line string) { begin(); w.say(r, nip90.Partial, o.hide(line)) },
	}
	if err := workdir.Unpack(ctx, b, a.Bundle); err != nil {
		return nil, fmt.Errorf("the bundle: %w", err)
	}
	if workdir.HoldsForeign(b) {
		if _, err := workdir.Quarantine(a.Bundle); err != nil {
			return nil, fmt.Errorf("the bundle: %w", err)
		}
	}
	if err := os.Mkdir(a.Delivery, 0o755); err != nil {
		return nil, err
	}
	defer time.AfterFunc(presently, begin).Stop()
	limited, cancel := context.WithTimeout(ctx, a.Limit)
	defer cancel()
	if err := s.Do(limited, a); err != nil {
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("the worker ran over its %s", a.Limit.Round(time.Second))
		}
		return nil, err
	}
	w.shut(o)
	return w.pack(ctx, b, a.Delivery, o)
}

// shut takes the credentials away. It may be done twice.
func (w *Work) shut(o *opened) {
	if err := o.shut(); err != nil {
		w.c.Log.Error("the credentials of a request could not be removed", "file", o.path(), "err", err)
	}
}

// bundle brings the request's bundle: it came along, inline, or waits where the request says.
func (w *Work) bundle(ctx context.Context, r nip90.Request) (raw []byte, inline bool, err error) {
	p, err := r.Bundle()
	if err != nil || p.Inline != nil {
		return p.Inline, true, err
	}
	if p.Size > maxBundle {
		return nil, false, fmt.Errorf("%d bytes are too many", p.Size)
	}
	place := fact.Place{URL: p.URL}
	if p.Key != nil {
		place.Key = fmt.Sprintf("%x", p.Key[:])
	}
	body, err := w.c.Fetch(ctx, place, p.Hash, p.Size)
	if err != nil {
		return nil, false, err
	}
	defer body.Close()
	raw, err = io.ReadAll(io.LimitReader(body, p.Size))
	return raw, false, err
}

// pack turns the directory that the worker filled into a delivery bundle, which holds no secret that it was given.
func (w *Work) pack(ctx context.Context, request *nutshell.Bundle, dir string, o *opened) ([]byte, error) {
	left, err := workdir.FS(dir, nutshell.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("what the worker left: %w", err)
	}
	defer left.Close()
	if entries, err := fs.ReadDir(left, "."); err != nil || len(entries) == 0 {
		return nil, errors.New("the worker left nothing in GUILD_DELIVERY")
	}
	if err := o.leak(left); err != nil {
		return nil, err
	}
	own, err := nutshell.WorkerResult(left)
	if err == nil {
		own, err = o.mark(own)
	}
	if err != nil {
		return nil, fmt.Errorf("the worker's result.json: %w", err)
	}
	tree, err := nutshell.Delivery(request.Manifest(), own, left, nutshell.DeliveryInfo{
		ID: "nut-" + newUUID(), Deliverer: w.c.Node, CompletedAt: w.c.Now(),
	})
	if err != nil {
		return nil, fmt.Errorf("the delivery: %w", err)
	}
	var packed bytes.Buffer
	if _, err := nutshell.Pack(ctx, tree, &packed, nutshell.Options{}); err != nil {
		return nil, fmt.Errorf("the delivery: %w", err)
	}
	if packed.Len() > maxBundle {
		return nil, fmt.Errorf("the delivery of %d bytes is too large", packed.Len())
	}
	return packed.Bytes(), nil
}

// newUUID makes a random (version 4) UUID, as bundle ids have it.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
