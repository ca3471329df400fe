package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell/signature"
)

// request builds and signs the request event for one provider, in the kind and the form that its announcement asks for: a
// typed job as other programs know it, and any other as a bundle or, for who reads none, in plain NIP-90. A provider that
// reads NIP-44 gets it encrypted.
func (j *Jobs) request(ctx context.Context, job *Job, o guild.Offer, bid guild.Msat) (fact.AttemptPlanned, error) {
	provider := o.Service.PubKey
	key := nip90.IdempotencyKey(job.Job, provider, len(job.Attempts)+1)
	r := j.describe(job)
	r.Kind = cmp.Or(o.Kind, job.Kind)
	r.Provider, r.Bid = &provider, bid
	r.Set(nip90.ParamIdempotencyKey, key)
	hold := j.newHold(job)
	if hold != nil {
		r.SetHold(hold.Hash)
	}
	up := uploads{relays: j.c.Network.Rank(o.Relays), secret: o.Encrypts || job.Private}
	written, err := j.attachInputs(ctx, job, o, &r, &up)
	if err != nil {
		return fact.AttemptPlanned{}, err
	}
	vaulted, err := j.attachVault(ctx, job, o, &r)
	if err != nil {
		return fact.AttemptPlanned{}, err
	}
	e, hash, err := j.carryTyped(ctx, job, o, r)
	plain := errors.Is(err, errBundled) && o.Plain
	switch {
	case plain:
		e, hash, err = j.carryPlain(ctx, job, o, r, written, &up)
	case errors.Is(err, errBundled):
		e, hash, err = j.carry(ctx, job, o, r, nip90.Inline-vaulted-written, &up)
	}
	if err != nil {
		return fact.AttemptPlanned{}, fmt.Errorf("request to %.8s: %w", provider.Hex(), err)
	}
	_, met := j.c.Trust(job.Task, o.Service)
	return fact.AttemptPlanned{
		Attempt: e.ID, Job: job.Job, Provider: o.Service, Request: e, JobHash: hash,
		Encrypted: o.Encrypts, Plain: plain, Relays: up.relays, Files: up.files, Unmet: !met, Key: key, Bid: bid,
		Hold: hold,
	}, nil
}

// newHold returns the payment hash for a request whose provider may be paid from escrow over Lightning, or nil.
func (j *Jobs) newHold(job *Job) *fact.Hold {
	if job.Settle == nil || job.Settle.How != Escrow || job.Settle.Arbiter != nil || j.c.NewHold == nil {
		return nil
	}
	return j.c.NewHold(job.Settle.Unit)
}

// describe returns the part of a request that is the same for every provider (the partnership protocol, sections 2.2 and
// 4.1.2).
func (j *Jobs) describe(job *Job) nip90.Request {
	r := nip90.Request{
		Kind: job.Kind, Job: job.Job.String(), Output: "application/json", Bid: job.Bid, Relays: j.c.Network.Relays(), Content: job.Title,
	}
	r.Set(nip90.ParamJobType, job.Task)
	r.Set(nip90.ParamDeadline, strconv.FormatInt((job.Deadline+999)/1000, 10))
	r.Set(nip90.ParamBundleSHA256, job.Bundle.Hex())
	r.Set(nip90.ParamBundleSize, strconv.FormatInt(job.Size, 10))
	if len(job.Nudges) > 0 {
		var ids []string
		for _, id := range job.Nudges {
			ids = append(ids, id.Hex())
		}
		r.Set(nip90.ParamNudge, ids...)
	}
	if s := job.Settle; s != nil {
		switch s.How {
		case Prepaid, Onchain:
			r.Set(nip90.ParamSettle, s.How)
		case Escrow, Postpaid:
			r.SetPayout(nip90.Payout{How: s.How, Mixed: s.Mixed, Partial: s.Partial, Weak: thousandths(s.Unit, s.Weak)})
		}
	}
	if job.Settle != nil && job.Settle.Arbiter != nil {
		r.SetArbiter(*job.Settle.Arbiter)
	}
	limit := 0
	if q := job.Quality; q != nil {
		r.Set(nip90.ParamAccuracy, q.Accuracy.String())
		limit = q.Limit
	}
	if b := job.Meeting; b != nil {
		limit = min(job.seconds(), mostSeconds)
		describeBenchmark(&r, *b)
	}
	if limit > 0 {
		r.Set(nip90.ParamTimeLimit, strconv.Itoa(limit))
	}
	return r
}

// thousandths returns an amount as prices by usage are written: in millisatoshis, or of what is not bitcoin in thousandths of the unit.
func thousandths(unit string, amount uint64) guild.Msat {
	if unit == "msat" {
		return guild.Msat(min(amount, nip90.MaxMetered))
	}
	return guild.Msat(min(amount, nip90.MaxMetered/1000)) * 1000
}

// mostSeconds is the time that a provider is given for a run of a benchmark (section 2.2.3). The rest of the job's time is
// for the request and the delivery.
const mostSeconds = 300

