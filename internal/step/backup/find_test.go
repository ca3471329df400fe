package backup

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// junk returns gift wraps that are addressed to this node but cannot be opened, one for each second back from newest.
func junk(t *testing.T, count int, newest nostr.Timestamp) (all []guild.Verified) {
	t.Helper()
	for n := range count {
		v, err := guild.Sign(t.Context(), mallory, nostr.Event{Kind: nostr.KindGiftWrap, CreatedAt: newest - nostr.Timestamp(n), Tags: nostr.Tags{{"p", us.key.Hex()}}, Content: "x"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// gives returns the Query of a relay that has these events, the newest first, and no notes.
func gives(all []guild.Verified) Query {
	return func(_ context.Context, filters []nostr.Filter, _ ...string) (events []guild.Verified, err error) {
		f := filters[0]
		if !slices.Contains(f.Kinds, nostr.KindGiftWrap) {
			return nil, nil
		}
		for _, v := range all {
			if at := v.Event().CreatedAt; (f.Until == 0 || at <= f.Until) && len(events) < f.Limit {
				events = append(events, v)
			}
		}
		return events, nil
	}
}

func TestFindBehindForeignWraps(t *testing.T) {
	w := newWorld(t, newCloud())
	content, err := message{Type: messageType, Version: version, Backup: guild.Sum([]byte("b")), Key: guild.Sum([]byte("k")).Hex(),
		Plain: guild.Sum([]byte("p")), Matrix: guild.Sum([]byte("m")), Made: 1}.encode(difference{})
	if err != nil {
		t.Fatal(err)
	}
	ours, _, err := dm.Wrap(t.Context(), us, us.key, us.key, dm.Message{Content: content}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Verify(ours)
	if err != nil {
		t.Fatal(err)
	}
	all := append(junk(t, 10_500, ours.CreatedAt+10_501), v)
	found, looked, err := w.Find(t.Context(), gives(all), []string{"wss://relay.example.com"})
	if err != nil || len(found) != 1 || found[0].Event().ID != ours.ID || looked != len(all) {
		t.Errorf("%d found among %d, %v", len(found), looked, err)
	}
}

// A relay returns more of others' gift wraps than can be read, and none of ours. The note is found by our key.
func TestNoteCannotBeHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		want, newest := w.hash(), w.opened()[0]
		w.Stop()
		flooded := func(ctx context.Context, filters []nostr.Filter, _ ...string) ([]guild.Verified, error) {
			if f := filters[0]; f.Kinds[0] == kindNote {
				if !f.Matches(w.note.Event()) {
					t.Errorf("%v does not ask for the note", f)
				}
				return []guild.Verified{w.note}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		fresh := newWorld(t, w.cloud)
		began := time.Now()
		found, _, err := fresh.Find(t.Context(), flooded, []string{"wss://relay.example.com"})
		if err != nil || len(found) != 1 || time.Since(began) > noteLook {
			t.Fatalf("%d found in %s, %v", len(found), time.Since(began), err)
		}
		report, err := fresh.Restore(t.Context(), found, Options{})
		if err != nil || !report.Exact || report.Backup != newest.id() || fresh.hash() != want {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

func TestNoteOfLatestBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.Run(w.Due)
		w.happens(trusted(1, 0, 600_000))
		if _, err := w.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := w.note.Event()
		w.happens(trusted(1, 600_000, 610_000))
		second, err := w.Now(t.Context()) // in the same second
		if err != nil {
			t.Fatal(err)
		}
		last := w.note.Event()
		if last.CreatedAt <= first.CreatedAt || last.PubKey != us.key || !slices.EqualFunc(last.Tags, nostr.Tags{{"d", messageType}}, func(a, b nostr.Tag) bool { return slices.Equal(a, b) }) {
			t.Errorf("%s after %s", last, first)
		}
		m, err := w.read(t.Context(), w.note)
		if err != nil || m.id() != second.ID {
			t.Errorf("it names %.8s, %v, want %.8s", m.id(), err, second.ID)
		}
		if forged, err := guild.Sign(t.Context(), mallory, nostr.Event{Kind: kindNote, Tags: last.Tags, Content: last.Content}); err != nil {
			t.Fatal(err)
		} else if _, err := w.read(t.Context(), forged); err == nil {
			t.Error("somebody else's note was read")
		}
	})
}

// Some relays accept no gift wraps, and others no notes. Each of the two names the backup.
func TestMessageOrNoteSuffices(t *testing.T) {
	for refused, sent := range map[nostr.Kind]bool{nostr.KindGiftWrap: true, kindNote: true, 0: false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, newCloud())
			w.Step.c.Publish = func(ctx context.Context, v guild.Verified, relays []string) error {
				if kind := v.Event().Kind; kind == refused || refused == 0 {
					return fmt.Errorf("blocked: kind %d", kind)
				}
				return w.publish(ctx, v, relays)
			}
			w.Run(w.Due)
			w.happens(trusted(1, 0, 600_000))
			w.Pass(3 * time.Hour)
			if list := w.List(); len(list) != 1 || (list[0].Sent != 0) != sent {
				t.Errorf("without kind %d: %+v", refused, list)
			}
		})
	}
}

func TestNoteWaitsForRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		var back atomic.Bool
		w.Step.c.Publish = func(ctx context.Context, v guild.Verified, relays []string) error {
			if v.Event().Kind == kindNote && !back.Load() {
				return due.ErrLater
			}
			return w.publish(ctx, v, relays)
		}
		w.Run(w.Due)
		w.happens(trusted(1, 0, 600_000))
		w.Pass(time.Hour)
		if w.count(fact.BackupSent{}.Type()) != 0 {
			t.Error("the note was forgotten")
		}
		back.Store(true)
		w.Pass(time.Hour)
		if w.count(fact.BackupSent{}.Type()) != 1 || w.note.Event().Kind != kindNote {
			t.Error("the note was never published")
		}
	})
}
