package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell/vault"
)

// sealedFor returns the vault for a provider, nil if there is none: one sealed for its key, else one that this node seals
// again.
func sealedFor(r *fact.Release, o guild.Offer) *fact.Sealed {
	var own *fact.Sealed
	for i, s := range r.Vaults {
		switch {
		case s.For == "":
			own = &r.Vaults[i]
		case s.For == o.Recipient:
			return &r.Vaults[i]
		}
	}
	return own
}

// lostError says that a job's credentials can never be sealed again.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// attachVault puts the job's credentials, sealed for the provider, into the request, and returns their size in bytes.
func (j *Jobs) attachVault(ctx context.Context, job *Job, o guild.Offer, r *nip90.Request) (int, error) {
	if job.Release == nil {
		return 0, nil
	}
	v, err := j.vaultFor(ctx, job.Release, o)
	if err == nil {
		err = r.SetVault(v)
	}
	if err != nil {
		err = fmt.Errorf("the credentials of job %s for %.8s: %w", job.Job.Short(), o.Service.PubKey.Hex(), err)
	}
	switch {
	case lost(err):
		return 0, lostError{err}
	case err != nil:
		return 0, err
	}
	return len(v.Sealed) + len(v.Document.Reveal()), nil
}

// vaultFor seals the released credentials for a provider, unless they are already. For a provider without an age recipient
// they go into the encrypted request unsealed.
func (j *Jobs) vaultFor(ctx context.Context, r *fact.Release, o guild.Offer) (nip90.Vault, error) {
	v := nip90.Vault{AllowExpired: r.Anyway}
	from := sealedFor(r, o)
	if from == nil || !o.Encrypts {
		return v, vault.ErrNotFor
	}
	sealed, err := j.c.Blobs.ReadAll(from.Vault, nip90.MaxVault)
	if err != nil {
		return v, err
	}
	if from.For != "" {
		v.Sealed = sealed
		return v, nil
	}
	document, err := j.c.Unseal(ctx, sealed)
	if err != nil {
		return v, err
	}
	if o.Recipient == "" {
		v.Document = document
		return v, nil
	}
	v.Sealed, err = j.c.SealFor(ctx, o.Recipient, document)
	return v, err
}

// lapsed reports whether a job's credentials have expired, so that no provider is asked any more.
func (j *Job) lapsed(now time.Time) bool {
	r := j.Release
	return r != nil && r.Expires > 0 && !r.Anyway && now.UnixMilli() >= r.Expires
}

// lost reports whether an error about credentials is final.
func lost(err error) bool {
	return slices.ContainsFunc([]error{
		vault.ErrNotFor, vault.ErrNotSealed, vault.ErrTampered, blob.ErrMissing, blob.ErrDamaged, nip90.ErrTooBig,
	}, func(reason error) bool { return errors.Is(err, reason) })
}

// parkLost ends a job whose credentials are lost, for a person to look at.
func (j *Jobs) parkLost(job *Job, err lostError) due.Decision {
	ending := guild.JobParked
	if len(job.Attempts) > 0 {
		ending = job.Criticality.EndingOf(job.vocabulary(), job.count().agreeing)
	}
	return func(tx *journal.Tx) error { return j.decideClose(tx, job, ending, guild.Cut(err.Error(), 500)) }
}
