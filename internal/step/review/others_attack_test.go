package review

import (
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild/nipreview"
)

// TestRetractionsOfStrangers floods the node with deletions of reviews that never existed, which anybody can send. A
// deletion by a reviewer that counts still has to stay in effect when a relay sends the review again.
func TestRetractionsOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, follows(bob))
		stranger := newPerson(77)
		const each = 50 // addresses in one deletion
		for n := 0; n <= mostGone; n += each {
			e := nostr.Event{Kind: KindDeletion, CreatedAt: nostr.Timestamp(time.Now().Unix())}
			for k := range each {
				e.Tags = append(e.Tags, nostr.Tag{"a", address(stranger.key) + nipreview.Address(alice.key, fmt.Sprint("task", n+k))})
			}
			if _, err := w.hears(stranger, e); err != nil {
				t.Fatal(err)
			}
		}
		at := time.Now()
		w.mustSay(bob, of(alice, 750_000), at)
		back := nostr.Event{Kind: KindDeletion, CreatedAt: nostr.Timestamp(at.Unix()), Tags: nostr.Tags{{"a", address(bob.key) + nipreview.Address(alice.key, python)}}}
		if _, err := w.hears(bob, back); err != nil {
			t.Fatal(err)
		}
		if _, err := w.says(bob, of(alice, 750_000), at); err == nil {
			t.Error("a review that was taken back is taken again")
		}
		if got := w.About(alice.key, python); got.Count != 0 {
			t.Errorf("it is back: %+v", got)
		}
	})
}

// BenchmarkReviewWithoutRoom measures a review that is older than all known ones. Anybody can send any number of them.
func BenchmarkReviewWithoutRoom(b *testing.B) {
	o := newOthers(Config{}, NewFold())
	review := func(n int, at nostr.Timestamp) (place, *opinion) {
		said := &opinion{reviewer: newPerson(1000 + n/mostOfNobody).key, subject: alice.key, at: at, task: fmt.Sprint(n), stored: 900}
		binary.BigEndian.PutUint64(said.id[:], uint64(n))
		return placeOf(said.reviewer, said.subject, said.task), said
	}
	for n := range most {
		if _, _, err := o.put(review(n, 1_700_000_000)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, _, err := o.put(review(most, 1)); err == nil {
			b.Fatal("it was taken")
		}
	}
}
