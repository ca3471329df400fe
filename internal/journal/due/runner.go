package due

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Runner does all work that is due, each in a goroutine of its own.
type Runner struct {
	Journal *journal.Journal
	Claims  *Claims
	Node    string
	Sources []Source // looked at after each change
	Large   []Large
	Now     func() time.Time

	Limits map[string]int  // works of a class at a time; a class that is not in it has no limit
	Waits  []time.Duration // between tries, the last one repeatedly; 5, 10 and 20 s if empty
	Log    *slog.Logger    // slog.Default() if nil

	agenda  agenda     // of the goroutine of Run
	looking sync.Mutex // work that ends while a look goes on counts as running until the look ends
	mu      sync.Mutex
	born    uint64 // the last entry when Run began
	running map[string]bool
	alone   string // the running work whose next death would be its last
	classes map[string]int
	failed  map[string]failure
	acted   map[string]uint64     // effect → the claim of its last try
	ended   map[fact.Subject]bool // guards of work that ended since the last look
	once    sync.Once
	wake    chan struct{}
}

type failure struct {
	times int
	retry time.Time
	err   error // nil if it did not fail but changed nothing
	later bool  // it does not count, see ErrLater
}

// rest is the pause before an effect that is still due after it was done, so that a step with an error in its Source cannot
// fill the journal.
const rest = time.Second

// Run does what is due until ctx ends, and returns when all work that it has started has ended.
func (r *Runner) Run(ctx context.Context) error {
	if r.Log == nil {
		r.Log = slog.Default()
	}
	r.born = r.Journal.Last()
	r.running, r.classes = map[string]bool{}, map[string]int{}
	r.failed, r.acted = map[string]failure{}, map[string]uint64{}
	r.agenda, r.ended = newAgenda(), map[fact.Subject]bool{}
	changed, stop := r.Journal.Changed()
	defer stop()

	var started sync.WaitGroup
	defer started.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for more := true; ; {
		timer.Reset(r.look(ctx, &started, more))
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			more = true
		case <-r.waker():
			more = true
		case <-timer.C:
			more = false
		}
	}
}

// ready returns when an effect may be tried: the latest of Work.Ready, the pause after a failure, and the end of another node's
// claim.
func (r *Runner) ready(w Work, now time.Time) time.Time {
	r.mu.Lock()
	ready := r.failed[w.Key].retry
	r.mu.Unlock()
	if w.Ready.After(ready) {
		ready = w.Ready
	}
	claim := r.Claims.get(w.Key)
	if claim.Parked != "" {
		return now.Add(time.Hour)
	}
	if claim.Node != r.Node {
		if until := time.UnixMilli(claim.Until); until.After(ready) {
			ready = until
		}
	}
	return ready
}

// take marks work as running, unless it runs already or its class is at its limit. The node may have died of another work
// that ran beside this one. So of those whose next death would be the last, only one runs at a time.
func (r *Runner) take(w Work) bool {
	last := r.died(w.Key)+1 >= cmp.Or(w.Deaths, deaths)
	r.mu.Lock()
	defer r.mu.Unlock()
	limit, limited := r.Limits[w.Class]
	if r.running[w.Key] || limited && r.classes[w.Class] >= limit || last && r.alone != "" {
		return false
	}
	if last {
		r.alone = w.Key
	}
	r.running[w.Key] = true
	r.classes[w.Class]++
	return true
}

// died returns how many tries of an effect ended with their process.
func (r *Runner) died(key string) int {
	c := r.Claims.get(key)
	if c.Node == r.Node && c.Seq <= r.born && c.Parked == "" {
		return c.Died + 1
	}
	return c.Died
}

func (r *Runner) release(w Work, err error) {
	r.looking.Lock() // or a look that has read the sources before would start it again
	r.mu.Lock()
	delete(r.running, w.Key)
	if r.alone == w.Key {
		r.alone = ""
	}
	r.classes[w.Class]--
	r.ended[w.of()] = true
	f := r.failed[w.Key]
	switch {
	case err == nil && w.Free:
		delete(r.failed, w.Key)
	case err == nil || errors.Is(err, errIdle):
		r.failed[w.Key] = failure{retry: r.Now().Add(rest)}
	default:
		r.failed[w.Key] = failure{times: f.times + 1, retry: r.Now().Add(r.backOff(f.times)), err: err, later: errors.Is(err, ErrLater)}
	}
	r.mu.Unlock()
	r.looking.Unlock()
	r.Wake()
}

// Wake makes the runner call the sources again, after a change that is not in the journal.
func (r *Runner) Wake() {
	select {
	case r.waker() <- struct{}{}:
	default:
	}
}

func (r *Runner) waker() chan struct{} {
	r.once.Do(func() { r.wake = make(chan struct{}, 1) })
	return r.wake
}

// backOff returns the pause after a number of failures: the next of the waits, ±20 %.
func (r *Runner) backOff(failures int) time.Duration {
	waits := r.Waits
	if len(waits) == 0 {
		waits = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}
	}
	d := waits[min(failures, len(waits)-1)]
	return d*4/5 + rand.N(d*2/5+1)
}

// do tries an effect that was due when the last entry was seen.
func (r *Runner) do(ctx context.Context, w Work, seen uint64) {
	err := r.try(ctx, w, seen)
	if errors.Is(err, errNotOurs) || ctx.Err() != nil {
		err = nil
	}
	if errors.Is(err, journal.ErrQuarantined) {
		err = fmt.Errorf("%w: %w", ErrLater, err)
	}
	if err == nil && w.Free && r.Journal.Last() == seen {
		err = errIdle // or else it would be tried again at once, for ever
	}
	if errors.Is(err, ErrLater) {
		r.Log.Debug("an effect is not possible now and will be tried again", "effect", w.Key, "err", err)
	} else if err != nil && !errors.Is(err, errIdle) {
		r.Log.Warn("an effect failed and will be tried again", "effect", w.Key, "err", err)
	}
	r.release(w, err)
}

