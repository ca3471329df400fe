package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stored is a message of a stream, as the server returns it.
type stored struct {
	subject string
	header  nats.Header
	data    []byte
	seq     uint64
	at      time.Time
}

// Limits of one request for messages. The server does nothing else for us while it answers.
const (
	batchSize  = 8 << 10
	batchBytes = 8 << 20
	batchTime  = time.Minute // to wait for each message; a busy machine is slow, not broken
)

// everything yields the messages of a stream under a subject, from a sequence to the last one. If some of them cannot be
// read, the last error is a *DamagedError. This is done with batched direct gets, since a JetStream consumer would wait for
// such a message for ever.
func (s *store) everything(ctx context.Context, stream string, from uint64, subject string) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		r := batches{store: s, stream: stream, subject: subject, next: max(from, 1), answers: make(chan *nats.Msg, batchSize+1)}
		inbox := s.conn.NewInbox()
		sub, err := s.conn.ChanSubscribe(inbox, r.answers)
		if err != nil {
			yield(stored{}, err)
			return
		}
		defer sub.Unsubscribe()
		for more := true; more && err == nil; {
			more, err = r.read(ctx, inbox, yield)
		}
		if err == nil && r.garbled > 0 {
			err = damaged("%d messages of its stream %s cannot be read", r.garbled, stream)
		}
		if err != nil && err != errLeft {
			yield(stored{}, err)
		}
	}
}

// batches reads a stream, some thousand messages in each batch.
type batches struct {
	store   *store
	stream  string
	subject string
	next    uint64 // sequence to read from
	left    uint64 // messages that follow, by the server's last count
	counted bool   // left is known
	missed  bool   // the last answer was empty although left was not 0
	garbled int    // messages with a header that cannot be read
	answers chan *nats.Msg
}

// errLeft means that the reader has left the loop.
var errLeft = errors.New("left")

// read requests a batch and yields it. more is false if the server says that no message follows.
func (r *batches) read(ctx context.Context, inbox string, yield func(stored, error) bool) (more bool, err error) {
	request, err := json.Marshal(map[string]any{"seq": r.next, "next_by_subj": r.subject, "batch": batchSize, "max_bytes": batchBytes})
	if err != nil {
		return false, err
	}
	if err := r.store.conn.PublishRequest("$JS.API.DIRECT.GET."+r.stream, inbox, request); err != nil {
		return false, err
	}
	for {
		msg, err := r.answer(ctx)
		if err != nil {
			return false, err
		}
		switch status := msg.Header.Get("Status"); status {
		case "":
			m, err := parseStored(msg)
			if err != nil { // the server's checksums do not cover the length of a header
				r.garbled++
				continue
			}
			r.next, r.missed = m.seq+1, false
			r.count(msg)
			if !yield(m, nil) {
				return false, errLeft
			}
		case "204": // the end of the batch
			if last, err := strconv.ParseUint(msg.Header.Get(lastHeader), 10, 64); err == nil {
				r.next = max(r.next, last+1)
			}
			r.count(msg)
			return !r.counted || r.left > 0, nil
		case "404": // nothing to read from here on
			return r.nothing(ctx)
		case "503": // nobody answers for the stream
			return false, jetstream.ErrStreamNotFound
		default:
			return false, fmt.Errorf("answer %s %s", status, msg.Header.Get("Description"))
		}
	}
}

// answer waits for the next message of the server.
func (r *batches) answer(ctx context.Context) (*nats.Msg, error) {
	select {
	case msg := <-r.answers:
		return msg, nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	select {
	case msg := <-r.answers:
		return msg, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// count takes the number of messages that follow an answer.
func (r *batches) count(answer *nats.Msg) {
	left, err := strconv.ParseUint(answer.Header.Get(pendingHeader), 10, 64)
	r.left, r.counted = left, err == nil
}

// nothing handles an answer without messages: either none is left, or one cannot be read. It asks a second time before it
// reports damage, since a message may have come between the answer and the count.
func (r *batches) nothing(ctx context.Context) (more bool, err error) {
	if !r.counted {
		if r.left, err = r.store.pending(ctx, r.stream, r.subject, r.next); err != nil {
			return false, err
		}
	}
	if r.left == 0 {
		return false, nil
	}
	if !r.missed {
		r.missed = true
		return true, nil
	}
	gone, err := r.deleted(ctx)
	if err != nil || gone {
		return false, err
	}
	return false, damaged("%d messages of its stream %s cannot be read", r.left, r.stream)
}

// deleted reports whether all messages that were left have been deleted meanwhile. If the stream's last sequence has
// fallen, they have not been: the server found a damaged block and truncated the stream there.
func (r *batches) deleted(ctx context.Context) (bool, error) {
	stream, err := r.store.js.Stream(ctx, r.stream)
	if err != nil {
		return false, err
	}
	info, err := stream.Info(ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return false, err
	}
	if info.State.LastSeq < r.next-1+r.left {
		return false, nil
	}
	unread := max(r.next, info.State.FirstSeq)
	for _, seq := range info.State.Deleted {
		if seq == unread {
			unread++
		}
	}
	return unread > info.State.LastSeq, nil
}

// pending returns the server's count of messages under a subject from a sequence on.
func (s *store) pending(ctx context.Context, stream, subject string, from uint64) (uint64, error) {
	cons, err := s.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true,
	})
	if err != nil {
		return 0, err
	}
	n := cons.CachedInfo().NumPending
	err = s.js.DeleteConsumer(context.WithoutCancel(ctx), stream, cons.CachedInfo().Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // the server deletes one that nobody uses for five seconds
		err = nil
	}
	return n, err
}

// The headers of the server's answers.
const (
	subjectHeader  = "Nats-Subject"
	sequenceHeader = "Nats-Sequence"
	timeHeader     = "Nats-Time-Stamp"
	pendingHeader  = "Nats-Num-Pending"
	lastHeader     = "Nats-Last-Sequence" // in a message, of the one before it; at the end of a batch, of its last one
)

// parseStored reads one message of a batch.
func parseStored(msg *nats.Msg) (m stored, err error) {
	m = stored{subject: msg.Header.Get(subjectHeader), header: msg.Header, data: msg.Data}
	if m.seq, err = strconv.ParseUint(msg.Header.Get(sequenceHeader), 10, 64); err != nil {
		return stored{}, err
	}
	m.at, err = time.Parse(time.RFC3339Nano, msg.Header.Get(timeHeader))
	return m, err
}
