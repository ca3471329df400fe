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
	"guild/internal/blossom"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/journal"
)

// Due lists what is due for the jobs that go on. It implements due.Source.
func (j *Jobs) Due(now time.Time) []due.Work {
	var work []due.Work
	for _, job := range j.fold.active() {
		for _, a := range job.Attempts {
			work = j.dueForAttempt(work, job, a)
		}
		if offers, waits := j.dueForOffers(job, now); waits && job.Ending == guild.Open && !job.Cancelled {
			work = append(work, offers...)
		} else if w, ok := j.dueForJob(job, now); ok {
			work = append(work, w)
		}
	}
	return work
}

func (j *Jobs) dueForAttempt(work []due.Work, job *Job, a Attempt) []due.Work {
	switch {
	case a.State == guild.Planned && job.Cancelled:
		work = append(work, j.cancel(job, a))
	case a.State == guild.Planned:
		work = append(work, j.publish(job, a), j.expire(job, a, job.deadline(), "the job's deadline passed"))
	case a.State.Waiting() && job.Cancelled:
		work = append(work, j.cancel(job, a))
	case a.State.Waiting():
		work = append(work, j.expireAsked(job, a))
	case a.State == guild.Delivered && a.Away != nil:
		work = append(work, j.fetch(job, a), j.abandon(job, a))
	}
	if a.Answer != nil && j.isOld(job, a) {
		work = append(work, j.restore(job, a))
	}
	if a.Deletion != nil && !a.Withdrawn {
		work = append(work, j.withdraw(job, a))
	}
	return work
}

// dueForJob decides what the job as a whole needs: another provider, or its end.
func (j *Jobs) dueForJob(job *Job, now time.Time) (due.Work, bool) {
	if _, live := job.live(); live || job.Ending != guild.Open {
		return due.Work{}, false
	}
	ending := guild.EndingOf(job.vocabulary())
	switch {
	case ending == guild.JobAccepted:
		return j.close(job, ending, ""), true
	case job.Cancelled:
		return j.close(job, guild.JobCancelled, "cancelled by the customer"), true
	case len(job.Attempts) > 0 && !now.Before(job.deadline()):
		return j.close(job, timedOut(ending), "the deadline passed"), true
	case len(job.Attempts) >= job.Tries:
		return j.close(job, ending, fmt.Sprintf("%d of %d tries used; the last: %s", len(job.Attempts), job.Tries, job.Attempts[len(job.Attempts)-1].why())), true
	}
	return j.next(job, now)
}

// timedOut is what a job comes to at its deadline: a judged delivery still counts for what it was.
func timedOut(e guild.Ending) guild.Ending {
	if e == guild.JobUnclaimed {
		return guild.JobTimedOut
	}
	return e
}

// next plans the next attempt, waits for a provider to appear, or gives up.
func (j *Jobs) next(job *Job, now time.Time) (due.Work, bool) {
	for _, a := range job.Attempts {
		if a.Deletion != nil && !a.Withdrawn {
			return due.Work{}, false // the old one is told first
		}
	}
	choice, why := j.choose(job, now)
	if choice == nil && len(job.Attempts) > 0 {
		why = job.Attempts[len(job.Attempts)-1].why() + "; " + why
	}
	if choice == nil || !now.Before(job.deadline()) {
		return j.giveUp(job, now, cmp.Or(why, "the deadline passed before anybody was asked")), true
	}
	return j.plan(job, *choice), true
}

func (j *Jobs) giveUp(job *Job, now time.Time, why string) due.Work {
	ending := guild.EndingOf(job.vocabulary())
	patience := time.UnixMilli(job.At).Add(j.c.Patience.Discover)
	switch {
	case len(job.Attempts) > 0:
		patience = now
	case job.deadline().Before(patience):
		patience = job.deadline()
	}
	w := j.close(job, ending, why)
	w.Ready = patience
	w.Act = func(context.Context) (due.Decision, error) {
		return func(tx *journal.Tx) error {
			choice, _ := j.choose(job, tx.Now())
			if choice != nil && tx.Now().Before(job.deadline()) {
				return nil // somebody came after all
			}
			return j.decideClose(tx, job, ending, why)
		}, nil
	}
	return w
}

func (j *Jobs) close(job *Job, ending guild.Ending, reason string) due.Work {
	return due.Decide("close "+job.Job.String(), fact.JobSubject(job.Job), time.Time{}, func(tx *journal.Tx) error {
		return j.decideClose(tx, job, ending, reason)
	})
}

// decideClose ends the job if it is still as it was when its end was due.
func (j *Jobs) decideClose(tx *journal.Tx, job *Job, ending guild.Ending, reason string) error {
	if now, ok := j.fold.Job(job.Job); ok && now == job {
		tx.Append(fact.JobClosed{Job: job.Job, Ending: ending, Reason: reason})
	}
	return nil
}

