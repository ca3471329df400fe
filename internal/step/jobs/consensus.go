package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/oa"
)

// count sums up the attempts of a job, as far as its ending depends on them.
type count struct {
	waiting    int      // whose provider may still answer
	live       int      // those, and delivered ones without a verdict
	succeeded  int      // whose delivery was accepted
	uncompared int      // accepted, and not compared yet
	agreeing   int      // in the largest group of accepted deliveries that agree
	chosen     nostr.ID // the first of that group
	tried      int      // attempts that use up a try; a provider without capacity was not tried
}

func (j *Job) count() count {
	var c count
	for _, a := range j.Attempts {
		if a.State.Waiting() {
			c.waiting++
		}
		if a.live() {
			c.live++
		}
		if !a.Later {
			c.tried++
		}
	}
	accepted := j.successes()
	if c.succeeded = len(accepted); c.succeeded == 0 {
		return c
	}
	agreeing := map[nostr.ID]int{}
	for _, a := range accepted {
		switch {
		case j.quorum() == 1:
			agreeing[accepted[0].ID]++
		case a.Agrees == nostr.ZeroID:
			c.uncompared++
		default:
			agreeing[a.Agrees]++
		}
	}
	for _, n := range agreeing {
		c.agreeing = max(c.agreeing, n)
	}
	if i := slices.IndexFunc(accepted, func(a Attempt) bool {
		return j.quorum() == 1 || a.Agrees != nostr.ZeroID && agreeing[a.Agrees] == c.agreeing
	}); i >= 0 {
		c.chosen = accepted[i].ID
	}
	return c
}

// important reports whether a job is only for providers that are trusted with it. Where several are asked for a typed job,
// their answers are compared because they cannot be checked otherwise: nobody earns trust with such a task, so that would
// leave no one to ask.
func (j *Job) important() bool {
	_, err := oa.ParseID(j.Task)
	return j.Criticality.Replicas() > 1 && err != nil
}

// quorum returns the number of accepted deliveries that must agree.
func (j *Job) quorum() int { return oa.Adjudication(j.Compare).Quorum(j.Criticality) }

// live reports whether an attempt may still succeed: asked and not answered, or delivered and not judged. An attempt that
// is judged a second time is not live, because its first verdict counts until then.
func (a Attempt) live() bool {
	return a.State.Waiting() || a.Verdict == nil && (a.State == guild.Delivered || a.State == guild.Undecided)
}

// successes lists the attempts whose delivery was accepted, the first verdict first.
func (j *Job) successes() (accepted []Attempt) {
	for _, a := range j.Attempts {
		if s := a.stands(); s == guild.Accepted || s == guild.Paid || s == guild.Released {
			accepted = append(accepted, a)
		}
	}
	slices.SortStableFunc(accepted, func(a, b Attempt) int { return cmp.Compare(a.Over, b.Over) })
	return accepted
}

// view is one look at a job, from which every decision about it follows.
//
// Several providers may work on a job at once, and their deliveries arrive, are judged and are compared in any order. So
// nothing is decided when an event comes in. Instead each look counts the attempts anew and asks the same questions: do
// enough agree, can enough still agree, are more to be asked, and may they be asked now? A restart needs no special case:
// the same counts give the same answers. The providers that may be asked are looked for at most once in a view, and only
// if an answer depends on them.
type view struct {
	*Job
	count

	jobs *Jobs
	now  time.Time
	who  *field
}

func (j *Jobs) view(job *Job, now time.Time) *view {
	return &view{Job: job, count: job.count(), jobs: j, now: now}
}

func (v *view) field() *field {
	if v.who == nil {
		missing := v.quorum() - v.agreeing - v.uncompared - v.live
		found := v.jobs.field(v.Job, max(missing, 1), v.now)
		v.who = &found
	}
	return v.who
}

// enough reports whether the job can be accepted: a quorum of deliveries agrees.
func (v *view) enough() bool { return v.agreeing >= v.quorum() }

// lost says why the job cannot reach its quorum any more, if that is so: the providers that were asked and those that may
// be are too few.
func (v *view) lost() (why string, lost bool) {
	quorum, have := v.quorum(), v.agreeing+v.uncompared+v.live
	left := max(v.Tries-v.tried, 0)
	switch {
	case have >= quorum:
		return "", false
	case have+left < quorum:
		return fmt.Sprintf("%s%d of %d tries used%s", v.disagreement(), v.tried, v.Tries, v.last("; the last: ")), true
	case have+min(left, v.field().count) >= quorum || v.now.Before(v.heard()):
		return v.broke()
	}
	why = v.field().why
	if n := v.field().count; n > 0 {
		why = fmt.Sprintf("of %d who offer the task %q %d may be asked", v.field().offers, v.Task, n)
		if excluded := v.field().excluded.String(); excluded != "" {
			why += ": " + excluded
		}
	}
	if len(v.Attempts) == 0 && v.important() && v.field().offers > 0 {
		return fmt.Sprintf("a job of %s criticality needs %d providers that are trusted with it; %s", v.Criticality, quorum, why), true
	}
	if last := v.last(""); last != "" {
		why = last + "; " + why
	}
	return v.disagreement() + why, true
}

