package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blossom"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// Due lists what is due for the open jobs. It implements due.Source.
//
// It is a function of the state, and remembers nothing of what it listed before. That is what makes a restart safe: the
// next process folds the same facts and finds the same work due, under the same keys. A try that died with its process
// left no fact of its end, so it is due again; every effect here can bear being done twice.
func (j *Jobs) Due(now time.Time) []due.Work {
	var work []due.Work
	lines := map[string]line{}
	for _, job := range j.fold.active() {
		more, waits := j.dueFor(job, now)
		if waits {
			lines[job.Task] = append(lines[job.Task], place{job.Seq, job.Job})
		}
		work = append(work, more...)
	}
	j.lining.Lock()
	j.lines = lines
	j.lining.Unlock()
	return append(work, j.dueForBids()...)
}

// DueUnder lists what is due for the jobs of some guards. What happened under them may be why a provider can be asked for other
// jobs, as it has a free place or is trusted now. So the jobs at both ends of the lines that wait for a provider are looked at,
// too. It is the Under of a due.Large.
func (j *Jobs) DueUnder(guards []fact.Subject, now time.Time) []due.Work {
	var work []due.Work
	looked := map[guild.JobID]bool{}
	look := func(id guild.JobID) {
		job, open := j.fold.open(id)
		if looked[id] {
			return
		}
		looked[id] = true
		var waits bool
		if open {
			var more []due.Work
			more, waits = j.dueFor(job, now)
			work = append(work, more...)
		}
		if job != nil {
			j.lineUp(job, waits)
		}
	}
	for _, guard := range guards {
		digits, isJob := strings.CutPrefix(string(guard), "job.")
		if id, err := guild.ParseJobID(digits); isJob && err == nil {
			look(id)
		}
	}
	for _, id := range j.lineEnds() {
		look(id)
	}
	return append(work, j.dueForBids()...)
}

const (
	lineEnd  = 8  // jobs at each end of a line
	lineTask = 16 // tasks whose lines are looked at
)

// lineEnds returns the jobs that have waited longest for a provider, and those that began last.
func (j *Jobs) lineEnds() (ids []guild.JobID) {
	j.lining.Lock()
	defer j.lining.Unlock()
	tasks := 0
	for _, line := range j.lines {
		tasks++
		if tasks > lineTask {
			return ids
		}
		for _, ends := range [][]place{line[:min(lineEnd, len(line))], line[max(0, len(line)-lineEnd):]} {
			for _, p := range ends {
				ids = append(ids, p.job)
			}
		}
	}
	return ids
}

// line lists open jobs for one task that wait for a provider, the oldest first.
type line []place

type place struct {
	seq uint64 // entry that opened the job
	job guild.JobID
}

// lineUp adds a job to the line of its task, or removes it.
func (j *Jobs) lineUp(job *Job, waits bool) {
	j.lining.Lock()
	defer j.lining.Unlock()
	line := j.lines[job.Task]
	at, there := slices.BinarySearchFunc(line, job.Seq, func(p place, seq uint64) int { return cmp.Compare(p.seq, seq) })
	switch {
	case waits && !there:
		j.lines[job.Task] = slices.Insert(line, at, place{job.Seq, job.Job})
	case !waits && there && len(line) == 1:
		delete(j.lines, job.Task)
	case !waits && there:
		j.lines[job.Task] = slices.Delete(line, at, at+1)
	}
}

// dueFor lists what is due for a job. waits says that it needs another provider, or the result of another job.
func (j *Jobs) dueFor(job *Job, now time.Time) (work []due.Work, waits bool) {
	if job.Shredded != 0 && job.Erased == 0 {
		return []due.Work{j.erase(job)}, false
	}
	v := j.view(job, now)
	stops := v.stops()
	for _, a := range job.Attempts {
		work = j.dueForAttempt(work, job, a, stops)
	}
	if _, never := v.hopeless(); never && job.Ending == guild.Open && len(job.Attempts) == 0 {
		return append(work, j.conclude(job, time.Time{})), false
	}
	if w, waits := j.dueForInputs(job); waits {
		return append(work, w), true
	}
	offers, hears := j.dueForOffers(job, now)
	work = append(work, offers...)
	if w, ok := j.dueForJob(v, stops); ok && !hears {
		work = append(work, w)
	}
	return work, job.Ending == guild.Open && !stops && !hears && v.missing() > 0
}

