package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"github.com/klauspost/compress/zstd"

	"guild"
	"guild/canon"
	"guild/internal/hand/blossom"
	"guild/internal/hand/dm"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
	"guild/internal/journal/fact"
)

func mustSign() nostr.Event {
	v, err := guild.Sign(context.Background(), us, nostr.Event{Kind: 1059, Content: "x"})
	if err != nil {
		panic(err)
	}
	return v.Event()
}

// lived returns a world with three backups.
func lived(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, newCloud())
	w.Run(w.Due)
	w.happens(trusted(1, 0, 600_000), moved(1, "", guild.Active))
	w.Pass(2 * time.Hour)
	w.happens(trusted(2, 0, 450_000), trusted(3, 0, 750_000))
	w.Pass(2 * time.Hour)
	w.happens(trusted(1, 600_000, 300_000), moved(1, guild.Active, guild.Suspended))
	w.Pass(2 * time.Hour)
	if len(w.opened()) < 3 {
		t.Fatalf("%d backups", len(w.opened()))
	}
	return w
}

// A machine is lost with its disk. Another one with the same key finds its messages at a relay and the snapshot on a
// Blossom server. Relay and server are real.
func TestRestoreLostNode(t *testing.T) {
	r, err := relayd.Open(relayd.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	pool := relay.New(relay.Config{URLs: []string{r.URL()}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	running.Go(func() { pool.Run(ctx) })
	defer running.Wait()
	defer cancel()

	server := strings.Replace(r.URL(), "ws://", "http://", 1)
	client := &blossom.Client{Signer: us, Now: time.Now, AllowLoopback: true}
	connect := func(w *world) {
		w.Step.c.Upload = func(ctx context.Context, sealed []byte) ([]string, error) {
			url, err := client.Upload(ctx, server, bytes.NewReader(sealed), int64(len(sealed)), guild.Sum(sealed))
			return []string{url}, err
		}
		w.Step.c.Fetch = func(ctx context.Context, urls []string, h guild.Hash) ([]byte, error) {
			var b bytes.Buffer
			_, err := client.Download(ctx, urls[0], h, maxSealed, &b)
			return b.Bytes(), err
		}
		w.Step.c.Publish = func(ctx context.Context, v guild.Verified, _ []string) error {
			_, err := pool.Publish(ctx, v, r.URL())
			return err
		}
	}
	lost := newWorld(t, newCloud())
	connect(lost)
	lost.Run(lost.Due)
	for n := range byte(100) {
		lost.happens(trusted(n, 0, guild.Trust(n)*9_000), moved(n, guild.Seen, guild.Active))
	}
	if _, err := lost.Now(ctx); err != nil {
		t.Fatal(err)
	}
	lost.happens(trusted(7, 63_000, 500_000))
	latest, err := lost.Now(ctx)
	if err != nil || latest.Sent == 0 {
		t.Fatalf("%+v, %v", latest, err)
	}
	want := lost.hash()
	lost.Stop()

	fresh := newWorld(t, newCloud())
	connect(fresh)
	found, _, err := fresh.Find(ctx, pool.Query, []string{"wss://127.0.0.1:1", r.URL()})
	if err != nil || len(found) != 3 {
		t.Fatalf("%d at the relay, want two messages and the note, %v", len(found), err)
	}
	if _, _, err := fresh.Find(ctx, pool.Query, []string{"wss://127.0.0.1:1"}); err == nil {
		t.Error("nothing is found where no relay is")
	}
	report, err := fresh.Restore(ctx, found, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if fresh.hash() != want || report.Backup != latest.ID || report.Matrix != want || !report.Exact || report.Rows != 200 || fresh.matrix.trustIn(7) != 500_000 {
		t.Errorf("%+v, want backup %s of %s", report, latest.ID, want)
	}
	again, err := fresh.Restore(ctx, found, Options{})
	if err != nil || fresh.count("backup.restored") != 1 || again.Backup != latest.ID {
		t.Errorf("once more: %+v, %v", again, err)
	}
}

// A relay returns at most 500 events at once. Anybody can send any number of events, also many of the same second.
func TestMessagesAreFoundBehindManyOthers(t *testing.T) {
	var all []guild.Verified
	for n := range 1_300 {
		at := nostr.Timestamp(5_000 - n)
		if n > 400 && n < 700 {
			at = 4_500
		}
		v, err := guild.Sign(t.Context(), mallory, nostr.Event{Kind: 1059, CreatedAt: at, Tags: nostr.Tags{{"p", us.key.Hex()}}, Content: fmt.Sprint(n)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b guild.Verified) int { return int(b.Event().CreatedAt - a.Event().CreatedAt) })
	asked := 0
	relay := func(_ context.Context, filters []nostr.Filter, _ ...string) (events []guild.Verified, err error) {
		asked++
		for _, v := range all {
			if e := v.Event(); filters[0].Matches(e) && len(events) < filters[0].Limit {
				events = append(events, v)
			}
		}
		return events, nil
	}
	found, looked, err := newWorld(t, newCloud()).Find(t.Context(), relay, []string{"wss://relay.example.com"})
	if err != nil || len(found) != 0 || looked != len(all) || asked > 7 {
		t.Errorf("%d found among %d of %d in %d pages, %v", len(found), looked, len(all), asked, err)
	}
}

func TestRepeatingRelay(t *testing.T) {
	wrap, err := guild.Sign(t.Context(), us, nostr.Event{Kind: nostr.KindGiftWrap, CreatedAt: 1_790_000_000, Tags: nostr.Tags{{"p", us.key.Hex()}}})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	relay := func(context.Context, []nostr.Filter, ...string) ([]guild.Verified, error) {
		if asked++; asked > 10 {
			return nil, errors.New("it is asked again and again")
		}
		return []guild.Verified{wrap}, nil // for any time
	}
	_, looked, err := newWorld(t, newCloud()).Find(t.Context(), relay, []string{"wss://relay.example.com"})
	if err != nil || looked != 2 {
		t.Errorf("looked at %d, want what it says of notes and of messages, %v", looked, err)
	}
}

func TestRestoreNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		messages, end := w.opened(), w.hash()
		newest, second := messages[0], messages[1]

		_, r, err := restored(t, w.cloud, Options{})
		if err != nil || r.Backup != newest.id() || r.Matrix != end || r.Differences != 0 || len(r.Passed) != 0 || r.Policy != newest.Policy {
			t.Errorf("%+v, %v", r, err)
		}
		older, r, err := restored(t, w.cloud, Options{Backup: second.id()[:12]})
		if err != nil || r.Backup != second.id() || older.hash() != second.Matrix {
			t.Errorf("the one that was asked for: %+v, %v", r, err)
		}
		delete(w.blobs, newest.Backup)
		rebuilt, r, err := restored(t, w.cloud, Options{})
		if err != nil || r.Backup != newest.id() || rebuilt.hash() != end || r.Differences != 1 {
			t.Errorf("from the one before and the difference: %+v, %v", r, err)
		}
		blobs, wraps := maps.Clone(w.blobs), slices.Clone(w.wraps)
		clear(w.blobs)
		rebuilt, r, err = restored(t, w.cloud, Options{})
		if err != nil || rebuilt.hash() != end || r.Differences != len(messages) {
			t.Errorf("from differences alone: %+v, %v", r, err)
		}
		w.forget(messages[len(messages)-1])
		if _, _, err = restored(t, w.cloud, Options{}); !errors.Is(err, ErrGone) {
			t.Errorf("without the first of them: %v", err)
		}
		w.blobs, w.wraps = blobs, wraps
		w.forget(second)
		rebuilt, r, err = restored(t, w.cloud, Options{})
		if err != nil || rebuilt.hash() == end || !slices.Equal(r.Passed, []string{newest.id()}) || r.Backup != messages[2].id() || r.Differences != 0 {
			t.Errorf("the chain is broken and the newest gone: %+v, %v", r, err)
		}
	})
}

// forget removes a message from the relays.
func (w *world) forget(m message) {
	w.wraps = slices.DeleteFunc(w.wraps, func(v guild.Verified) bool {
		got, err := w.read(w.Context(), v)
		return err == nil && got.Backup == m.Backup
	})
}

func TestWrongSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		newest := w.opened()[0]
		for name, bad := range map[string][]byte{
			"empty": {}, "another's": w.blobs[w.opened()[1].Backup], "cut": w.blobs[newest.Backup][:100],
		} {
			c := newCloud()
			c.wraps, c.blobs = w.wraps, map[guild.Hash][]byte{newest.Backup: bad, w.opened()[1].Backup: w.blobs[w.opened()[1].Backup]}
			r, report, err := restored(t, c, Options{})
			if err != nil || r.hash() != w.hash() || report.Differences != 1 {
				t.Errorf("%s: %+v, %v", name, report, err)
			}
		}
	})
}