// last says how the latest attempt ended, "" without one.
func (v *view) last(prefix string) string {
	if len(v.Attempts) == 0 {
		return ""
	}
	return prefix + v.Attempts[len(v.Attempts)-1].why()
}

// disagreement says why accepted deliveries do not make the job accepted.
func (v *view) disagreement() string {
	if v.succeeded == 0 {
		return ""
	}
	return fmt.Sprintf("%d must agree, and of %d accepted %d do; ", v.quorum(), v.succeeded, v.agreeing)
}

// stops reports whether the providers that still work can stop: the job is over, or will be without them.
func (v *view) stops() bool {
	if v.Cancelled || v.Ending != guild.Open || v.enough() {
		return true
	}
	if v.live == 0 {
		return false // there is nobody
	}
	_, lost := v.lost()
	return lost
}

// missing returns how many more providers to ask at once: until as many are at work, or accepted, as the criticality
// wants, and if those disagree, as many as the quorum still needs.
func (v *view) missing() int {
	replicas, quorum := v.Criticality.Replicas(), v.quorum()
	return min(max(replicas-v.live-v.succeeded, quorum-v.agreeing-v.uncompared-v.live), v.Tries-v.tried)
}

// end says how the job ends, if it does now.
func (v *view) end() (closed fact.JobClosed, ends bool) {
	closed.Job = v.Job.Job
	switch {
	case v.Ending != guild.Open:
		return closed, false
	case v.enough():
		closed.Ending, closed.Reason, closed.Chosen = v.comesTo(), v.accounts(), v.chosen
		closed.Agrees = v.Attempts[v.index(v.chosen)].Agrees
		return closed, v.waiting == 0
	case v.live > 0 || v.uncompared > 0:
		return closed, false
	case v.Cancelled:
		closed.Ending, closed.Reason = guild.JobCancelled, "cancelled by the customer"
		return closed, true
	case len(v.Attempts) > 0 && !v.now.Before(v.deadline()):
		closed.Ending, closed.Reason = v.comesTo(), v.disagreement()+"the deadline passed"
		if closed.Ending == guild.JobUnclaimed { // a judged delivery still counts for what it was
			closed.Ending = guild.JobTimedOut
		}
		return closed, true
	case len(v.Attempts) == 0 && v.now.Before(v.patience()):
		why, never := v.hopeless()
		closed.Ending, closed.Reason = v.comesTo(), why
		return closed, never
	}
	why, lost := v.lost()
	if !lost && v.now.Before(v.deadline()) {
		return closed, false
	}
	closed.Ending = v.comesTo()
	closed.Reason = guild.Cut(cmp.Or(why, v.field().why, v.asks().why, "the deadline passed before anybody was asked"), 1000)
	return closed, true
}

// comesTo returns the ending of the job if nothing more is tried.
func (v *view) comesTo() guild.Ending {
	if v.quorum() == 1 {
		return guild.EndingOf(v.vocabulary())
	}
	return v.Criticality.EndingOf(v.vocabulary(), v.agreeing)
}

// accounts says for a person how one of several deliveries was chosen, and whether fewer were asked than the criticality
// wants.
func (v *view) accounts() string {
	replicas := v.Criticality.Replicas()
	if replicas == 1 {
		return ""
	}
	reason := fmt.Sprintf("%d of %d accepted agree", v.agreeing, v.succeeded)
	switch {
	case v.Compare == byOpinion:
		reason = "the one that was chosen"
	case v.Compare == byMerging:
		reason = fmt.Sprintf("%d were merged into one", v.succeeded)
	case v.quorum() == 1:
		reason = "the first that was accepted"
	}
	if asked := len(v.Attempts); asked < replicas {
		reason += fmt.Sprintf("; %d instead of %d were asked: no more could be", asked, replicas)
	}
	return reason
}

// patience returns the time until which the job waits for enough providers to appear.
func (v *view) patience() time.Time {
	until := time.UnixMilli(v.At).Add(v.jobs.c.Patience.Discover)
	if heard := v.heard(); heard.After(until) {
		until = heard
	}
	if v.deadline().Before(until) {
		return v.deadline()
	}
	return until
}

// heard returns the time from which missing providers mean something. A new process knows no provider yet; without this wait
// it would close jobs that were open when it started, or cancel their attempts, for nothing. And a provider that handed the
// job back and withdrew its announcement may only be restarting.
func (v *view) heard() time.Time {
	if !v.jobs.older[v.Job.Job] {
		return v.returns()
	}
	since := v.jobs.c.Network.Hears()
	if since.IsZero() {
		return v.deadline()
	}
	if until := since.Add(v.jobs.c.Patience.Discover); until.After(v.returns()) {
		return until
	}
	return v.returns()
}

