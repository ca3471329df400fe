package exchange

import (
	"context"
	"fmt"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Config configures the step.
type Config struct {
	Journal *journal.Journal
	Signer  nostr.Signer     // signs documents with the key given to Fold.Become
	Now     func() time.Time // dates documents
}

// Step exports documents and imports those of other guilds.
type Step struct {
	c    Config
	fold *Fold
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Step { return &Step{c, f} }

// Export returns the signed document of this guild.
func (s *Step) Export(ctx context.Context) ([]byte, error) {
	return s.fold.Document().Sign(ctx, s.c.Signer, s.c.Now())
}

// Terms are the owner's conditions for an import. The zero value takes a signed document of any guild.
type Terms struct {
	From     nostr.PubKey // the guild that must have signed it; any if zero
	Unsigned bool         // take also a document that nobody signed
}

// Import merges another guild's document. It never raises trust that the owner set, and trusts a service that this guild
// never met no more than an ordinary first success would. It may be called again after an error, because known values
// append nothing.
//
// It refuses a document that the terms exclude, one that was imported before, and one that is older than an imported one
// of the same guild. The error then matches ErrUnsigned, ErrSigner, ErrDate, ErrKnown or ErrOlder.
func (s *Step) Import(ctx context.Context, d Signed, t Terms) (Imported, error) {
	if err := s.accept(d, t); err != nil {
		return Imported{}, fmt.Errorf("trust document: %w", err)
	}
	sum, err := s.fold.merge(ctx, s.c.Journal, d)
	if err != nil || d.By == nostr.ZeroPK {
		return sum, err
	}
	// After the values, so that an import that failed half-way can be repeated.
	err = s.c.Journal.Do(ctx, fact.ExchangeSubject(d.By), "", func(tx *journal.Tx) error {
		if s.fold.lastOf(d.By).At <= d.At {
			tx.Append(fact.TrustImported{Guild: d.By, Event: d.Event, Signed: d.At})
		}
		return nil
	})
	return sum, err
}

// maxEarly limits how far the date of a document may be ahead of our clock.
const maxEarly = time.Hour

func (s *Step) accept(d Signed, t Terms) error {
	switch {
	case d.By == nostr.ZeroPK && (!t.Unsigned || t.From != nostr.ZeroPK):
		return ErrUnsigned
	case d.By == nostr.ZeroPK:
		return nil
	case t.From != nostr.ZeroPK && d.By != t.From:
		return fmt.Errorf("%w: %s", ErrSigner, nip19.EncodeNpub(d.By))
	case time.Unix(d.At, 0).After(s.c.Now().Add(maxEarly)):
		return fmt.Errorf("%w: %s", ErrDate, date(d.At))
	}
	last := s.fold.lastOf(d.By)
	switch {
	case last.Event == d.Event:
		return ErrKnown
	case last.At > d.At:
		return fmt.Errorf("%w: that one is of %s, this one of %s", ErrOlder, date(last.At), date(d.At))
	}
	return nil
}

func date(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }
