package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/nip90"
)

// Trust below which a provider gets no ordinary work, and below which it gets none at all.
const (
	ordinary guild.Trust = guild.Micro / 2
	none     guild.Trust = 3 * guild.Micro / 10
)

// choose picks who is asked next: the trusted before the unmet, then by trust, price and load. Without a
// choice it says why.
func (j *Jobs) choose(job *Job, now time.Time) (*guild.Offer, string) {
	type candidate struct {
		guild.Offer
		turn  int // in the customer's own order
		trust guild.Trust
		load  int
		order guild.Hash
	}
	if job.lapsed(now) {
		return nil, "the credentials have expired"
	}
	offers := j.c.Offers(job.Task, job.Kind)
	load := j.fold.load()
	var fit []candidate
	excluded := ""
	for _, o := range offers {
		trust, met := j.c.Trust(job.Task, o.Service)
		if reason := j.excludes(job, o, trust, met, now); reason != "" {
			excluded = reason
			continue
		}
		if trust < ordinary {
			trust = 0 // below the threshold all are alike: they get the first tries of unimportant work
		}
		order := guild.Sum(append(job.Job[:], o.Service.PubKey[:]...))
		turn := slices.Index(job.Providers, o.Service.PubKey)
		fit = append(fit, candidate{o, turn, trust, load[o.Service] / max(o.Slots, 1), order})
	}
	if len(fit) == 0 {
		return nil, nobody(job, len(offers), excluded)
	}
	best := slices.MinFunc(fit, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), -cmp.Compare(a.trust, b.trust), cmp.Compare(a.Price, b.Price),
			cmp.Compare(a.load, b.load), slices.Compare(a.order[:], b.order[:]))
	})
	return &best.Offer, ""
}

// excludes says why a provider must not be asked, or "".
func (j *Jobs) excludes(job *Job, o guild.Offer, trust guild.Trust, met bool, now time.Time) string {
	name := fmt.Sprintf("%s (%.8s)", cmp.Or(o.Name, "a provider"), o.Service.PubKey.Hex())
	asked := slices.ContainsFunc(job.Attempts, func(a Attempt) bool { return a.Provider.PubKey == o.Service.PubKey })
	switch {
	case o.Service.PubKey == j.c.PubKey:
		return "nobody hires itself"
	case len(job.Providers) > 0 && !slices.Contains(job.Providers, o.Service.PubKey):
		return name + " was not to be asked"
	case asked:
		return name + " was asked already"
	case (job.Private || job.Release != nil) && !o.Encrypts:
		return name + " does not read encrypted requests"
	case job.Release != nil && sealedFor(job.Release, o) == nil:
		return "the credentials are not sealed for " + name
	case len(job.Providers) > 0:
		return "" // the customer's own choice
	case !slices.Contains(eligible[:], o.State):
		return fmt.Sprintf("%s is %s", name, o.State)
	case o.Until > now.UnixMilli():
		return fmt.Sprintf("%s is %s until %s", name, o.State, time.UnixMilli(o.Until).UTC().Format(time.RFC3339))
	case met && trust < none:
		return fmt.Sprintf("%s is trusted %s only", name, trust)
	case job.Bid > 0 && o.Price > job.Bid:
		return fmt.Sprintf("%s asks %s, the bid is %s", name, o.Price, job.Bid)
	}
	return ""
}

var eligible = [...]guild.ProviderState{guild.Seen, guild.Active, guild.Conditional, guild.Warned, guild.Reduced}

func nobody(job *Job, offers int, excluded string) string {
	if offers == 0 {
		return fmt.Sprintf("nobody offers the task %q", job.Task)
	}
	return fmt.Sprintf("of %d who offer the task %q none is left: %s", offers, job.Task, excluded)
}

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