// returns returns the time until which the job waits for a provider that had no capacity for it and then withdrew its
// announcement: twice the pause after which it would be asked again, or zero if there is no such provider.
func (v *view) returns() (until time.Time) {
	for _, a := range v.Attempts {
		back := time.UnixMilli(a.Over).Add(2 * v.jobs.c.Patience.Busy)
		if !a.Later || !back.After(until) || !v.now.Before(back) {
			continue
		}
		if !v.jobs.announces(a.Provider.PubKey, v.Task, v.Kind) {
			until = back
		}
	}
	return until
}

// conclude ends the job if that is still so when it is decided.
func (j *Jobs) conclude(job *Job, ready time.Time) due.Work {
	return due.Decide("close "+job.Job.String(), fact.JobSubject(job.Job), ready, func(tx *journal.Tx) error {
		if now, ok := j.fold.Job(job.Job); ok {
			if closed, ends := j.view(now, tx.Now()).end(); ends {
				tx.Append(closed)
			}
		}
		return nil
	})
}

// compare finds the earlier delivery of its job with which an accepted one agrees. Deliveries are compared one after the
// other, in the order of their verdicts, so that the groups do not depend on timing.
func (j *Jobs) compare(job *Job, a Attempt) due.Work {
	return due.Work{
		Key: "compare " + a.ID.Hex(), Guard: fact.JobSubject(job.Job), Free: true,
		Act: func(context.Context) (due.Decision, error) {
			compared, err := j.compareWith(job, a)
			if err != nil {
				return nil, fmt.Errorf("compare the delivery of %.8s: %w", a.ID.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				if now, ok := j.fold.Job(job.Job); ok && (now.next() == a.ID || now.uncounted() == a.ID) && slices.Equal(now.firsts(), job.firsts()) {
					tx.Append(compared)
				}
				return nil
			}, nil
		},
	}
}

// next returns the first accepted attempt that is not compared yet, or the zero id.
func (j *Job) next() nostr.ID {
	for _, a := range j.successes() {
		if j.quorum() > 1 && a.Agrees == nostr.ZeroID {
			return a.ID
		}
	}
	return nostr.ZeroID
}

// uncounted returns the first delivery to an accepted job that is paid if it agrees with the majority, and was not compared yet.
// It returns the zero id once all were compared.
func (j *Job) uncounted() nostr.ID {
	if j.Settle == nil || j.Ending != guild.JobAccepted || j.quorum() == 1 {
		return nostr.ZeroID
	}
	for _, a := range j.successes() {
		if a.Agrees == nostr.ZeroID && a.Held != nil && a.Got == 0 && !a.Back && a.Verdict != nil && !a.Verdict.Counts() {
			return a.ID
		}
	}
	return nostr.ZeroID
}

// firsts lists the accepted attempts that agreed with no earlier one: the first of each group.
func (j *Job) firsts() (firsts []nostr.ID) {
	for _, a := range j.successes() {
		if a.Agrees == a.ID {
			firsts = append(firsts, a.ID)
		}
	}
	return firsts
}

func (j *Jobs) compareWith(job *Job, a Attempt) (fact.AttemptCompared, error) {
	by, ok := parseComparer(job.Compare)
	if !ok {
		return fact.AttemptCompared{}, fmt.Errorf("compare by %.40q: unknown", job.Compare)
	}
	mine, err := j.summary(by, a)
	if err != nil {
		return fact.AttemptCompared{}, err
	}
	compared := fact.AttemptCompared{Attempt: a.ID, With: a.ID, Hash: mine.hash()}
	for _, id := range job.firsts() {
		first, err := j.summary(by, job.Attempts[job.index(id)])
		if err != nil {
			return fact.AttemptCompared{}, err
		}
		if by.agree(first, mine) {
			compared.With = id
			break
		}
	}
	return compared, nil
}

// summary reads a delivery for comparing. A delivery that is lost for good agrees with nothing.
func (j *Jobs) summary(by comparer, a Attempt) (summary, error) {
	bundle, err := j.c.Blobs.ReadAll(a.Delivery, maxDelivery)
	if gone(err) {
		return summary{}, nil
	}
	if err != nil {
		return summary{}, err
	}
	var v guild.Verdict
	if !a.Stored.IsZero() {
		raw, err := j.c.Blobs.ReadAll(a.Stored, maxVerdict)
		if err != nil && !gone(err) {
			return summary{}, err
		}
		if err == nil && json.Unmarshal(raw, &v) != nil {
			v = guild.Verdict{}
		}
	}
	return by.of(bundle, v), nil
}

func gone(err error) bool {
	return errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged) || errors.Is(err, blob.ErrTooLarge)
}