// say wraps a message about a backup, signed by a person.
func say(t *testing.T, by person, m message) guild.Verified {
	t.Helper()
	text, err := canon.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := dm.Wrap(t.Context(), by, by.key, us.key, dm.Message{Content: string(text)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Verify(e)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestForeignMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		forged := w.opened()[0]
		forged.Made += time.Hour.Milliseconds()
		forged.Backup, forged.Previous = guild.Hash{1}, guild.Hash{}
		all := rows{"trust": {"x": json.RawMessage(`{}`)}}
		forged.Difference = &difference{Changed: all}
		var err error
		if forged.Matrix, err = all.hash(); err != nil {
			t.Fatal(err)
		}
		evil := say(t, mallory, forged)
		for name, wraps := range map[string][]guild.Verified{
			"a message of another key": {evil}, "no message": nil, "a request": {request(t)},
		} {
			fresh := newWorld(t, w.cloud)
			if _, err := fresh.Restore(t.Context(), wraps, Options{}); !errors.Is(err, ErrNone) || len(fresh.Entries()) != 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
		fresh := newWorld(t, w.cloud)
		r, err := fresh.Restore(t.Context(), append(w.cloud.messages(), evil), Options{})
		if err != nil || r.Backup == forged.id() || fresh.hash() != w.hash() {
			t.Errorf("among ours: %+v, %v", r, err)
		}
		found, err := fresh.Look(t.Context(), append(w.cloud.messages(), evil))
		if err != nil || len(found) != len(w.opened()) || found[0].Backup != w.opened()[0].id() || found[0].Rows != 4 {
			t.Errorf("%+v, %v", found, err)
		}
		newer := w.opened()[0]
		newer.Version = 2
		if _, err := newWorld(t, w.cloud).Restore(t.Context(), []guild.Verified{say(t, us, newer)}, Options{}); !errors.Is(err, ErrNewer) {
			t.Errorf("a message of a newer program: %v", err)
		}
	})
}

func request(t *testing.T) guild.Verified {
	t.Helper()
	v, err := guild.Sign(t.Context(), us, nostr.Event{Kind: 5000, Tags: nostr.Tags{{"p", us.key.Hex()}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRestoreNeedsForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		fresh := newWorld(t, w.cloud)
		fresh.happens(trusted(1, 0, 900_000))
		if _, err := fresh.Restore(t.Context(), w.cloud.messages(), Options{}); !errors.Is(err, ErrNotEmpty) || fresh.matrix.trustIn(1) != 900_000 {
			t.Fatalf("%v", err)
		}
		if r, err := fresh.Restore(t.Context(), w.cloud.messages(), Options{Force: true}); err != nil || !r.Exact || fresh.hash() != w.hash() {
			t.Errorf("forced: %+v, %v", r, err)
		}
	})
}

func TestRestoreNewerBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		fresh := newWorld(t, w.cloud)
		fresh.Step.c.Parts = fresh.Step.c.Parts[:1]
		if _, err := fresh.Restore(t.Context(), w.cloud.messages(), Options{}); !errors.Is(err, ErrNewer) || len(fresh.Entries()) != 0 {
			t.Errorf("%v", err)
		}
	})
}

func TestRestoreChecksAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		fresh := newWorld(t, w.cloud)
		fresh.Step.c.Settle = func(_ context.Context, backup string) (int, int, error) {
			fresh.happens(moved(1, guild.Suspended, guild.Stale))
			return 3, 1, nil
		}
		r, err := fresh.Restore(t.Context(), w.cloud.messages(), Options{})
		if err != nil || r.Services != 3 || r.Unclaimed != 1 || !r.Exact {
			t.Errorf("%+v, %v", r, err)
		}
		last := fresh.Entries()
		if f, ok := last[len(last)-1].Facts[0].(fact.BackupRestored); !ok || f.Unclaimed != 1 || f.Services != 3 || f.Made != r.Made {
			t.Errorf("%+v", last[len(last)-1].Facts)
		}
	})
}

var errDied = errors.New("killed")

// The process dies before any row is restored. Until the restore is complete no backup is made, because a backup of a
// part of the matrix would be newer than the whole one. The restore is continued without being forced.
func TestKilledBeforeRow(t *testing.T) {
	for row := range 5 {
		synctest.Test(t, func(t *testing.T) {
			w := lived(t)
			sent := len(w.cloud.messages())
			fresh := newWorld(t, w.cloud)
			n := 0
			fresh.dies = func(string) error {
				if n++; n > row {
					return errDied
				}
				return nil
			}
			_, err := fresh.Restore(t.Context(), w.cloud.messages(), Options{})
			if done := row >= 4; done != (err == nil) || !done && !errors.Is(err, errDied) {
				t.Fatalf("%d rows: %v", row, err)
			}
			fresh.restart()
			if id, ok := fresh.Unfinished(); ok != (err != nil) || ok && id != w.opened()[0].id() {
				t.Errorf("unfinished: %.8s, %t", id, ok)
			}
			if err != nil {
				fresh.happens(trusted(9, 0, 900_000), moved(9, "", guild.Active))
				fresh.Pass(5 * time.Hour)
				if len(w.cloud.messages()) != sent {
					t.Error("a part was backed up")
				}
				fresh.dies = nil
				if _, err := fresh.Restore(t.Context(), w.cloud.messages(), Options{}); err != nil {
					t.Fatal(err)
				}
				fresh.Pass(5 * time.Hour)
				if len(w.cloud.messages()) != sent+1 {
					t.Error("what was learned since is not backed up")
				}
			}
			if fresh.count("backup.restored") != 1 || fresh.matrix.trustIn(1) != 300_000 || fresh.matrix.trustIn(3) != 750_000 {
				t.Errorf("%d times restored", fresh.count("backup.restored"))
			}
		})
	}
}

