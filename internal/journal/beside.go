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
)

const (
	reasonHeader  = "Guild-Reason" // why a message was rejected
	maxMessage    = 512 << 10      // bytes of one message in a side stream
	maxReason     = 1 << 10        // bytes
	rejectTimeout = time.Second
)

// SeenMessage is the latest message under a subject of the stream SEEN.
type SeenMessage struct {
	Subject string    // as given to See
	At      time.Time // when See was called, by the server's clock
	Data    []byte
}

// RejectedMessage is a message that Reject kept.
type RejectedMessage struct {
	Reason string
	At     time.Time // by the server's clock
	Data   []byte
}

// See stores data of others under subject, in the place of what was there. A subject consists of words of letters, digits,
// dashes and underscores, joined by dots. Beyond a limit in bytes the oldest messages are deleted. A crash may lose the
// newest. See returns ErrFull if less than Options.Floor is free.
func (j *Journal) See(ctx context.Context, subject string, data []byte) error {
	if err := j.keep(ctx, seenPrefix, subject, data); err != nil {
		return fmt.Errorf("see: %w", err)
	}
	return nil
}

// Unsee deletes the message under subject, if there is one.
func (j *Journal) Unsee(ctx context.Context, subject string) error {
	if err := checkWords(subject); err != nil {
		return fmt.Errorf("unsee: %w", err)
	}
	s, err := j.server(ctx)
	if err != nil {
		return fmt.Errorf("unsee: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, j.o.PublishTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, seenStream)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(seenPrefix+subject))
	}
	if err != nil {
		return fmt.Errorf("unsee %s: %w", subject, err)
	}
	return nil
}

// Seen yields the messages whose subject is prefix or begins with prefix and a dot, in the order in which they were seen;
// with an empty prefix, all messages. Messages that cannot be read are skipped and logged, since relays still have them.
func (j *Journal) Seen(ctx context.Context, prefix string) iter.Seq2[SeenMessage, error] {
	return func(yield func(SeenMessage, error) bool) {
		for m, err := range j.seen(ctx, prefix) {
			if damage, ok := errors.AsType[*DamagedError](err); ok {
				j.o.Log.Warn("a part of what was seen cannot be read", "reason", damage.What)
				return
			}
			if err != nil {
				yield(SeenMessage{}, fmt.Errorf("seen: %w", err))
				return
			}
			if !yield(SeenMessage{strings.TrimPrefix(m.subject, seenPrefix), m.at, m.data}, nil) {
				return
			}
		}
	}
}

// seen yields the stored messages of Seen. A request to the server has one subject, so the message under the prefix itself
// is read first and then merged with the others.
func (j *Journal) seen(ctx context.Context, prefix string) iter.Seq2[stored, error] {
	if prefix == "" {
		return j.side(ctx, seenStream, seenPrefix+">")
	}
	return func(yield func(stored, error) bool) {
		var own []stored
		for m, err := range j.side(ctx, seenStream, seenPrefix+prefix) {
			if err != nil {
				yield(stored{}, err)
				return
			}
			own = append(own, m)
		}
		for m, err := range j.side(ctx, seenStream, seenPrefix+prefix+".>") {
			for ; err == nil && len(own) > 0 && own[0].seq < m.seq; own = own[1:] {
				if !yield(own[0], nil) {
					return
				}
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
		for _, m := range own {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// Reject stores a message that was refused, for the owner to look at. The last thousand are kept, at most 8 MiB. It takes
// at most a second.
func (j *Journal) Reject(ctx context.Context, reason string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, rejectTimeout)
	defer cancel()
	if err := j.reject(ctx, reason, data[:min(len(data), maxMessage)]); err != nil {
		return fmt.Errorf("reject: %w", err)
	}
	return nil
}

func (j *Journal) reject(ctx context.Context, reason string, data []byte) error {
	if err := j.space.free(); err != nil {
		return err
	}
	s := j.store.Load()
	if s == nil {
		return errUnknown
	}
	line := strings.Map(printable, reason[:min(len(reason), maxReason)])
	_, err := s.js.PublishMsg(ctx, &nats.Msg{
		Subject: rejectedPrefix + "event", Data: data, Header: nats.Header{reasonHeader: {line}},
	}, jetstream.WithRetryAttempts(0))
	return err
}

// printable replaces control characters, for a header is one line.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// Rejected yields the rejected messages, the oldest first, and a *DamagedError at the end if some cannot be read.
func (j *Journal) Rejected(ctx context.Context) iter.Seq2[RejectedMessage, error] {
	return func(yield func(RejectedMessage, error) bool) {
		for msg, err := range j.side(ctx, rejectedStream, rejectedPrefix+">") {
			if err != nil {
				yield(RejectedMessage{}, fmt.Errorf("rejected: %w", err))
				return
			}
			if !yield(RejectedMessage{msg.header.Get(reasonHeader), msg.at, msg.data}, nil) {
				return
			}
		}
	}
}

// keep appends to a side stream. A server that does not answer is restarted.
func (j *Journal) keep(ctx context.Context, prefix, subject string, data []byte) error {
	if err := checkWords(subject); err != nil {
		return err
	}
	if len(data) > maxMessage {
		return fmt.Errorf("%s: %d bytes, at most %d: %w", subject, len(data), maxMessage, ErrTooLarge)
	}
	if err := j.space.free(); err != nil {
		return err
	}
	s, err := j.server(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, j.o.PublishTimeout)
	defer cancel()
	_, err = s.js.Publish(limited, prefix+subject, data, jetstream.WithRetryAttempts(0))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		_, reviveErr := j.revive(context.WithoutCancel(ctx), s)
		err = errors.Join(err, reviveErr)
	}
	return err
}

// side yields the messages of a side stream that can be read, and then a *DamagedError if others cannot.
func (j *Journal) side(ctx context.Context, stream, subject string) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		s, err := j.server(ctx)
		if err != nil {
			yield(stored{}, err)
			return
		}
		s.everything(ctx, stream, 1, subject)(yield)
	}
}
