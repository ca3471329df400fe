package pay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/dm"
	"guild/internal/hand/lightning"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// hearing is the time after the locktime for which a payment is still held, since a release that was sent in time may be heard late. The
// margin of holdBlocks is longer.
const hearing = time.Hour

// holds reports whether our invoice is for a payment hash of the customer's, and is not cancelled.
func (l lock) holds() bool { return l.Hold != guild.Hash{} }

// amount returns what our invoice is over.
func (l lock) amount() guild.Msat {
	inv, _ := bolt11.Decode(l.Invoice) // the owner's wallet made it
	return inv.Amount
}

// locktime returns when the customer may decide nothing any more.
func (l lock) locktime() time.Time { return lockedUntil(time.UnixMilli(l.Deadline), nil) }

// holdInvoice has the owner's wallet make the invoice for a request to us, for a payment hash of the customer's.
func (p *Pay) holdInvoice(ctx context.Context, request nostr.ID, hold guild.Hash, deadline, until time.Time, amount guild.Msat) (string, error) {
	blocks := holdBlocks(p.c.Now(), deadline)
	if blocks > mostBlocks {
		return "", fmt.Errorf("the payment would be held for %d blocks, and %d are the most that wallets pay: ask for an earlier deadline", blocks, mostBlocks)
	}
	var used bool
	p.fold.View(func(s *state) { used = s.uses(hold, request) })
	if used {
		return "", errors.New("the payment hash of the request is that of another payment")
	}
	text, _, err := p.lightning().MakeHold(ctx, lightning.Hold{
		Hash: hold, Amount: amount, Description: described(request), Expiry: max(time.Second, until.Sub(p.c.Now())), Blocks: blocks,
	})
	return text, err
}

// uses reports whether a payment hash is that of a payment of ours, or of another request to us, now or before: who knows its
// preimage could pay nothing a second time.
func (s *state) uses(hash guild.Hash, request nostr.ID) bool {
	if s.Invoices.Of(hash.Hex()) != "" {
		return true
	}
	for _, one := range s.Payments.All() {
		if one.Hold != nil && one.Hold.Hash == hash {
			return true
		}
	}
	first := s.Hashes.Of(hash.Hex())
	return first != "" && first != request.Hex()
}

// receive waits for the payment of an invoice, and for a release of what is held. Ecash may come instead.
func (p invoices) receive(one lock) []due.Work {
	switch {
	case one.holds() && !one.Settled:
		return p.holding(one)
	case one.Offered == nil && one.Invoice != "" && !one.Settled:
		return []due.Work{p.settled(one)}
	}
	return nil
}

// holding lists what is due for a payment that the owner's wallet holds, or would.
func (p *Pay) holding(one lock) []due.Work {
	switch {
	case one.Released != nil && one.Released.Preimage != "":
		return []due.Work{p.takeHeld(one)}
	case one.Accepted != nil, one.Released != nil: // ecash is locked instead, or nothing is ours
		return []due.Work{p.cancelHold(one, time.Time{})}
	case one.Over && (!one.Done || one.Arrived == 0): // we have given up, so the customer need not wait, or asked for no money in the end
		return []due.Work{p.cancelHold(one, time.Time{})}
	case one.Arrived == 0:
		return []due.Work{p.settled(one)}
	}
	return []due.Work{p.cancelHold(one, one.locktime().Add(hearing))}
}

