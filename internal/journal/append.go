package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"guild"
	"guild/internal/journal/fact"
)

const (
	maxClockLag     = time.Minute            // of the wall clock behind the last entry
	unansweredLimit = 3                      // times that one decision is sent to a server that does not answer
	conflictLimit   = 100                    // tries of one decision if other entries keep coming first
	overlap         = 100 * time.Millisecond // wait for an earlier entry that another caller of Do is about to fold
)

// Tx is a decision that is being taken.
type Tx struct {
	now   time.Time
	facts []fact.Fact
}

// Append adds facts to the decision. They are recorded together or not at all.
func (tx *Tx) Append(facts ...fact.Fact) { tx.facts = append(tx.facts, facts...) }

// Now returns the time of the decision, which its entry will carry, in whole milliseconds. It is never before that of the
// last entry under the guard.
func (tx *Tx) Now() time.Time { return tx.now }

// Do takes one decision under a guard: the noun and id of what must not change meanwhile. decide reads the folds, which
// have all entries under the guard, and appends facts to tx. They are recorded only if no other entry came under the guard
// meanwhile; else decide is called again, so it must change nothing but tx. When Do returns nil, the facts are on disk and
// folded. An error of decide is returned as it is, and nothing is recorded; neither is a decision without facts. cause is
// the event or entry that led to the decision, if any.
//
// ctx bounds the wait for other decisions under the guard, and does not interrupt the recording. Errors to match:
// ErrClosed, ErrFull, ErrClock, ErrTooLarge, ErrSubject, ErrQuarantined, *DamagedError.
func (j *Journal) Do(ctx context.Context, guard fact.Subject, cause string, decide func(*Tx) error) error {
	return j.do(ctx, decision{j: j, guard: guard, cause: cause, decide: decide})
}

func (j *Journal) do(ctx context.Context, d decision) error {
	if err := checkSubject(d.guard); err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	unlock, err := j.guard.lock(ctx, d.guard)
	if err != nil {
		return fmt.Errorf("decide on %s: %w", d.guard, err)
	}
	defer unlock()
	for range conflictLimit {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("decide on %s: %w", d.guard, err)
		}
		if done, err := d.try(context.WithoutCancel(ctx)); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("decide on %s: another entry came first %d times", d.guard, conflictLimit)
}

// decision is one call of Do or CloseGuard.
type decision struct {
	j      *Journal
	guard  fact.Subject
	cause  string
	closes bool // it is taken although the guard is in quarantine
	decide func(*Tx) error

	unknown [][]byte // entries that were sent and not answered
	since   uint64   // the guard's last entry before the first of those
}

// try decides once. If done is false and there is no error, the decision must be taken again.
func (d *decision) try(ctx context.Context) (done bool, err error) {
	tip, err := d.ready()
	if err != nil {
		return false, fmt.Errorf("decide on %s: %w", d.guard, err)
	}
	m, err := d.take(tip)
	if err != nil || len(m.entry.Facts) == 0 {
		return true, err
	}
	done, err = d.record(ctx, tip, m)
	if err != nil {
		err = fmt.Errorf("record a decision on %s: %w", d.guard, err)
	}
	return done, err
}

// ready returns the guard's last entry, or why no decision can be recorded now.
func (d *decision) ready() (tip, error) {
	tip, latest, err := d.j.state.tip(d.guard)
	if err != nil && !(d.closes && errors.Is(err, ErrQuarantined)) {
		return tip, err
	}
	if now := d.j.o.Now(); now.Add(maxClockLag).UnixMilli() < latest {
		return tip, fmt.Errorf("it is %s, the last fact is of %s: %w",
			now.UTC().Format(time.RFC3339), time.UnixMilli(latest).UTC().Format(time.RFC3339), ErrClock)
	}
	return tip, d.j.space.room()
}

// take calls decide and encodes its decision.
func (d *decision) take(tip tip) (message, error) {
	at := max(d.j.o.Now().UnixMilli(), tip.at)
	tx := Tx{now: time.UnixMilli(at)}
	if err := d.decide(&tx); err != nil || len(tx.facts) == 0 {
		return message{}, err
	}
	m := message{subject: d.guard, entry: fact.Entry{
		V: fact.Version, At: at, By: d.j.o.Node, Cause: d.cause, Prev: tip.prev(), Facts: tx.facts,
	}}
	return m, m.encode(d.j.keys)
}

