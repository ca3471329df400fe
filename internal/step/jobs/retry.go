package jobs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// climb publishes a request to more and more relays until one takes it (the partnership protocol, section 2.3.2).
func (j *Jobs) climb(ctx context.Context, a Attempt) (relays []string, err error) {
	request, err := j.outbox.Own(a.Planned.Request)
	if err != nil {
		return nil, fmt.Errorf("the planned request: %w", err)
	}
	for i := range j.c.Patience.Ladder {
		if relays, err = j.step(ctx, a, request, i); err == nil || ctx.Err() != nil {
			return relays, err
		}
	}
	return nil, err
}

// step publishes a request on one rung of the ladder, after the metadata that it names.
func (j *Jobs) step(ctx context.Context, a Attempt, request guild.Verified, rung int) ([]string, error) {
	relays := rungs(a.Planned.Relays, j.c.Network.Rank(j.c.Network.Relays()))[rung]
	ctx, cancel := context.WithTimeout(ctx, j.c.Patience.Ladder[rung])
	defer cancel()
	for _, file := range a.Planned.Files {
		metadata, err := j.outbox.Own(file)
		if err != nil {
			return nil, fmt.Errorf("the metadata %.8s: %w", file.ID.Hex(), err)
		}
		// A relay that takes no metadata may take the request all the same, and its URLs are enough for most providers.
		_ = j.c.Network.Publish(ctx, metadata, relays)
	}
	return relays, j.c.Network.Publish(ctx, request, relays)
}

// rungs returns the relays of each step: the provider's first, its second or else our first, then all. If it names none,
// every step has all of ours. The provider's were ranked when the attempt was planned: a failure in between must not bring
// the first one back as the second.
func rungs(hints, ours []string) [3][]string {
	var all []string
	for _, url := range slices.Concat(hints, ours) {
		if !slices.Contains(all, url) {
			all = append(all, url)
		}
	}
	rungs := [3][]string{all, all, all}
	if len(hints) > 0 {
		rungs[0] = hints[:1]
		rungs[1] = slices.Concat(hints[1:], ours)
		rungs[1] = rungs[1][:min(len(rungs[1]), 1)]
	}
	return rungs
}

const publishingAgain = "publish again "

// again returns the key of the effect that publishes a request for the nth time after the first.
func again(attempt nostr.ID, n int) string {
	return fmt.Sprintf("%s%d %s", publishingAgain, n, attempt.Hex())
}

// againOf reads what again wrote.
func againOf(effect string) (nostr.ID, bool) {
	rest, ok := strings.CutPrefix(effect, publishingAgain)
	_, digits, spaced := strings.Cut(rest, " ")
	if !ok || !spaced {
		return nostr.ID{}, false
	}
	id, err := nostr.IDFromHex(digits)
	return id, err == nil
}

// retry publishes the same event to a silent provider again, one rung further up, because a relay that took it may not
// have passed it on.
func (j *Jobs) retry(job *Job, a Attempt) (due.Work, bool) {
	if a.Again >= len(j.c.Patience.Retries) || a.Heard > 0 || a.State != guild.Requested {
		return due.Work{}, false
	}
	ready := time.UnixMilli(a.Asked)
	for n := range a.Again + 1 {
		ready = ready.Add(jitter(a.ID, n, j.c.Patience.Retries[n]))
	}
	if !ready.Before(job.deadline()) || !ready.Before(time.UnixMilli(a.Silence)) {
		return due.Work{}, false
	}
	return due.Work{
		Key: again(a.ID, a.Again+1), Guard: fact.JobSubject(job.Job), Ready: ready, Tries: 1,
		Act: func(ctx context.Context) (due.Decision, error) {
			request, err := j.outbox.Own(a.Planned.Request)
			if err != nil {
				return nil, fmt.Errorf("the planned request: %w", err)
			}
			if _, err := j.step(ctx, a, request, min(a.Again+1, len(j.c.Patience.Ladder)-1)); err != nil {
				return nil, err
			}
			return func(*journal.Tx) error { return nil }, nil
		},
	}, true
}