// cancelHold gives back what is held for a request, at a time, and lets nobody pay the invoice any more. When no payment can be held
// any more it is done without the wallet.
func (p *Pay) cancelHold(one lock, at time.Time) due.Work {
	if next := p.pace.next(one.Request); next.After(at) {
		at = next
	}
	return due.Work{
		Key: "cancel the invoice for " + one.Request.Hex(), Guard: fact.Ledger, Free: true, Ready: at,
		Act: func(ctx context.Context) (due.Decision, error) {
			p.pace.asked(one.Request, p.c.Now())
			taken, err := p.cancelled(ctx, one)
			if err != nil && !p.c.Now().After(one.locktime().Add(unknownAfter)) {
				return nil, fmt.Errorf("cancel the invoice for %.8s: %w", one.Request.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				now, ok := p.fold.lock(one.Request)
				switch {
				case !ok || !now.holds() || now.Settled:
				case taken && now.Released != nil && now.Released.Preimage != "":
					tx.Append(fact.InvoiceSettled{Request: one.Request, Msat: one.amount()})
				case now.Released != nil && now.Released.Preimage != "": // it was released meanwhile, and is lost
					tx.Append(fact.LockLost{Request: one.Request})
				case now.Released == nil && now.Accepted == nil && now.Done && now.Arrived > 0:
					tx.Append(fact.InvoiceCancelled{Request: one.Request}, fact.LockExpired{Request: one.Request})
				default:
					tx.Append(fact.InvoiceCancelled{Request: one.Request})
				}
				return nil
			}, nil
		},
	}
}

// cancelled has the owner's wallet cancel an invoice, and reports whether it has taken the payment before.
func (p *Pay) cancelled(ctx context.Context, one lock) (taken bool, err error) {
	ln := p.lightning()
	if ln == nil {
		return false, errNoLightning
	}
	err = ln.Cancel(ctx, one.Hold)
	if err == nil {
		return false, nil
	}
	if seen, unknown := ln.Lookup(ctx, one.Hold); unknown == nil && seen.Settled && !seen.Outgoing {
		return true, nil
	}
	return false, err
}

// takeHeld has the owner's wallet take what a customer has released, again and again until it says that it did.
func (p *Pay) takeHeld(one lock) due.Work {
	return due.Work{
		Key: "take the payment for " + one.Request.Hex(), Guard: fact.Ledger, Free: true, Ready: p.pace.next(one.Request),
		Act: func(ctx context.Context) (due.Decision, error) {
			p.pace.asked(one.Request, p.c.Now())
			ln := p.lightning()
			if ln == nil {
				return nil, fmt.Errorf("take the payment for %.8s: %w", one.Request.Hex(), errNoLightning)
			}
			preimage, ok := lightning.Opens(one.Released.Preimage, one.Hold)
			if !ok { // it was checked when it came
				return nil, fmt.Errorf("take the payment for %.8s: its preimage does not fit", one.Request.Hex())
			}
			refused := ln.Settle(ctx, preimage)
			seen, err := ln.Lookup(ctx, one.Hold)
			taken, lost := err == nil && seen.Settled && !seen.Outgoing, err == nil && seen.Failed && !seen.Outgoing
			lost = lost || !taken && p.c.Now().After(one.locktime().Add(unknownAfter))
			if err := errors.Join(refused, err); err != nil && !taken && !lost {
				return nil, fmt.Errorf("take the payment for %.8s: %w", one.Request.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				now, ok := p.fold.lock(one.Request)
				switch {
				case !ok || now.Settled:
				case taken:
					tx.Append(fact.InvoiceSettled{Request: one.Request, Msat: one.amount()})
				case lost:
					tx.Append(fact.LockLost{Request: one.Request})
				}
				return nil
			}, nil
		},
	}
}

// takePreimage decides about a customer's release of what is held for a request. The error is a *guild.DropError if it is of no use.
func (p *Pay) takePreimage(tx *journal.Tx, one lock, s dm.Signatures) error {
	released := fact.LockReleased{Request: one.Request, Reason: s.Reason}
	if s.Preimage != "" {
		preimage, ok := lightning.Opens(s.Preimage, one.Hold)
		if !ok {
			return guild.Drop(guild.Malformed, "a preimage of another payment hash")
		}
		released.Amount, released.Preimage = whole("sat", one.Arrived), hex.EncodeToString(preimage[:])
	} else if s.Amount != 0 {
		return guild.Drop(guild.Malformed, "a release without a preimage")
	}
	if released.Preimage != "" && one.Arrived == 0 {
		return guild.Drop(guild.Unrequested, "a release of what has not arrived")
	}
	tx.Append(released)
	return nil
}