func (j *Jobs) dueForAttempt(work []due.Work, job *Job, a Attempt, stops bool) []due.Work {
	switch {
	case a.State.Waiting() && stops:
		work = append(work, j.cancel(job, a))
	case a.State == guild.Planned:
		work = append(work, j.publish(job, a), j.expire(job, a, job.deadline(), "the job's deadline passed"))
	case a.State.Waiting():
		if w, ok := j.retry(job, a); ok {
			work = append(work, w)
		}
		work = j.giveUp(work, job, a)
	case a.State == guild.Delivered && a.Away != nil:
		work = append(work, j.fetch(job, a), j.abandon(job, a, stops))
	case job.Cancelled && a.live():
		work = append(work, j.drop(job, a))
	}
	if a.Answer != nil && j.isOld(job, a) {
		work = append(work, j.restore(job, a))
	}
	if a.untold() {
		work = append(work, j.withdraw(job, a))
	}
	return work
}

// dueForJob decides what the job as a whole needs next: a comparison, another provider, or its end. Conclusions are due at
// the time when they become true, unless something happens before; then the next look replaces them.
func (j *Jobs) dueForJob(v *view, stops bool) (due.Work, bool) {
	if v.Ending != guild.Open {
		i := v.index(v.uncounted())
		if i < 0 {
			return due.Work{}, false
		}
		return j.compare(v.Job, v.Attempts[i]), true
	}
	if _, ends := v.end(); ends {
		return j.conclude(v.Job, time.Time{}), true
	}
	if i := v.index(v.next()); i >= 0 && !v.enough() {
		return j.compare(v.Job, v.Attempts[i]), true
	}
	if stops || v.missing() <= 0 || !v.now.Before(v.deadline()) {
		return due.Work{}, false
	}
	for _, a := range v.Attempts {
		if a.Deletion != nil && !a.Withdrawn {
			return due.Work{}, false // its provider is told to stop first
		}
	}
	_, lost := v.lost()
	who := v.field()
	switch {
	case lost:
		return j.conclude(v.Job, v.patience()), true // unless a provider appears
	case who.best != nil && j.c.UpToDate != nil && !j.c.UpToDate(v.Task):
		return due.Work{}, false // trust will learn, and its fact leads here again
	case who.best != nil:
		if until := v.asks().until; !until.IsZero() {
			return j.conclude(v.Job, sooner(until, v.deadline())), true // unless the budgets allow it before
		}
		return j.ask(v.Job, *who.best), true
	case who.count > 0 && who.when.Before(v.deadline()):
		return j.conclude(v.Job, who.when), true // a provider may be asked then
	case who.count > 0:
		return j.conclude(v.Job, v.deadline()), true
	case v.now.Before(v.heard()):
		return j.conclude(v.Job, v.patience()), true
	}
	return due.Work{}, false // the providers that were asked are enough
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// decideClose ends the job for a reason that is not in its attempts, unless one is live or was added.
func (j *Jobs) decideClose(tx *journal.Tx, job *Job, ending guild.Ending, reason string) error {
	now, ok := j.fold.Job(job.Job)
	if !ok || now.Ending != guild.Open || len(now.Attempts) != len(job.Attempts) {
		return nil
	}
	if c := now.count(); c.live == 0 && c.uncompared == 0 {
		tx.Append(fact.JobClosed{Job: job.Job, Ending: ending, Reason: reason})
	}
	return nil
}

// plan signs the request and records it together with our claim on publishing it.
func (j *Jobs) plan(job *Job, o guild.Offer, bid guild.Msat) due.Work {
	return due.Work{
		Key: "plan " + job.Job.String(), Guard: fact.JobSubject(job.Job), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			o, bid, choice := j.settleOn(job, o, bid)
			if choice == nil {
				return func(*journal.Tx) error { return nil }, nil // the provider is full by now; the next look finds another
			}
			planned, err := j.request(ctx, job, o, bid)
			planned.Choice = choice
			if err != nil {
				j.choosing.Lock()
				j.releaseSlot(job.Job)
				j.choosing.Unlock()
			}
			if lost, ok := errors.AsType[lostError](err); ok {
				return j.parkLost(job, lost), nil
			}
			if err != nil {
				return nil, err
			}
			return func(tx *journal.Tx) error {
				now, ok := j.fold.Job(job.Job)
				if !ok || len(now.Attempts) != len(job.Attempts) {
					return nil
				}
				if had, ok := j.fold.reserved(now); j.limited(job.Task, bid) && (!ok || had < bid) {
					return nil
				}
				if v := j.view(now, tx.Now()); v.stops() || v.missing() <= 0 || !j.admit(planned, tx.Now()) {
					return nil
				}
				tx.Append(planned)
				due.Claim(tx, due.Publishing(planned.Attempt), j.c.Node)
				return nil
			}, nil
		},
	}
}

