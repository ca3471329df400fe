package record

import (
	"context"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/receipt"
)

// publishTime limits the time for one receipt at the relays.
const publishTime = 20 * time.Second

// unpublished is a receipt to publish.
type unpublished struct {
	Job guild.JobID `json:"job"`
	Stored
}

// publish returns the effect that publishes a receipt. Signing it again gives the same event.
func (r *Record) publish(u unpublished) due.Work {
	settle := func(tx *journal.Tx, event nostr.ID, reason string) {
		if r.fold.isUnpublished(u.Receipt) {
			tx.Append(fact.ReceiptPublished{Attempt: u.Attempt, Receipt: u.Receipt, Event: event, Reason: reason})
		}
	}
	return due.Work{
		Key: "publish receipt " + u.Receipt, Guard: fact.JobSubject(u.Job), Lease: 2 * time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			v, err := r.signAndPublish(ctx, u)
			if err != nil {
				return nil, fmt.Errorf("publish receipt %s: %w", u.Receipt, err)
			}
			return func(tx *journal.Tx) error { settle(tx, v.Event().ID, ""); return nil }, nil
		},
		Park: func(tx *journal.Tx, reason string) { settle(tx, nostr.ID{}, guild.Cut(reason, 500)) },
	}
}

// signAndPublish publishes the event of a receipt, and returns it.
func (r *Record) signAndPublish(ctx context.Context, u unpublished) (guild.Verified, error) {
	raw, err := r.c.Blobs.ReadAll(u.Blob, receipt.MaxSize)
	if err != nil {
		return guild.Verified{}, err
	}
	document, err := receipt.Decode(raw)
	if err != nil {
		return guild.Verified{}, err
	}
	e, err := document.Event()
	if err != nil {
		return guild.Verified{}, err
	}
	v, err := guild.Sign(ctx, r.c.Signer, e)
	if err != nil {
		return guild.Verified{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	return v, r.c.Publish(ctx, v, nil)
}
