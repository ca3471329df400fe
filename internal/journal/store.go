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

	"guild/internal/fact"
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

// conflicts reports whether an entry was refused because another came between. The second code is that of a
// replicated stream.
func conflicts(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// refused reports whether the server answered that it did not append: any error of the API.
func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code < 500
}

// lastOf is the sequence of the last stored entry under a guard, 0 if there is none.
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

// entry reads one stored entry.
func (s *store) entry(ctx context.Context, seq uint64) (message, error) {
	msg, err := s.facts.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return message{}, fmt.Errorf("entry %d: %w", seq, ErrNoEntry)
	}
	if err != nil {
		return message{}, fmt.Errorf("entry %d: %w", seq, err)
	}
	return read(seq, guardOf(msg.Subject), msg.Data)
}

// guardOf is the guard that an entry is stored under.
func guardOf(subject string) fact.Subject {
	return fact.Subject(strings.TrimPrefix(subject, factsPrefix))
}

// stored is a message of any stream.
type stored struct {
	jetstream.Msg
	seq  uint64
	at   time.Time
	left uint64 // that follow it
}

// everything yields the messages of a stream under the given subjects, from a sequence to the last one.
func (s *store) everything(ctx context.Context, stream string, from uint64, subjects ...string) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		cons, err := s.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
			FilterSubjects:    subjects,
			DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:       max(from, 1),
			InactiveThreshold: 30 * time.Second,
		})
		if err != nil {
			yield(stored{}, err)
			return
		}
		// Left alone it would stay until it is seen to be idle, and the server has room for a thousand.
		defer func() {
			_ = s.js.DeleteConsumer(context.WithoutCancel(ctx), stream, cons.CachedInfo().Name)
		}()
		if cons.CachedInfo().NumPending == 0 {
			return
		}
		msgs, err := cons.Messages()
		if err != nil {
			yield(stored{}, err)
			return
		}
		defer msgs.Stop()
		for ok := true; ok; {
			m, err := next(ctx, msgs)
			ok = yield(m, err) && err == nil && m.left > 0
		}
	}
}

// next reads the next message.
func next(ctx context.Context, msgs jetstream.MessagesContext) (stored, error) {
	msg, err := msgs.Next(jetstream.NextContext(ctx))
	if err != nil {
		return stored{}, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return stored{}, err
	}
	return stored{msg, meta.Sequence.Stream, meta.Timestamp, meta.NumPending}, nil
}

// history yields the stored entries from one sequence through another.
func (s *store) history(ctx context.Context, from, through uint64) iter.Seq2[message, error] {
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
			m, err := read(msg.seq, guardOf(msg.Subject()), msg.Data())
			if !yield(m, err) || err != nil || m.seq >= through {
				return
			}
		}
	}
}

// few is how many entries are fetched one by one, for which a consumer would cost more.
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