const deleting = "publish the deletion of "

func withdrawing(attempt nostr.ID) string { return deleting + attempt.Hex() }

// deletionOf reads what withdrawing wrote.
func deletionOf(effect string) (nostr.ID, bool) {
	digits, ok := strings.CutPrefix(effect, deleting)
	if !ok {
		return nostr.ID{}, false
	}
	id, err := nostr.IDFromHex(digits)
	return id, err == nil
}

// publish sends the request to relays. It may be done again at any time, because the event, and so its id, is the same.
func (j *Jobs) publish(job *Job, a Attempt) due.Work {
	return due.Work{
		Key: due.Publishing(a.ID), Guard: fact.JobSubject(job.Job), Lease: 2 * time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			relays, err := j.climb(ctx, a)
			if err != nil {
				return nil, err
			}
			return func(tx *journal.Tx) error {
				if now, _, ok := j.fold.Attempt(a.ID); ok && now.State == guild.Planned {
					silence := j.patienceWith(job, tx.Now())
					tx.Append(fact.AttemptRequested{Attempt: a.ID, Relays: relays, Silence: silence.UnixMilli()})
				}
				return nil
			}, nil
		},
		Park: func(tx *journal.Tx, reason string) {
			now, _, ok := j.fold.Attempt(a.ID)
			switch {
			case !ok || now.State != guild.Planned:
			case now.Heard > 0: // no relay confirmed it, but the provider has it
				tx.Append(fact.AttemptRequested{Attempt: a.ID, Relays: a.Planned.Relays, Silence: now.Silence})
			default:
				tx.Append(fact.AttemptParked{Attempt: a.ID, Reason: "no relay took the request: " + reason})
			}
		},
	}
}

func (j *Jobs) cancel(job *Job, a Attempt) due.Work {
	return due.Work{
		Key: "cancel " + a.ID.Hex(), Guard: fact.JobSubject(job.Job), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			deletion, err := j.deletion(ctx, a, "no longer needed")
			if err != nil {
				return nil, err
			}
			return func(tx *journal.Tx) error {
				now, job, ok := j.fold.Attempt(a.ID)
				if ok && now.State.Waiting() && j.view(job, tx.Now()).stops() {
					tx.Append(fact.AttemptCancelled{Attempt: a.ID, Deletion: deletion})
				}
				return nil
			}, nil
		},
	}
}

// drop ends an attempt whose delivery is here and gets no verdict any more, because the customer has cancelled the job.
// There is no deletion, because the provider has nothing left to do.
func (j *Jobs) drop(job *Job, a Attempt) due.Work {
	return due.Decide("drop "+a.ID.Hex(), fact.JobSubject(job.Job), time.Time{}, func(tx *journal.Tx) error {
		if now, job, ok := j.fold.Attempt(a.ID); ok && job.Cancelled && now.live() && !now.State.Waiting() {
			tx.Append(fact.AttemptCancelled{Attempt: a.ID})
		}
		return nil
	})
}