// plan signs the request and records it together with our claim on publishing it.
func (j *Jobs) plan(job *Job, o guild.Offer) due.Work {
	return due.Work{
		Key: "plan " + job.Job.String(), Guard: fact.JobSubject(job.Job), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			planned, err := j.request(ctx, job, o)
			if lost, ok := errors.AsType[lostError](err); ok {
				return j.parkLost(job, lost), nil
			}
			if err != nil {
				return nil, err
			}
			return func(tx *journal.Tx) error {
				if now, ok := j.fold.Job(job.Job); !ok || now != job {
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

// publish hands the request to relays. It may be done again at any time: the event, and so its id, is the same.
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
					silence := tx.Now().Add(j.c.Patience.Silence).UnixMilli()
					tx.Append(fact.AttemptRequested{Attempt: a.ID, Relays: relays, Silence: silence})
				}
				return nil
			}, nil
		},
		Park: func(tx *journal.Tx, reason string) {
			switch now, _, ok := j.fold.Attempt(a.ID); {
			case !ok || now.State != guild.Planned:
			case now.Heard > 0: // no relay said so, but the provider has it
				tx.Append(fact.AttemptRequested{Attempt: a.ID, Relays: a.Planned.Relays, Silence: now.Silence})
			default:
				tx.Append(fact.AttemptParked{Attempt: a.ID, Reason: "no relay took the request: " + reason})
			}
		},
	}
}

// climb is the delivery ladder (the partnership protocol, section 2.3.2): the relay that the provider likes
// best, then the next, then all we have.
func (j *Jobs) climb(ctx context.Context, a Attempt) ([]string, error) {
	request, err := j.own(a.Planned.Request)
	if err != nil {
		return nil, fmt.Errorf("the planned request: %w", err)
	}
	ours, hints := j.c.Relays(), a.Planned.Relays
	for i, rung := range rungs(hints, ours) {
		step, cancel := context.WithTimeout(ctx, j.c.Patience.Ladder[i])
		err = j.c.Publish(step, request, rung)
		cancel()
		if err == nil {
			return rung, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, err
}

func rungs(hints, ours []string) [3][]string {
	all := slices.Concat(hints, ours)
	rungs := [3][]string{all, all, all}
	if len(hints) > 0 {
		rungs[0] = hints[:1]
	}
	if len(hints) > 1 {
		rungs[1] = hints[1:2]
	}
	return rungs
}

// expireAsked ends the attempt when the provider's silence or the job's deadline has run out.
func (j *Jobs) expireAsked(job *Job, a Attempt) due.Work {
	silence, reason := time.UnixMilli(a.Silence), "silent for too long"
	if a.Heard == 0 {
		reason = "no answer"
	}
	if job.deadline().Before(silence) {
		silence, reason = job.deadline(), "the job's deadline passed"
	}
	return j.expire(job, a, silence, reason)
}

func (j *Jobs) expire(job *Job, a Attempt, when time.Time, reason string) due.Work {
	return due.Work{
		Key: "expire " + a.ID.Hex(), Guard: fact.JobSubject(job.Job), Ready: when, Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			deletion, err := j.deletion(ctx, a, reason)
			if err != nil {
				return nil, err
			}
			return func(tx *journal.Tx) error {
				now, _, ok := j.fold.Attempt(a.ID)
				if ok && now.State == a.State && now.Silence == a.Silence {
					tx.Append(fact.AttemptExpired{Attempt: a.ID, Reason: reason, Deletion: deletion,
						Silent: now.Heard == 0 && now.State == guild.Requested})
				}
				return nil
			}, nil
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
				if now, _, ok := j.fold.Attempt(a.ID); ok && now.State.Waiting() {
					tx.Append(fact.AttemptCancelled{Attempt: a.ID, Deletion: deletion})
				}
				return nil
			}, nil
		},
	}
}

// withdraw publishes the kind 5 event, so that nobody works for nothing.
func (j *Jobs) withdraw(job *Job, a Attempt) due.Work {
	return due.Work{
		Key: withdrawing(a.ID), Guard: fact.JobSubject(job.Job), Tries: 2,
		Act: func(ctx context.Context) (due.Decision, error) {
			e, err := j.own(*a.Deletion)
			if err != nil {
				return nil, fmt.Errorf("the deletion of %.8s: %w", a.ID.Hex(), err)
			}
			ctx, cancel := context.WithTimeout(ctx, j.c.Patience.Ladder[0])
			defer cancel()
			if err := j.c.Publish(ctx, e, slices.Concat(a.Planned.Relays, j.c.Relays())); err != nil {
				return nil, err
			}
			return func(*journal.Tx) error { return nil }, nil
		},
	}
}

// fetch brings a delivery that was too large for an event.
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

// abandon gives a delivery up that could not be fetched by the job's deadline, or that nobody wants any more.
func (j *Jobs) abandon(job *Job, a Attempt) due.Work {
	ready, reason := job.deadline(), "the delivery could not be fetched before the job's deadline"
	if job.Cancelled {
		ready, reason = time.Time{}, "no longer needed"
	}
	return due.Decide("abandon "+a.ID.Hex(), fact.JobSubject(job.Job), ready, func(tx *journal.Tx) error {
		if now, _, ok := j.fold.Attempt(a.ID); ok && now.State == guild.Delivered && now.Away != nil {
			tx.Append(fact.AttemptRefused{Attempt: a.ID, Reason: reason})
		}
		return nil
	})
}

// bring stores the delivery, and says why it is none when its own status does.
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
		return "", fmt.Errorf("what came is %s, not %s", hash, a.Delivery)
	}
	bundle, err := j.c.Blobs.ReadAll(hash, maxDelivery)
	if err != nil {
		return "", err
	}
	return declined(bundle), nil
}
