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
	reasonHeader  = "Guild-Reason" // why something was rejected
	maxBeside     = 512 << 10      // of one message beside the facts, in bytes
	maxReason     = 1 << 10        // bytes
	rejectTimeout = time.Second    // after which a rejected message is given up
)

// SeenMessage is what a stranger wrote, as last seen.
type SeenMessage struct {
	Subject string    // as given to See
	At      time.Time // when it was seen, by the server's clock
	Data    []byte
}

// RejectedMessage is something that was not let in.
type RejectedMessage struct {
	Reason string
	At     time.Time // by the server's clock
	Data   []byte
}

// See keeps what a stranger wrote under subject, words of letters, digits, dashes and underscores joined by
// dots, instead of what was there. All of it has a limit in bytes; beyond it the oldest goes. What was seen
// last may be lost in a crash. ErrFull comes under Options.Floor already.
func (j *Journal) See(ctx context.Context, subject string, data []byte) error {
	if err := j.keep(ctx, seenPrefix, subject, data); err != nil {
		return fmt.Errorf("see: %w", err)
	}
	return nil
}

// Unsee forgets what is kept under subject, if there is anything.
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

// Seen yields everything stored whose subject is prefix or begins with prefix and a dot; with an empty prefix,
// everything. The order is that of seeing. Messages that cannot be read are left out and logged: relays have them.
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

// seen yields the stored messages of Seen. The server takes one subject, so the one message that may be stored under the
// prefix itself is read first and put in its place.
func (j *Journal) seen(ctx context.Context, prefix string) iter.Seq2[stored, error] {
	if prefix == "" {
		return j.beside(ctx, seenStream, seenPrefix+">")
	}
	return func(yield func(stored, error) bool) {
		var own []stored
		for m, err := range j.beside(ctx, seenStream, seenPrefix+prefix) {
			if err != nil {
				yield(stored{}, err)
				return
			}
			own = append(own, m)
		}
		for m, err := range j.beside(ctx, seenStream, seenPrefix+prefix+".>") {
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

// Activity keeps data under subject, as See does, but keeps all of it up to a limit in bytes.
func (j *Journal) Activity(ctx context.Context, subject string, data []byte) error {
	if err := j.keep(ctx, activityPrefix, subject, data); err != nil {
		return fmt.Errorf("activity: %w", err)
	}
	return nil
}

// Reject remembers something that was not let in, for the owner to look at: the last thousand, 8 MiB at most.
// The caller waits a second at most.
func (j *Journal) Reject(ctx context.Context, reason string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, rejectTimeout)
	defer cancel()
	if err := j.reject(ctx, reason, data[:min(len(data), maxBeside)]); err != nil {
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
		return ErrUnknown
	}
	line := strings.Map(printable, reason[:min(len(reason), maxReason)])
	_, err := s.js.PublishMsg(ctx, &nats.Msg{
		Subject: rejectedPrefix + "event", Data: data, Header: nats.Header{reasonHeader: {line}},
	}, jetstream.WithRetryAttempts(0))
	return err
}

// printable keeps a header to one line.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// Rejected yields what was not let in, oldest first, and a *DamagedError at the end if some of it cannot be read.
func (j *Journal) Rejected(ctx context.Context) iter.Seq2[RejectedMessage, error] {
	return func(yield func(RejectedMessage, error) bool) {
		for msg, err := range j.beside(ctx, rejectedStream, rejectedPrefix+">") {
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

// keep appends to one of the streams beside the facts. A server that does not answer is started again.
func (j *Journal) keep(ctx context.Context, prefix, subject string, data []byte) error {
	if err := checkWords(subject); err != nil {
		return err
	}
	if len(data) > maxBeside {
		return fmt.Errorf("%s: %d bytes, at most %d: %w", subject, len(data), maxBeside, ErrTooLarge)
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

// beside yields what can be read in one of the streams beside the facts, and then a *DamagedError if something cannot.
func (j *Journal) beside(ctx context.Context, stream, subject string) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		s, err := j.server(ctx)
		if err != nil {
			yield(stored{}, err)
			return
		}
		s.everything(ctx, stream, 1, subject)(yield)
	}
}
