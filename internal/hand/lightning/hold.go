package lightning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"guild"
	"guild/bolt11"
)

// Hold describes an invoice whose payment the wallet holds until it is told what to do with it.
type Hold struct {
	Hash        guild.Hash
	Amount      guild.Msat
	Description string
	Expiry      time.Duration // in whole seconds
	Blocks      uint64        // for which the last hop of the payment stays open, at least
}

// Parse decodes an invoice that a wallet made for h, now or before. One with another description is somebody else's.
func (h Hold) Parse(invoice string) (bolt11.Invoice, error) {
	inv, err := ParseMade(invoice, h.Amount)
	switch {
	case err != nil:
		return bolt11.Invoice{}, err
	case inv.PaymentHash != h.Hash:
		return bolt11.Invoice{}, fmt.Errorf("the invoice is for the payment hash %.8s instead of %.8s", inv.PaymentHash.Hex(), h.Hash.Hex())
	case inv.Description != h.Description:
		return bolt11.Invoice{}, fmt.Errorf("the payment hash %.8s has an invoice for something else", h.Hash.Hex())
	case inv.MinFinalCLTV < h.Blocks:
		return bolt11.Invoice{}, fmt.Errorf("the invoice is held for %d blocks, and %d are needed", inv.MinFinalCLTV, h.Blocks)
	}
	return inv, nil
}

// Already returns the error of a wallet that was told to settle or to cancel an invoice, or nil if Lookup says that it is so already.
func Already(ctx context.Context, w Wallet, hash guild.Hash, err error, is func(Transaction) bool) error {
	if err == nil || IsRefused(err, Unable...) {
		return err
	}
	if seen, failed := w.Lookup(ctx, hash); failed == nil && !seen.Outgoing && is(seen) {
		return nil
	}
	return err
}

// ErrOpen means that an invoice was not cancelled, and can still be paid: some wallets cancel only what they hold.
var ErrOpen = errors.New("the invoice is not cancelled yet, and can still be paid")

// Cancelled returns the error of a wallet that was told to cancel an invoice, or nil if that cannot be paid any more. After NOT_FOUND
// it is an ErrOpen until the invoice, of whose expiry look tells, has expired for a minute.
func Cancelled(err error, now time.Time, look func() (t Transaction, ends time.Time, err error)) error {
	if err == nil || IsRefused(err, Unable...) {
		return err
	}
	absent := IsRefused(err, NotFound)
	seen, ends, unknown := look()
	switch {
	case absent && IsRefused(unknown, NotFound), unknown == nil && !seen.Outgoing && seen.Failed:
		return nil
	case unknown != nil, !seen.Outgoing && seen.Settled, !absent:
		return err
	case !ends.IsZero() && now.After(ends.Add(time.Minute)):
		return nil
	}
	return fmt.Errorf("%w: %w", ErrOpen, err)
}

// Ends returns when an invoice expires, or zero if it cannot be read.
func Ends(invoice string) time.Time {
	inv, err := bolt11.Decode(invoice)
	if err != nil {
		return time.Time{}
	}
	return inv.Created.Add(cmp.Or(inv.Expiry, bolt11.DefaultExpiry))
}