// jitter returns d ± 20 %. It follows from the attempt, so that a restart does not change it.
func jitter(id nostr.ID, n int, d time.Duration) time.Duration {
	const most = 1<<16 - 1
	random := time.Duration(binary.BigEndian.Uint16(id[2*n:]))
	return d*4/5 + d*2/5*random/most
}

// patienceWith returns the time at which a new attempt is given up if the provider is silent: after the configured time
// times the factor of the task, and at the job's deadline at the latest (the partnership protocol, section 5.3.2).
func (j *Jobs) patienceWith(job *Job, now time.Time) time.Time {
	silence := j.c.Patience.Silence
	if j.c.Variables != nil {
		if factor := j.c.Variables.Timeout(job.Task); factor > 0 {
			silence = time.Duration(silence.Milliseconds()*int64(factor)/guild.Micro) * time.Millisecond
		}
	}
	return sooner(now.Add(min(silence, job.deadline().Sub(now))), job.deadline())
}

// giveUp ends the attempt when the time for feedback, for the result, or for the job has run out. Before that the relays
// are asked for answers that we may have missed. While none of them answers, the provider is not to blame, and the
// attempt waits until the job's deadline.
func (j *Jobs) giveUp(work []due.Work, job *Job, a Attempt) []due.Work {
	until, reason := time.UnixMilli(a.Silence), "silent for too long"
	switch {
	case a.Claimed > 0:
		until, reason = time.UnixMilli(a.Claimed).Add(j.c.Patience.Result), "said that it was done, and no result came"
	case a.Broke != "":
		reason = a.Broke + ", and nothing else"
	case a.Heard == 0:
		reason = "no answer"
	}
	until = j.audible(until, job)
	if !until.Before(job.deadline()) {
		return append(work, j.expire(job, a, job.deadline(), "the job's deadline passed"))
	}
	expire := j.expire(job, a, until, reason)
	give := expire.Act
	expire.Act = func(ctx context.Context) (due.Decision, error) {
		if err := j.look(ctx, job, a); err != nil {
			return nil, err
		}
		return give(ctx)
	}
	late := j.expire(job, a, job.deadline(), "the job's deadline passed") // if it cannot be looked for
	late.Key += " at the deadline"
	return append(work, expire, late)
}

// audible extends our patience while no answer can reach us. Once answers can, the provider has as much time as after a
// feedback.
func (j *Jobs) audible(until time.Time, job *Job) time.Time {
	since := j.c.Network.Hears()
	if since.IsZero() {
		return job.deadline()
	}
	if again := since.Add(j.c.Patience.Extend); again.After(until) && since.After(time.UnixMilli(job.At)) {
		return again
	}
	return until
}

// look asks the relays for the provider's answers and takes them: the result, or without one its feedback. The two are
// asked for separately, so that much feedback does not crowd out the result.
func (j *Jobs) look(ctx context.Context, job *Job, a Attempt) error {
	relays := rungs(a.Planned.Relays, j.c.Network.Relays())[2]
	for _, kind := range [...]nostr.Kind{nostr.Kind(a.answersIn(job)), nip90.KindFeedback} {
		found, err := j.c.Network.Look(ctx, a.Provider.PubKey, a.ID, kind, relays)
		if err != nil {
			return fmt.Errorf("look for an answer to %.8s: %w", a.ID.Hex(), err)
		}
		for _, v := range found {
			err := j.Observe(ctx, v)
			if _, dropped := errors.AsType[*guild.DropError](err); err != nil && !dropped {
				return err
			}
		}
		if now, _, ok := j.fold.Attempt(a.ID); !ok || !now.State.Waiting() {
			return nil
		}
	}
	return nil
}

// expire ends an attempt at a time, unless it has changed until then. Only a provider that could have reached us counts as
// silent.
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
				if ok && now.State == a.State && now.Silence == a.Silence && now.Claimed == a.Claimed {
					tx.Append(fact.AttemptExpired{Attempt: a.ID, Reason: reason, Deletion: deletion,
						Silent: now.Heard == 0 && now.State == guild.Requested && !j.c.Network.Hears().IsZero()})
				}
				return nil
			}, nil
		},
	}
}
