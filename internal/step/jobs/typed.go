package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/judging/opinion"
	"guild/internal/judging/typed"
	"guild/nip90"
	"guild/oa"
)

// errBundled is the error for a job that must be sent as a bundle.
var errBundled = errors.New("the job is sent as a bundle")

// carryTyped signs the request of a typed job in the form that other programs know: the payload is an input, its hash the
// job hash, and there is no bundle. Any other job is errBundled, and so is one that is too large for an event.
func (j *Jobs) carryTyped(ctx context.Context, job *Job, o guild.Offer, r nip90.Request) (nostr.Event, guild.Hash, error) {
	if _, err := oa.ParseID(job.Task); err != nil {
		return nostr.Event{}, guild.Hash{}, errBundled
	}
	bundle, err := j.c.Blobs.ReadAll(job.Bundle, job.Size)
	if err != nil {
		return nostr.Event{}, guild.Hash{}, fmt.Errorf("the bundle of job %s: %w", job.Job.Short(), err)
	}
	typedJob, ok, err := typed.Requested(bundle)
	if err != nil {
		return nostr.Event{}, guild.Hash{}, fmt.Errorf("the bundle of job %s: %w", job.Job.Short(), err)
	}
	if !ok || typedJob.JobType.String() != job.Task {
		return nostr.Event{}, guild.Hash{}, errBundled
	}
	r.Unset(nip90.ParamBundleSHA256)
	r.Unset(nip90.ParamBundleSize)
	beside := r.Inputs
	r.Inputs, r.Content = nil, "" // the payload is the first input
	typedJob.AddTo(&r)
	r.Inputs = append(r.Inputs, beside...)
	e, err := j.seal(ctx, r, *r.Provider, o.Encrypts)
	if err != nil {
		return nostr.Event{}, guild.Hash{}, err
	}
	if size(e)+200 > nip90.MaxEvent { // with its id and signature
		return nostr.Event{}, guild.Hash{}, errBundled
	}
	e, err = j.outbox.Sign(ctx, e)
	return e, typedJob.JobHash, err
}

// Result returns the payload of a typed job's result: that of the chosen delivery, or if the order says so, one made of
// all accepted ones.
func (j *Jobs) Result(id guild.JobID) ([]byte, error) {
	job, ok := j.fold.Job(id)
	if !ok {
		return nil, fmt.Errorf("there is no job %s", id.Short())
	}
	if job.Compare == byMerging {
		return j.merged(job)
	}
	a, ok := job.outcome()
	if !ok {
		return nil, fmt.Errorf("job %s has no accepted result", id.Short())
	}
	return j.resultOf(a)
}

// resultOf returns the result that an attempt delivered.
func (j *Jobs) resultOf(a Attempt) ([]byte, error) {
	bundle, err := j.c.Blobs.ReadAll(a.Delivery, maxDelivery)
	if err != nil {
		return nil, fmt.Errorf("the delivery of %.8s: %w", a.ID.Hex(), err)
	}
	result := typed.Delivered(bundle)
	if result == nil {
		return nil, fmt.Errorf("the delivery of %.8s has no result of a typed job", a.ID.Hex())
	}
	return result, nil
}

// merged makes one result of all accepted ones.
func (j *Jobs) merged(job *Job) ([]byte, error) {
	bundle, err := j.c.Blobs.ReadAll(job.Bundle, job.Size)
	if err != nil {
		return nil, fmt.Errorf("the bundle of job %s: %w", job.Job.Short(), err)
	}
	e, _, err := typed.Requested(bundle)
	if err != nil {
		return nil, fmt.Errorf("the bundle of job %s: %w", job.Job.Short(), err)
	}
	q := opinion.Question{Task: job.Task, Request: json.RawMessage(e.Payload)}
	for _, a := range job.successes() {
		result, err := j.resultOf(a)
		if err != nil {
			return nil, err
		}
		q.Results = append(q.Results, result)
	}
	result, _, err := opinion.Merge(q)
	if err == nil && result == nil {
		err = fmt.Errorf("job %s: its results cannot be merged", job.Job.Short())
	}
	return result, err
}
