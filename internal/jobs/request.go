package jobs

import (
	"context"
	"fmt"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/nip90"
)

// request builds and signs the request event for one provider. A provider that reads NIP-44 gets it encrypted.
func (j *Jobs) request(ctx context.Context, job *Job, o guild.Offer) (fact.AttemptPlanned, error) {
	provider := o.Service.PubKey
	r := nip90.Request{
		Kind: job.Kind, Provider: &provider, Job: job.Job.String(), Output: "application/json",
		Bid: job.Bid, Relays: j.c.Relays(), Content: job.Title,
	}
	r.Set(nip90.ParamJobType, job.Task)
	r.Set(nip90.ParamDeadline, strconv.FormatInt((job.Deadline+999)/1000, 10))
	vaulted, err := j.attachVault(ctx, job, o, &r)
	if err != nil {
		return fact.AttemptPlanned{}, err
	}
	parcel, err := j.parcel(ctx, job, o.Encrypts, nip90.MaxInline-vaulted)
	if err != nil {
		return fact.AttemptPlanned{}, err
	}
	if err := r.SetBundle(parcel); err != nil {
		return fact.AttemptPlanned{}, fmt.Errorf("request to %.8s: %w", provider.Hex(), err)
	}
	hash, err := r.JobHash()
	if err != nil {
		return fact.AttemptPlanned{}, fmt.Errorf("request to %.8s: %w", provider.Hex(), err)
	}
	r.Set(nip90.ParamJobHash, hash.Hex())

	e, err := j.wire(ctx, r, provider, o.Encrypts)
	if err != nil {
		return fact.AttemptPlanned{}, fmt.Errorf("request to %.8s: %w", provider.Hex(), err)
	}
	_, met := j.c.Trust(job.Task, o.Service)
	return fact.AttemptPlanned{
		Attempt: e.ID, Job: job.Job, Provider: o.Service, Request: e, JobHash: hash,
		Encrypted: o.Encrypts, Relays: o.Relays, Unmet: !met,
	}, nil
}

// wire signs the request. The event is remembered as signed by us, so that nobody verifies it again.
func (j *Jobs) wire(ctx context.Context, r nip90.Request, provider nostr.PubKey, encrypt bool) (e nostr.Event, err error) {
	if encrypt {
		e, err = r.Sealed(func(plain string) (string, error) { return j.c.Keyer.Encrypt(ctx, plain, provider) })
	} else {
		e, err = r.Event()
	}
	if err != nil {
		return nostr.Event{}, err
	}
	return j.sign(ctx, e)
}

func (j *Jobs) sign(ctx context.Context, e nostr.Event) (nostr.Event, error) {
	e.CreatedAt = nostr.Timestamp(j.c.Now().Unix())
	v, err := guild.Sign(ctx, j.c.Keyer, e)
	if err != nil {
		return nostr.Event{}, err
	}
	j.signed.Store(v.Event().ID, v)
	return v.Event(), nil
}

// own returns one of our own events as verified: at once if this process signed it.
func (j *Jobs) own(e nostr.Event) (guild.Verified, error) {
	if v, ok := j.signed.LoadAndDelete(e.ID); ok {
		return v.(guild.Verified), nil
	}
	return guild.Verify(e)
}

// parcel is the bundle on its way: inside the event if it is at most inline bytes.
func (j *Jobs) parcel(ctx context.Context, job *Job, encrypt bool, inline int) (nip90.Parcel, error) {
	bundle, err := j.c.Blobs.ReadAll(job.Bundle, job.Size)
	if err != nil {
		return nip90.Parcel{}, fmt.Errorf("the bundle of job %s: %w", job.Job.Short(), err)
	}
	p := nip90.Parcel{Hash: job.Bundle, Size: job.Size}
	if len(bundle) <= inline {
		p.Inline = bundle
		return p, nil
	}
	p.URL, p.Key, err = j.c.Upload(ctx, bundle, encrypt)
	if err != nil {
		return nip90.Parcel{}, fmt.Errorf("upload the bundle of job %s: %w", job.Job.Short(), err)
	}
	return p, nil
}

// deletion is the signed kind 5 event that takes a request back, also one that is only on its way: a relay may
// have it and not have said so.
func (j *Jobs) deletion(ctx context.Context, a Attempt, reason string) (*nostr.Event, error) {
	e, err := j.sign(ctx, nostr.Event{
		Kind: 5, Content: reason,
		Tags: nostr.Tags{
			{"e", a.ID.Hex()},
			{"k", strconv.Itoa(int(a.Planned.Request.Kind))},
			{"p", a.Provider.PubKey.Hex()}, // so that the provider hears of it
		},
	})
	if err != nil {
		return nil, fmt.Errorf("take back %.8s: %w", a.ID.Hex(), err)
	}
	return &e, nil
}
