package work

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/hand/workdir"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell"
)

// maxLine is the longest line of a worker that its customer is told, in bytes.
const maxLine = 2000

// maxBundle is the largest packed bundle that we take or send, in bytes.
const maxBundle = 64 << 20

// presently is the time after which the customer is told that the worker has begun. Faster work needs no such event:
// it would arrive together with the result, and cost a signature, storage and a verification for nothing. It is also the
// delay before a finished run is cleaned up, so that the answer has the processor to itself.
const presently = 100 * time.Millisecond

// delivery is the outcome of a worker's run.
type delivery struct {
	packed []byte
	text   *string // sent instead of the bundle to a customer who knows no bundles; nil where the bundle is sent

	behaviour guild.Hash   // that did the work; zero without one
	agent     nostr.PubKey // with that behaviour
	leftOut   int          // nudges that the customer asked for and that are not part of it

	recording *recording   // of the run, also of one that failed; nil if none began
	session   documents    // of a run that did not fail
	usage     *nip90.Usage // to be claimed; nil where the price does not depend on it
}

// succeed stores a delivery and signs the result that carries it.
func (w *Work) succeed(ctx context.Context, r fact.RequestReceived, f fact.RequestFinished, d delivery) (fact.RequestFinished, error) {
	f.Ending, f.Delivery = delivered, guild.Sum(d.packed)
	var keeping errgroup.Group
	keeping.Go(func() error { return w.keep(ctx, d.packed, d.text == nil && len(d.packed) <= nip90.Inline) })
	result, err := w.result(ctx, r, f.Delivery, d)
	if err == nil {
		f, err = w.end(ctx, f, answer{to: r, result: &result})
	}
	return f, errors.Join(err, keeping.Wait())
}

// result puts a delivery into a result: as text, as a bundle, or as the URL of a bundle that is too large for an event.
func (w *Work) result(ctx context.Context, r fact.RequestReceived, hash guild.Hash, d delivery) (nip90.Result, error) {
	result := nip90.Result{Kind: nip90.ResultKind(r.Kind), Request: r.Request, Customer: r.Customer, Status: "success", Behaviour: d.behaviour, LeftOut: d.leftOut, Usage: d.usage}
	if d.session.replay != nil {
		result.Trajectory, result.SessionReceipt = d.session.trajectory, guild.Sum(d.session.receipt)
	}
	if d.text != nil {
		// NIP-90 wants the request and its inputs repeated. Sealed leaves both out, so nothing of an encrypted request
		// shows. They are left out of a result that relays would find too large.
		const longest = 48 << 10
		result.Content = *d.text
		request, err := json.Marshal(r.Event)
		if err != nil {
			return result, err
		}
		if len(request) <= longest {
			result.RequestJSON = string(request)
			for tag := range r.Event.Tags.FindAll("i") {
				result.Extra = append(result.Extra, tag)
			}
		}
		return result, nil
	}
	p := nip90.Parcel{Hash: hash, Size: int64(len(d.packed))}
	if len(d.packed) <= nip90.Inline {
		p.Inline = d.packed
	} else {
		var err error
		if p.URL, p.Key, err = w.c.Payloads.Upload(ctx, d.packed, r.Encrypted); err != nil {
			return result, fmt.Errorf("upload the delivery: %w", err)
		}
	}
	return result, result.SetDelivery(p)
}

// deliver unpacks the bundle of a request, runs the worker, and packs the files that it left.
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
	b, err := workdir.Fill(ctx, bytes.NewReader(m.raw), int64(len(m.raw)), nutshell.DefaultLimits(), unpacked(dir))
	if err != nil {
		return d, bundle, fmt.Errorf("the bundle: %w", err)
	}
	behaviour, err := s.behaviour(ctx, request)
	if err != nil {
		return d, bundle, &FailedError{Text: cannotAct, Stderr: err.Error()}
	}
	credentials, err := w.openVault(ctx, request, s)
	if err != nil {
		return d, bundle, err
	}
	var keeping errgroup.Group
	keeping.Go(func() error { return w.keep(ctx, m.raw, m.inline) })
	d, err = w.assign(ctx, s, r, b, m, dir, behaviour, credentials)
	d.leftOut = behaviour.without(request.Nudges())
	if behaviour != nil {
		d.behaviour, d.agent = behaviour.ID, behaviour.Agent
	}
	return d, bundle, errors.Join(credentials.hideIn(err), keeping.Wait())
}

// unpacked returns the directory of the bundle within that of a run.
func unpacked(dir string) string { return filepath.Join(dir, "bundle") }

// keep stores a bundle. The journal has a second copy of an inline one.
func (w *Work) keep(ctx context.Context, bundle []byte, inline bool) error {
	put := w.c.Blobs.PutBytes
	if inline {
		put = w.c.Blobs.PutCopy
	}
	_, err := put(ctx, bundle)
	return err
}

// discard removes the directory of a run a little later, so that the answer need not share the processor and the disk with
// the removal. Drain waits for it.
func (w *Work) discard(dir string) {
	w.mu.Lock()
	w.discarding++
	w.mu.Unlock()
	time.AfterFunc(presently, func() {
		if err := os.RemoveAll(dir); err != nil {
			w.c.Log.Warn("the directory of a worker cannot be removed", "err", err)
		}
		w.mu.Lock()
		w.discarding--
		w.mu.Unlock()
	})
}

// assign runs the worker in directories below dir and packs the files that it left. The credentials are removed when the
// worker has ended.
func (w *Work) assign(ctx context.Context, s Service, r fact.RequestReceived, b *nutshell.Bundle, m material, dir string, behaviour *Behaviour, o *opened) (d delivery, err error) {
	defer w.shut(o)
	begin := sync.OnceFunc(func() { w.tellBegun(s, r) })
	a := Assignment{
		Bundle: unpacked(dir), Delivery: filepath.Join(dir, "delivery"), Vault: o.file, Job: r.Job,
		Limit: min(s.Limit, time.UnixMilli(r.Deadline).Sub(w.c.Now())), Behaviour: behaviour, Hide: o.hide,
		Say: func(line string) {
			begin()
			w.tell(answer{to: r, feedback: nip90.Feedback{Status: nip90.Partial, Content: guild.Cut(o.hide(line), maxLine)}})
		},
	}
	if a.recording, err = w.newRecording(s, r, behaviour, o.hide); err != nil {
		return d, err
	}
	d.recording = a.recording
	a.Inputs = m.inputs
	if m.plain {
		a.Inputs = filepath.Join(a.Bundle, plainInputs)
	}
	if workdir.HoldsForeign(b) {
		if _, err := workdir.Quarantine(a.Bundle); err != nil {
			return d, fmt.Errorf("the bundle: %w", err)
		}
	}
	if err := os.Mkdir(a.Delivery, 0o755); err != nil {
		return d, err
	}
	a.Harness = b.Manifest().Harness()
	if a.Hints, err = writeHints(a.Harness, filepath.Join(dir, "hints")); err != nil {
		return d, err
	}
	defer time.AfterFunc(presently, begin).Stop()
	limited, cancel := context.WithTimeout(ctx, a.Limit)
	defer cancel()
	began := w.c.Now()
	if err := s.Do(limited, a); err != nil {
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			late := &FailedError{Text: fmt.Sprintf("the worker ran over its %s", a.Limit.Round(time.Second))}
			if failed, ok := errors.AsType[*FailedError](err); ok {
				late.Stderr = failed.Stderr
			}
			return d, late
		}
		return d, err
	}
	worked := w.c.Now().Sub(began)
	w.shut(o)
	if behaviour != nil {
		taken, refused, err := takeLessons(a.Delivery, o.hide)
		if err != nil {
			return d, fmt.Errorf("the worker's lessons: %w", err)
		}
		for _, why := range refused[:min(len(refused), maxLessons)] {
			w.c.Log.Warn("a file of the worker is no lesson and stays in the delivery", "request", r.Request.Hex(), "err", why)
		}
		if len(taken) > 0 && s.Learned != nil {
			s.Learned(ctx, r.Request, behaviour.Agent, taken)
		}
	}
	ended := w.endSession(ctx, a.recording, r.Job, nil)
	var travels []byte
	if s.Trajectory {
		travels = ended.replay
	}
	d, err = w.pack(ctx, b, m.plain, a.Delivery, o, travels)
	d.recording, d.session, d.usage = a.recording, ended, w.usage(s, r.Request, ended.tokens, worked)
	return d, err
}

// shut removes the credentials. It may be called twice.
func (w *Work) shut(o *opened) {
	if err := o.shut(); err != nil {
		w.c.Log.Error("the credentials of a request could not be removed", "file", o.file, "err", err)
	}
}

// pack makes a delivery bundle of the worker's directory. It fails if a secret that the worker was given is in it. The
// trajectory, if there is one, is added if it fits, has no secret, and the result carries a bundle.
func (w *Work) pack(ctx context.Context, request *nutshell.Bundle, plain bool, dir string, o *opened, trajectory []byte) (d delivery, err error) {
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
	lay := func(trajectory []byte) ([]byte, error) {
		tree, err := nutshell.Delivery(request.Manifest(), own, left, nutshell.DeliveryInfo{
			ID: "nut-" + newUUID(), Deliverer: w.c.Node, CompletedAt: w.c.Now(), Trajectory: trajectory,
		})
		if err != nil {
			return nil, fmt.Errorf("the delivery: %w", err)
		}
		if err := o.leak(tree); err != nil { // the whole bundle, with the manifest that was made of the worker's result.json
			return nil, err
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
	if d.packed, err = lay(nil); err != nil || d.text != nil || trajectory == nil {
		return d, err
	}
	// The bundle without the trajectory is made first: whatever is wrong with the other one, the customer gets this one.
	with, err := withTrajectory(lay, trajectory, len(d.packed))
	if err != nil {
		w.c.Log.Warn("the worker's trajectory is not sent with its delivery", "err", err)
		return d, nil
	}
	d.packed = with
	return d, nil
}

// withTrajectory packs a delivery with its trajectory, given the size of the bundle without it in bytes. A delivery that fits
// into the result without it must do so with it, because an upload can fail.
func withTrajectory(lay func(trajectory []byte) ([]byte, error), trajectory []byte, without int) ([]byte, error) {
	if len(trajectory) > nutshell.MaxTrajectory {
		return nil, fmt.Errorf("it has %d bytes, and %d are allowed", len(trajectory), nutshell.MaxTrajectory)
	}
	packed, err := lay(trajectory)
	if err == nil && without <= nip90.Inline && len(packed) > nip90.Inline {
		err = fmt.Errorf("with it the delivery of %d bytes does not fit into the result", len(packed))
	}
	return packed, err
}

// newUUID makes a random (version 4) UUID for the id of a bundle.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