// withdraw publishes the kind 5 event that tells the provider to stop, or to wait no longer for its price. The latter is in no fact: a
// second one after a restart does no harm.
func (j *Jobs) withdraw(job *Job, a Attempt) due.Work {
	return due.Work{
		Key: withdrawing(a.ID), Guard: fact.JobSubject(job.Job), Tries: 2,
		Act: func(ctx context.Context) (due.Decision, error) {
			deletion := a.Deletion
			if deletion == nil {
				unpaid, err := j.deletion(ctx, a, "its price is not paid")
				if err != nil {
					return nil, err
				}
				deletion = unpaid
			}
			e, err := j.outbox.Own(*deletion)
			if err != nil {
				return nil, fmt.Errorf("the deletion of %.8s: %w", a.ID.Hex(), err)
			}
			ctx, cancel := context.WithTimeout(ctx, j.c.Patience.Ladder[0])
			defer cancel()
			if err := j.c.Network.Publish(ctx, e, slices.Concat(a.Planned.Relays, j.c.Network.Relays())); err != nil {
				return nil, err
			}
			return func(*journal.Tx) error { return nil }, nil
		},
	}
}

// fetch downloads a delivery that was too large for an event.
func (j *Jobs) fetch(job *Job, a Attempt) due.Work {
	return due.Work{
		Key: "fetch the delivery of " + a.ID.Hex(), Guard: fact.JobSubject(job.Job), Lease: 10 * time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			refusal, err := j.bring(ctx, a)
			if err != nil {
				return nil, err
			}
			return func(tx *journal.Tx) error {
				now, _, ok := j.fold.Attempt(a.ID)
				switch {
				case !ok || now.State != guild.Delivered || now.Away == nil:
				case refusal != "":
					tx.Append(fact.AttemptRefused{Attempt: a.ID, Reason: refusal})
				default:
					tx.Append(fact.AttemptFetched{Attempt: a.ID})
				}
				return nil
			}, nil
		},
		Park: func(tx *journal.Tx, reason string) {
			tx.Append(fact.AttemptParked{Attempt: a.ID, Reason: "the delivery cannot be fetched: " + reason})
		},
	}
}

// abandon gives up a delivery that could not be fetched by the job's deadline, or is no longer needed.
func (j *Jobs) abandon(job *Job, a Attempt, stops bool) due.Work {
	ready, reason := job.deadline(), "the delivery could not be fetched before the job's deadline"
	if stops {
		ready, reason = time.Time{}, "no longer needed"
	}
	return due.Decide("abandon "+a.ID.Hex(), fact.JobSubject(job.Job), ready, func(tx *journal.Tx) error {
		if now, _, ok := j.fold.Attempt(a.ID); ok && now.State == guild.Delivered && now.Away != nil {
			tx.Append(fact.AttemptRefused{Attempt: a.ID, Reason: reason})
		}
		return nil
	})
}

// bring downloads and stores a delivery. The refusal says why it is not to be judged, as in declined.
func (j *Jobs) bring(ctx context.Context, a Attempt) (refusal string, err error) {
	r, err := j.c.Fetch(ctx, *a.Away, a.Delivery, a.Size)
	if errors.Is(err, blossom.ErrWrongContent) || errors.Is(err, blossom.ErrSealBroken) || errors.Is(err, blossom.ErrTooLarge) {
		return fmt.Sprintf("the delivery is not what the result names: %v", err), nil // it never will be
	}
	if err != nil {
		return "", err
	}
	defer r.Close()
	hash, _, err := j.c.Blobs.Put(ctx, r)
	if err != nil {
		return "", err
	}
	if hash != a.Delivery {
		return "", fmt.Errorf("the download has the hash %s, want %s", hash, a.Delivery)
	}
	bundle, err := j.c.Blobs.ReadAll(hash, maxDelivery)
	if err != nil {
		return "", err
	}
	return declined(bundle), nil
}
