package journal

import (
	"context"
	"fmt"
	"iter"

	"guild/internal/journal/fact"
)

// Entry returns an entry of the stream. If it was never there, or is archived, it returns ErrNoEntry.
func (j *Journal) Entry(ctx context.Context, seq uint64) (fact.Entry, error) {
	s, err := j.server(ctx)
	if err != nil {
		return fact.Entry{}, fmt.Errorf("entry %d: %w", seq, err)
	}
	m, err := s.entry(ctx, seq)
	return m.entry, err
}

// Entries yields the entries from a sequence to the last folded one, in order, without the archived ones. An error ends the
// sequence.
func (j *Journal) Entries(ctx context.Context, from uint64) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		s, err := j.server(ctx)
		if err != nil {
			yield(fact.Entry{}, fmt.Errorf("entries from %d: %w", from, err))
			return
		}
		for m, err := range s.history(ctx, max(from, j.mark.get().Archived+1), j.state.last()) {
			if !yield(m.entry, err) || err != nil {
				return
			}
		}
	}
}

// Watch yields the entries from a sequence on, without the archived ones, and then each new entry once it is folded, until ctx
// ends. An error ends the sequence.
func (j *Journal) Watch(ctx context.Context, from uint64) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		changed, stop := j.Changed()
		defer stop()
		for {
			for e, err := range j.Entries(ctx, from) {
				if ctx.Err() != nil {
					return
				}
				if !yield(e, err) || err != nil {
					return
				}
				from = e.Seq + 1
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-j.closing.Done():
				yield(fact.Entry{}, ErrClosed)
				return
			}
		}
	}
}

// Of yields the entries of a subject, or of all subjects of a noun if subject is only a noun, such as "trust", in order,
// without the archived ones. An error ends the sequence.
func (j *Journal) Of(ctx context.Context, subject fact.Subject) iter.Seq2[fact.Entry, error] {
	filter := factsPrefix + string(subject)
	if subject.Noun() == string(subject) {
		filter += ".>"
	}
	return func(yield func(fact.Entry, error) bool) {
		through := j.state.last()
		s, err := j.server(ctx)
		if err != nil {
			yield(fact.Entry{}, fmt.Errorf("entries of %s: %w", subject, err))
			return
		}
		for msg, err := range s.everything(ctx, factsStream, 1, filter) {
			if err != nil {
				yield(fact.Entry{}, fmt.Errorf("entries of %s: %w", subject, err))
				return
			}
			if msg.seq > through {
				return
			}
			m, err := j.keys.read(msg.seq, guardOf(msg.subject), msg.data)
			if !yield(m.entry, err) || err != nil {
				return
			}
		}
	}
}