var (
	errNotOurs = errors.New("claimed by another node, done, or parked")
	errIdle    = errors.New("nothing changed")
)

func (r *Runner) try(ctx context.Context, w Work, seen uint64) error {
	if !w.Free {
		if err := r.claim(ctx, w, seen); err != nil {
			return err
		}
	}
	decide, err := r.act(ctx, w)
	if err != nil {
		return err
	}
	return r.record(ctx, w, decide)
}

// record appends the result of an effect, even if the node is stopping. If the clock is wrong or the disk full, it waits until
// that is over: without the record, the effect would be repeated.
func (r *Runner) record(ctx context.Context, w Work, decide Decision) error {
	for first := true; ; first = false {
		err := r.Journal.Do(context.WithoutCancel(ctx), w.Guard, w.Key, func(tx *journal.Tx) error {
			if !w.Free {
				tx.Append(fact.EffectSettled{Effect: w.Key})
			}
			return decide(tx)
		})
		if w.Free || !errors.Is(err, journal.ErrClock) && !errors.Is(err, journal.ErrFull) {
			return err
		}
		if first {
			r.Log.Warn("the result of an effect cannot be recorded yet", "effect", w.Key, "err", err)
		}
		select {
		case <-time.After(r.backOff(0)):
		case <-ctx.Done():
			return err
		}
	}
}

// act calls w.Act and meanwhile renews the claim, so that no other node takes over. If another node has claimed the effect all
// the same, since it did not see a renewal in time, the act is stopped.
func (r *Runner) act(ctx context.Context, w Work) (Decision, error) {
	if w.Free {
		return w.Act(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	done := make(chan struct{})
	defer close(done)
	renewing.Go(func() {
		every := time.NewTicker(cmp.Or(w.Lease, lease) / 2)
		defer every.Stop()
		for {
			select {
			case <-done:
				return
			case <-every.C:
			}
			if err := r.renew(context.WithoutCancel(ctx), w); errors.Is(err, errNotOurs) {
				cancel(err)
				return
			} else if err != nil {
				r.Log.Warn("a claim could not be renewed", "effect", w.Key, "err", err)
			}
		}
	})
	decide, err := w.Act(ctx)
	if errors.Is(context.Cause(ctx), errNotOurs) {
		return nil, errNotOurs
	}
	return decide, err
}

// renew extends the claim by a lease, if it is still ours.
func (r *Runner) renew(ctx context.Context, w Work) error {
	ours := false
	err := r.Journal.Do(ctx, w.Guard, w.Key, func(tx *journal.Tx) error {
		ours = r.Claims.get(w.Key).Node == r.Node
		if ours {
			until := tx.Now().Add(cmp.Or(w.Lease, lease)).UnixMilli()
			tx.Append(fact.EffectRenewed{Effect: w.Key, Node: r.Node, Until: until})
		}
		return nil
	})
	if err == nil && !ours {
		return errNotOurs
	}
	return err
}

// claim claims an effect, or parks it if it was tried too often. If the step has made a claim in this process (Claim), that is
// used. If the effect was settled after the entry seen, it may not be due any more: then claim fails, and the sources are called
// again.
func (r *Runner) claim(ctx context.Context, w Work, seen uint64) error {
	now := r.Claims.get(w.Key)
	r.mu.Lock()
	unused := r.acted[w.Key] != now.Seq || r.failed[w.Key].later
	fresh := now.Node == r.Node && now.Seq > r.born && now.Parked == "" && unused
	if fresh {
		r.acted[w.Key] = now.Seq
	}
	r.mu.Unlock()
	if fresh {
		return nil
	}
	taken := false
	err := r.Journal.Do(ctx, w.Guard, w.Key, func(tx *journal.Tx) error {
		taken = !r.Claims.settledAfter(w.Key, seen) && r.decideClaim(tx, w)
		return nil
	})
	if err != nil {
		return err
	}
	if !taken {
		return errNotOurs
	}
	r.mu.Lock()
	r.acted[w.Key] = r.Claims.get(w.Key).Seq
	r.mu.Unlock()
	return nil
}

func (r *Runner) decideClaim(tx *journal.Tx, w Work) bool {
	c := r.Claims.get(w.Key)
	switch {
	case c.Parked != "":
		return false
	case c.Node != "" && c.Node != r.Node && c.Until > tx.Now().UnixMilli():
		return false
	}
	failed := r.reason(w.Key)
	if reason := w.enough(c.again(failed), failed); reason != "" {
		tx.Append(fact.EffectParked{Effect: w.Key, Reason: reason})
		if w.Park != nil {
			w.Park(tx, reason)
		}
		return false
	}
	until := tx.Now().Add(cmp.Or(w.Lease, lease)).UnixMilli()
	tx.Append(fact.EffectClaimed{Effect: w.Key, Node: r.Node, Until: until, Failed: failed})
	return true
}

// enough returns why an effect is not tried again after so many tries, "" if it is.
func (w Work) enough(c claim, failed string) string {
	switch {
	case c.Failed >= cmp.Or(w.Tries, tries):
		return cmp.Or(failed, "it failed too often")
	case c.Died >= cmp.Or(w.Deaths, deaths):
		return fmt.Sprintf("the node died %d times at it", c.Died)
	}
	return ""
}

// reason returns why the last try in this process failed, "" if it did not.
func (r *Runner) reason(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.failed[key]; f.err != nil {
		return guild.Cut(f.err.Error(), 500)
	}
	return ""
}
