package record

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/receipt"
)

// board is a relay that refuses a number of events and then keeps the others.
type board struct {
	refusals int
	events   []nostr.Event
}

func (b *board) publish(_ context.Context, v guild.Verified, _ []string) error {
	if b.refusals > 0 {
		b.refusals--
		return errors.New("blocked: not today")
	}
	b.events = append(b.events, v.Event())
	return nil
}

func TestReceiptIsPublishedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{refusals: 1}
		a, job := newPublicArchive(t, b.publish), guild.JobID{1}
		id := a.opened(job, 1)
		a.judged(job, id, guild.Success, 1_000_000)
		time.Sleep(time.Minute)
		a.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(b.events) != 1 {
			t.Fatalf("%d events", len(b.events))
		}
		v, err := guild.Verify(b.events[0])
		if err != nil {
			t.Fatal(err)
		}
		got, err := receipt.ParseEvent(v)
		raw, _ := a.blobs.ReadAll(a.recorded(id).Stored, receipt.MaxSize)
		if err != nil || got.ID != a.recorded(id).Receipt || v.Event().Content != string(raw) {
			t.Errorf("%s says %s, %v", v.Event().Content, got.ID, err)
		}
		if said := steptest.Facts[fact.ReceiptPublished](a); len(said) != 1 || said[0].Event != v.Event().ID || said[0].Receipt != got.ID || said[0].Reason != "" {
			t.Errorf("%+v", said)
		}
	})
}

func TestUnpublishableReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{refusals: 1000}
		a, job := newPublicArchive(t, b.publish), guild.JobID{1}
		a.judged(job, a.opened(job, 1), guild.Success, 1_000_000)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		said := steptest.Facts[fact.ReceiptPublished](a)
		if len(said) != 1 || said[0].Reason == "" || said[0].Event != (nostr.ID{}) || len(a.fold.unpublished()) != 0 {
			t.Errorf("%+v, and %d are still to be published", said, len(a.fold.unpublished()))
		}
	})
}

func TestSupersededReceiptStaysPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		a, job := newPublicArchive(t, b.publish), guild.JobID{1}
		id := a.opened(job, 1)
		a.judged(job, id, guild.Failure, 300_000)
		first := a.recorded(id).Receipt
		a.append(job, fact.AttemptDisputed{Attempt: id, Reason: "my answer was right"})
		a.append(job, fact.AttemptJudged{Attempt: id, Hash: guild.Sum([]byte("again")), Stored: guild.Sum([]byte("stored")),
			Verdict: guild.Verdict{Outcome: guild.Success, Score: 1_000_000}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(b.events) != 2 {
			t.Fatalf("%d events", len(b.events))
		}
		if tag := b.events[1].Tags.Find("supersedes"); tag == nil || tag[1] != first {
			t.Errorf("the second names %v, want %s", tag, first)
		}
	})
}
