package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"guild/internal/journal/fact"
)

// publish appends an entry if the guard's last sequence is the expected one, and returns the entry's sequence.
func (s *store) publish(ctx context.Context, m message, expected uint64, timeout time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ack, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: factsPrefix + string(m.subject), Data: m.data},
		jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// conflicts reports whether the server refused an entry because the guard has a later one. The second code is that of a
// replicated stream.
func conflicts(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// refused reports whether the server answered that it did not append the entry.
func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code < 500
}

// lastOf returns the sequence of the last entry under a guard in the stream, 0 if there is none.
func (s *store) lastOf(ctx context.Context, guard fact.Subject) (uint64, error) {
	msg, err := s.facts.GetLastMsgForSubject(ctx, factsPrefix+string(guard))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return msg.Sequence, nil
}

// entry returns an entry of the stream.
func (s *store) entry(ctx context.Context, seq uint64) (message, error) {
	msg, err := s.facts.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return message{}, fmt.Errorf("entry %d: %w", seq, ErrNoEntry)
	}
	if err != nil {
		return message{}, fmt.Errorf("entry %d: %w", seq, err)
	}
	return s.keys.read(seq, guardOf(msg.Subject), msg.Data)
}

// guardOf returns the guard of an entry with the given subject in the stream.
func guardOf(subject string) fact.Subject {
	return fact.Subject(strings.TrimPrefix(subject, factsPrefix))
}

// history yields the entries from one sequence through another, all of which must be in the stream. If one is not, the sequence
// ends with a *DamagedError.
func (s *store) history(ctx context.Context, from, through uint64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		next := from
		for m, err := range s.found(ctx, from, through) {
			if err == nil && m.seq != next {
				break
			}
			if !yield(m, err) || err != nil {
				return
			}
			next++
		}
		if next <= through {
			yield(message{}, damaged("entry %d cannot be read", next))
		}
	}
}

// found yields the entries from one sequence through another that are in the stream.
func (s *store) found(ctx context.Context, from, through uint64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		if from > through {
			return
		}
		if through-from < few {
			s.singly(ctx, from, through)(yield)
			return
		}
		for msg, err := range s.everything(ctx, factsStream, from, factsPrefix+">") {
			if err != nil {
				yield(message{}, fmt.Errorf("entries from %d: %w", from, err))
				return
			}
			m, err := s.keys.read(msg.seq, guardOf(msg.subject), msg.data)
			if !yield(m, err) || err != nil || m.seq >= through {
				return
			}
		}
	}
}

// few is the number of entries up to which single requests are cheaper than a batch.
const few = 8

func (s *store) singly(ctx context.Context, from, through uint64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for seq := from; seq <= through; seq++ {
			m, err := s.entry(ctx, seq)
			if errors.Is(err, ErrNoEntry) {
				continue
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}