// seconds returns the time for a job, in whole seconds.
func (j *Job) seconds() int { return max(int((j.Deadline-j.At)/1000), 1) }

// iterations is the number of times that a benchmark repeats a measurement (section 2.2.3).
const iterations = 5

// describeBenchmark adds the parameters of a benchmark (sections 2.2.2 and 2.2.3).
func describeBenchmark(r *nip90.Request, b fact.Benchmark) {
	r.Set(nip90.ParamBenchmarkType, cmp.Or(b.Variant, "standard"))
	r.Set(nip90.ParamMemoryLimit, strconv.Itoa(cmp.Or(b.Memory, 512)))
	r.Set(nip90.ParamIterations, strconv.Itoa(iterations))
	r.Set(nip90.ParamLanguage, cmp.Or(b.Language, "python3"))
}

// carry puts the bundle into r and signs the request. The bundle is inside the event if that stays small enough for common
// relays, else it is named by its URL.
func (j *Jobs) carry(ctx context.Context, job *Job, o guild.Offer, r nip90.Request, inline int, up *uploads) (nostr.Event, guild.Hash, error) {
	var e nostr.Event
	if b := job.Meeting; b != nil {
		spec := nip90.Benchmark{ID: cmp.Or(b.Suite, job.Task), Modules: b.Modules}
		r.Inputs = append([]nip90.Input{spec.Input()}, r.Inputs...)
	}
	for {
		parcel, err := j.pack(ctx, job.Bundle, job.Size, o.Encrypts, inline)
		if err != nil {
			return nostr.Event{}, guild.Hash{}, fmt.Errorf("the bundle of job %s: %w", job.Job.Short(), err)
		}
		if err := r.SetBundle(parcel); err != nil {
			return nostr.Event{}, guild.Hash{}, err
		}
		if parcel.Inline == nil {
			file := nip90.File{URL: parcel.URL, MIME: signature.MIMEGzip, Hash: parcel.Hash, Size: parcel.Size}
			if err := j.describeFile(ctx, &r, file, up); err != nil {
				return nostr.Event{}, guild.Hash{}, err
			}
		}
		hash, err := r.JobHash()
		if err != nil {
			return nostr.Event{}, guild.Hash{}, err
		}
		r.Set(nip90.ParamJobHash, hash.Hex())
		if e, err = j.seal(ctx, r, *r.Provider, o.Encrypts); err != nil {
			return nostr.Event{}, guild.Hash{}, err
		}
		if parcel.Inline != nil && size(e) > nip90.MaxEvent {
			inline = 0
			continue
		}
		e, err = j.outbox.Sign(ctx, e)
		return e, hash, err
	}
}

// uploads collects the metadata of what was uploaded for a request (NIP-94, kind 1063).
type uploads struct {
	relays []string // of the provider, the best first
	secret bool     // the request is encrypted, and metadata in clear would tell what it is about
	files  []nostr.Event
}

// describeFile signs the metadata of a file that was uploaded, and has the request name it, unless the request is
// encrypted. The URL remains in the request, for providers that do not read metadata.
func (j *Jobs) describeFile(ctx context.Context, r *nip90.Request, f nip90.File, up *uploads) error {
	if up.secret {
		return nil
	}
	e, err := j.outbox.Sign(ctx, f.Event())
	if err != nil {
		return fmt.Errorf("metadata of %s: %w", f.URL, err)
	}
	relay := j.home()
	if len(up.relays) > 0 {
		relay = up.relays[0]
	}
	r.Describe(e.ID, relay)
	up.files = append(up.files, e)
	return nil
}

// size returns the size of an event as JSON, in bytes.
func size(e nostr.Event) int { return len(e.String()) }

// seal builds the event, encrypted for the provider or in clear.
func (j *Jobs) seal(ctx context.Context, r nip90.Request, provider nostr.PubKey, encrypt bool) (nostr.Event, error) {
	if !encrypt {
		return r.Event()
	}
	return r.Sealed(func(plain string) (string, error) { return j.c.Keyer.Encrypt(ctx, plain, provider) })
}

// pack makes a parcel of a blob: its bytes if they are at most inline, else the URL to which they were uploaded.
func (j *Jobs) pack(ctx context.Context, hash guild.Hash, size int64, encrypt bool, inline int) (nip90.Parcel, error) {
	b, err := j.c.Blobs.ReadAll(hash, size)
	if err != nil {
		return nip90.Parcel{}, err
	}
	p := nip90.Parcel{Hash: hash, Size: size}
	if len(b) <= inline {
		p.Inline = b
		return p, nil
	}
	if p.URL, p.Key, err = j.c.Upload(ctx, b, encrypt); err != nil {
		return nip90.Parcel{}, fmt.Errorf("upload: %w", err)
	}
	return p, nil
}

// deletion returns the signed kind 5 event that takes a request back. It is needed even for a request that no relay has
// confirmed, because one may have it all the same.
func (j *Jobs) deletion(ctx context.Context, a Attempt, reason string) (*nostr.Event, error) {
	e, err := j.outbox.Sign(ctx, nostr.Event{
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
