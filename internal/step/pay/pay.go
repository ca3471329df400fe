// Package pay is the step that decides about money. As a customer's it answers a provider's quote with ecash that is locked to
// both (escrow), and after the verdict signs over what the provider has earned and takes back the rest; or it has the owner's
// Lightning wallet pay an invoice, or the owner's Bitcoin wallet an address. As a provider's it says what it wants before it works,
// checks what the customer locked or paid, and claims what is released. As an arbiter's it rules on what others have locked.
//
// It owns the facts payment.*, lock.*, case.*, invoice.*, coins.* and address.*, and attempt.deferred, attempt.held, attempt.released
// and attempt.refunded. The transactions with mints are the wallet's.
package pay

import (
	"context"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/hand/lightning"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/wallet"
	"guild/nip90"
)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Wallet  *wallet.Wallet
	Keyer   nostr.Keyer
	PubKey  nostr.PubKey
	Now     func() time.Time

	// Send publishes a private message at the relays where p reads them. It returns nil once a relay took it.
	Send func(ctx context.Context, wrap guild.Verified, p nostr.PubKey) error
	// Lightning returns the owner's Lightning wallet, or nil.
	Lightning func() lightning.Wallet
	// Bitcoin returns the owner's Bitcoin wallet, or nil.
	Bitcoin func() Bitcoin
	// Publish publishes an event at our relays. It returns nil once a relay took it.
	Publish func(context.Context, guild.Verified) error
	// FindArbiter returns an arbiter with the key that it announces.
	FindArbiter func(ctx context.Context, pubkey nostr.PubKey) (nip90.Arbiter, error)
	// Ours reports whether this node has the secret key of a public one.
	Ours func(nostr.PubKey) bool
	// Opinions is the most that a weak verdict or an opinion pays without a person, in thousandths of the unit; 0 for no limit.
	Opinions guild.Msat
	// Waiting reports whether an attempt still waits for its provider.
	Waiting func(attempt nostr.ID) bool
}

// Pay is the step.
type Pay struct {
	c     Config
	fold  *Fold
	pace  pace
	fresh sync.Map // attempts whose order this process made, and has not sent yet

	arriving sync.Map // what the wallet last saw at the address of a request to us, in a []bitcoind.Payment
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Pay { return &Pay{c: c, fold: f} }

// Due lists what is due for all payments and locks. It implements due.Source.
func (p *Pay) Due(now time.Time) (work []due.Work) {
	for _, one := range p.fold.open() {
		work = append(work, p.railOf(one).pay(one, now)...)
	}
	for _, one := range p.fold.locks() {
		for _, r := range p.railsTo(one) {
			work = append(work, r.receive(one)...)
		}
	}
	for _, one := range p.fold.disputes() {
		work = append(work, p.dispute(one)...)
	}
	return work
}

// mostTries limits the tries to send a message about money, over a day, before a person must see to it.
const mostTries = 5000

// decide returns work that appends a fact about money, if it is still wanted.
func decide(key string, guard fact.Subject, wanted func() bool, with func() fact.Fact) due.Work {
	return due.Decide(key, guard, time.Time{}, func(tx *journal.Tx) error {
		if wanted() {
			tx.Append(with())
		}
		return nil
	})
}

// send sends a private message that was not sent before, or not surely. The recipient has no use for a second one.
func (p *Pay) send(ctx context.Context, to nostr.PubKey, subject, content string) error {
	wrap, _, err := dm.Wrap(ctx, p.c.Keyer, p.c.PubKey, to, dm.Message{Content: content, Subject: subject}, p.c.Now())
	if err != nil {
		return err
	}
	v, err := guild.Verify(wrap)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return p.c.Send(ctx, v, to)
}

// Freeze stops all paying, or allows it again. What is locked already is released by its verdict all the same.
func (p *Pay) Freeze(ctx context.Context, on bool) error {
	return p.c.Journal.Do(ctx, fact.Ledger, "", func(tx *journal.Tx) error {
		if p.fold.Frozen() != on {
			tx.Append(fact.WalletFrozen{Frozen: on})
		}
		return nil
	})
}