// The process dies after each entry of a restore.
func TestRestoreKilledAtEveryEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		whole, _, err := restored(t, w.cloud, Options{})
		if err != nil {
			t.Fatal(err)
		}
		history := whole.Entries()
		for died := range history {
			fresh := newWorld(t, w.cloud)
			fresh.Relive(history[:died+1])
			r, err := fresh.Restore(t.Context(), w.cloud.messages(), Options{})
			if err != nil || !r.Exact || fresh.hash() != whole.hash() || len(fresh.Entries()) != len(history) {
				t.Errorf("died after entry %d of %d: %+v, %v", died+1, len(history), r, err)
			}
			fresh.CloseJournal()
		}
	})
}

func TestBackupEndsRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lived(t)
		fresh := newWorld(t, w.cloud)
		fresh.dies = func(part string) error {
			if part == "state" {
				return errDied
			}
			return nil
		}
		if _, err := fresh.Restore(t.Context(), w.cloud.messages(), Options{}); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		fresh.restart()
		if b, err := fresh.Now(t.Context()); err != nil || b.Matrix != fresh.hash() {
			t.Fatalf("%+v, %v", b, err)
		}
		if _, ok := fresh.Unfinished(); ok {
			t.Error("it is still being restored")
		}
	})
}

func TestMatrixHash(t *testing.T) {
	part := func(name, row string) Part {
		return Part{Name: name, Rows: func() map[string]json.RawMessage {
			if row == "" {
				return nil
			}
			return map[string]json.RawMessage{"k": json.RawMessage(row)}
		}}
	}
	of := func(parts ...Part) guild.Hash {
		h, err := Hash(parts)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a := of(part("trust", `{"a":1,"b":2}`), part("state", `"x"`))
	if a != of(part("state", ` "x"`), part("trust", `{ "b": 2, "a": 1 }`), part("more", "")) {
		t.Error("the order of parts, white space or an empty part matter")
	}
	if a == of(part("trust", `{"a":1,"b":3}`), part("state", `"x"`)) || a == of(part("trust", `{"a":1,"b":2}`)) {
		t.Error("what was learned does not matter")
	}
	if _, err := Hash([]Part{part("trust", `{`)}); err == nil {
		t.Error("a row that is no JSON has a hash")
	}
}

func TestDifference(t *testing.T) {
	row := func(s string) json.RawMessage { return json.RawMessage(s) }
	a := rows{"trust": {"x": row("1"), "y": row("2"), "z": row("3")}, "state": {"x": row("4")}}
	b := rows{"trust": {"x": row("1"), "y": row("5"), "w": row("6")}, "more": {"v": row("7")}}
	d := b.since(a)
	if len(d.Changed["trust"]) != 2 || !slices.Equal(d.Removed["trust"], []string{"z"}) || !slices.Equal(d.Removed["state"], []string{"x"}) || d.Changed["more"] == nil {
		t.Errorf("%+v", d)
	}
	if got := a.with(d); !got.equal(b) {
		t.Errorf("%s", got)
	}
}

func FuzzAMessageIsReadOrRefused(f *testing.F) {
	h := guild.Sum([]byte("x"))
	good := message{Type: messageType, Version: version, Backup: h, URLs: []string{"https://a.example.com/x"}, Key: h.Hex(), Plain: h, Matrix: h, Made: 1}
	text, err := good.encode(difference{Changed: rows{"trust": {"k": json.RawMessage(`{"a":1}`)}}, Removed: map[string][]string{"state": {"x"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(`{"type":"guild.backup","version":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := decodeMessage(text)
		if err != nil {
			if !errors.Is(err, errOther) && !errors.Is(err, ErrNewer) {
				t.Error(err)
			}
			return
		}
		var d difference
		if m.Difference != nil {
			d = *m.Difference
		}
		rows{}.with(d)
		again, err := m.encode(d)
		if err != nil {
			return // a row without a canonical form
		}
		if back, err := decodeMessage(again); err != nil || back.Backup != m.Backup || back.Made != m.Made {
			t.Errorf("%q came back as %+v, %v", text, back, err)
		}
	})
}

// packed compresses as snapshots are compressed.
func packed(plain []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(plain, nil), nil
}

func FuzzASnapshotIsReadOrRefused(f *testing.F) {
	pack := func(plain []byte) []byte {
		d, err := packed(plain)
		if err != nil {
			f.Fatal(err)
		}
		return d
	}
	f.Add(pack([]byte(`{"version":1,"guild":"x","made":1,"through":2,"parts":{"trust":{"k":{"a":1}}}}`)), true)
	f.Add([]byte(`{"version":1,"guild":"x","made":1,"through":2,"parts":{"trust":{"k":null},"state":null}}`), false)
	f.Add([]byte("(\xb5/\xfd"), true)
	f.Fuzz(func(t *testing.T, b []byte, asItIs bool) {
		if !asItIs {
			b = pack(b)
		}
		d, err := unpack(bytes.NewReader(b))
		if err != nil {
			return
		}
		if d.Parts == nil || d.Version != version {
			t.Errorf("%+v", d)
		}
		d.Parts.since(rows{}.with(d.Parts.since(nil)))
		if _, err := d.Parts.hash(); err != nil {
			return
		}
		if d.Parts.count() < 0 || !d.Parts.equal(d.Parts) {
			t.Errorf("%+v", d.Parts)
		}
	})
}