// encode sets the stored form of an entry. After a key was erased, the entry loses the members that it would encrypt.
func (m *message) encode(k *keys) (err error) {
	var erased bool
	if k != nil && m.subject.IsSealed() {
		m.data, err = m.entry.Seal(func(private []byte) (sealed []byte, err error) {
			sealed, erased, err = k.seal(m.subject, private)
			return sealed, err
		})
	} else {
		m.data, err = m.entry.Encode()
	}
	if err == nil && erased {
		m.entry, err = fact.Decode(m.data, nil)
	}
	if err != nil {
		return fmt.Errorf("encode a decision on %s: %w", m.subject, err)
	}
	m.entry.Subject, m.entry.Hash = m.subject, guild.Sum(m.data)
	if len(m.data) > fact.MaxEntry {
		return m.tooLarge()
	}
	return nil
}

// tooLarge returns ErrTooLarge unless only the encryption makes the entry larger than others may be.
func (m *message) tooLarge() error {
	open, err := m.entry.Encode()
	if err != nil {
		return fmt.Errorf("encode a decision on %s: %w", m.subject, err)
	}
	if len(open) > fact.MaxEntry {
		return fmt.Errorf("decide on %s: %d bytes, at most %d: %w", m.subject, len(open), fact.MaxEntry, ErrTooLarge)
	}
	return nil
}

// record appends the decision after tip. If done is false and there is no error, it must be taken again.
func (d *decision) record(ctx context.Context, tip tip, m message) (done bool, err error) {
	s, err := d.j.server(ctx)
	if err != nil {
		return false, err
	}
	seq, err := d.j.publish(ctx, s, tip, m)
	switch {
	case err == nil:
		return true, d.j.recorded(ctx, s, m, seq)
	case conflicts(err):
		return d.overtaken(ctx, s, tip)
	case refused(err):
		return false, err
	default:
		if len(d.unknown) == 0 {
			d.since = tip.seq
		}
		d.unknown = append(d.unknown, m.data)
		return d.unanswered(ctx, s)
	}
}

// publish appends m after tip. For a guard whose entries are all archived the server expects 0.
func (j *Journal) publish(ctx context.Context, s *store, tip tip, m message) (uint64, error) {
	j.cutting.RLock()
	defer j.cutting.RUnlock()
	expected := tip.seq
	if expected <= j.mark.get().Archived {
		expected = 0
	}
	return s.publish(ctx, m, expected, j.o.PublishTimeout)
}

// recorded folds an acknowledged entry once the entries before it are folded. Other callers of Do are about to fold those;
// the ones that are still missing after a moment are read from the server.
func (j *Journal) recorded(ctx context.Context, s *store, m message, seq uint64) error {
	m.seq, m.entry.Seq = seq, seq
	j.state.offer(m)
	if j.state.last() >= seq {
		return nil
	}
	moment, cancel := context.WithTimeout(ctx, overlap)
	err := j.state.reach(moment, seq)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) {
		err = j.catchUp(ctx, s, seq)
	}
	if err != nil {
		return errors.Join(errUnknown, err)
	}
	return nil
}

// overtaken catches up with the entries under the guard that came after tip, because of which the server refused ours. If
// there are none, the server has lost entries, and would refuse the decision for ever.
func (d *decision) overtaken(ctx context.Context, s *store, tip tip) (done bool, err error) {
	last, err := s.lastOf(ctx, d.guard)
	if err != nil {
		return false, err
	}
	if archived := d.j.mark.get().Archived; 0 < last && last <= archived { // Archive was interrupted before it removed them
		return false, s.cutOff(ctx, archived)
	}
	if last <= tip.seq {
		err := damaged("the last entry of %s is %d, and entry %d was on disk", d.guard, last, tip.seq)
		d.j.state.stop(err)
		return false, err
	}
	if err := d.j.catchUp(ctx, s, last); err != nil {
		return false, err
	}
	if len(d.unknown) == 0 {
		return false, nil
	}
	return s.holds(ctx, d.guard, d.since, d.unknown)
}

// unanswered finds out whether the server recorded an entry that it did not acknowledge. The server is restarted for that:
// after a full disk it may refuse everything, and an entry that is still on its way to it then arrives before or never.
func (d *decision) unanswered(ctx context.Context, failed *store) (done bool, err error) {
	s, err := d.j.revive(ctx, failed)
	if err != nil {
		return false, errors.Join(errUnknown, err)
	}
	done, err = s.holds(ctx, d.guard, d.since, d.unknown)
	if !done && err == nil && len(d.unknown) == unansweredLimit {
		return false, errUnknown
	}
	return done, err
}

// holds reports whether one of the given entries is under the guard after the sequence since.
func (s *store) holds(ctx context.Context, guard fact.Subject, since uint64, entries [][]byte) (bool, error) {
	for {
		msg, err := s.facts.GetMsg(ctx, since+1, jetstream.WithGetMsgSubject(factsPrefix+string(guard)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, nil
		}
		if err != nil {
			return false, errors.Join(errUnknown, err)
		}
		for _, entry := range entries {
			if bytes.Equal(entry, msg.Data) {
				return true, nil
			}
		}
		since = msg.Sequence
	}
}
