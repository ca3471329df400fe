package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr/nip19"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/policy"
	"guild/internal/step/steptest"
)

// A change is significant if a status changed, or if trust moved by 0.1 or more since the latest backup (section 3.3.4
// and what was decided about it).
func TestSignificantChanges(t *testing.T) {
	const before = 1 // trust of 0.50 in service 1 is backed up
	for _, c := range []struct {
		name  string
		facts []fact.Fact
		want  bool
	}{
		{"trust rises by 0.099999", []fact.Fact{trusted(1, 500_000, 599_999)}, false},
		{"trust rises by 0.1", []fact.Fact{trusted(1, 500_000, 600_000)}, true},
		{"trust falls by 0.1", []fact.Fact{trusted(1, 500_000, 400_000)}, true},
		{"it rises by 0.05, and again", []fact.Fact{trusted(1, 500_000, 550_000), trusted(1, 550_000, 600_000)}, true},
		{"it rises by 0.09 and falls by 0.09", []fact.Fact{trusted(1, 500_000, 590_000), trusted(1, 590_000, 500_000)}, false},
		{"two services, 0.05 each", []fact.Fact{trusted(1, 500_000, 550_000), trusted(2, 400_000, 450_000)}, false},
		{"somebody new, trusted with 0.45", []fact.Fact{trusted(2, 0, 450_000)}, true},
		{"a status", []fact.Fact{moved(1, guild.Active, guild.Suspended)}, true},
		{"a suspension that is longer now", []fact.Fact{moved(1, guild.Suspended, guild.Suspended)}, false},
		{"a variable", []fact.Fact{fact.VariableChanged{Name: fact.Parallelism, To: json.RawMessage("2")}}, true},
		{"what a backup restored", []fact.Fact{
			fact.TrustChanged{Task: "python", Service: service(3), To: 900_000, Rule: fact.RuleRestored},
			fact.ProviderMoved{Service: service(3), To: guild.Active, Signal: Restoring},
			fact.VariableChanged{Name: fact.Parallelism, Rule: Restoring},
		}, false},
	} {
		f := NewFold(policy.Specification().Backup)
		f.Apply(fact.Entry{Seq: before, Facts: []fact.Fact{trusted(1, 0, 500_000)}})
		f.Apply(fact.Entry{Seq: 2, At: 5, Facts: []fact.Fact{fact.BackupMade{Backup: "a", Through: before}, fact.BackupSent{Backup: "a"}}})
		for i, one := range c.facts {
			f.Apply(fact.Entry{Seq: uint64(3 + i), Facts: []fact.Fact{one}})
		}
		if now := f.view(); now.Changed > now.Covered != c.want {
			t.Errorf("%s: %q", c.name, now.Cause)
		}
	}
}

func TestBackupDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.Run(w.Due)
		start := time.Now()
		w.happens(trusted(1, 0, 600_000))
		w.Pass(time.Minute)
		if n := len(w.cloud.messages()); n != 1 {
			t.Fatalf("%d messages", n)
		}
		w.happens(trusted(1, 600_000, 640_000)) // 0.04 is not significant
		w.Pass(3 * time.Hour)
		if n := len(w.cloud.messages()); n != 1 {
			t.Fatalf("%d messages after what is not significant", n)
		}
		w.happens(trusted(2, 0, 450_000))
		w.Pass(time.Minute)
		w.happens(moved(2, guild.Conditional, guild.Suspended), trusted(3, 0, 750_000), trusted(1, 640_000, 800_000))
		w.Pass(59*time.Minute + 30*time.Second)
		if n := len(w.cloud.messages()); n != 2 {
			t.Fatalf("%d messages within the hour", n)
		}
		w.Pass(time.Minute)
		list := w.List()
		if len(list) != 3 || list[0].Sent == 0 || list[0].Made-list[1].Made != time.Hour.Milliseconds() || list[0].Matrix != w.hash() {
			t.Fatalf("%+v", list)
		}
		if first := list[2]; first.Made-start.UnixMilli() > 61_000 || !strings.HasPrefix(first.Cause, "trust in "+nip19.EncodeNpub(service(1).PubKey)[:10]+"… (") || first.Size == 0 || len(first.URLs) != 1 || !slices.Equal(first.Relays, []string{"wss://relay.example.com"}) {
			t.Errorf("%+v", first)
		}
		w.Pass(24 * time.Hour)
		if n := len(w.cloud.messages()); n != 3 || w.count("effect.claimed") != 6 {
			t.Errorf("%d messages, %d claims", n, w.count("effect.claimed"))
		}
	})
}

func TestNoNeedlessBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.Run(w.Due)
		w.happens(fact.VariableChanged{Name: fact.Parallelism}) // no part has a row for it
		w.Pass(2 * time.Hour)
		if len(w.cloud.messages()) != 0 || w.puts != 0 {
			t.Error("an empty matrix was backed up")
		}
		if _, err := w.Now(t.Context()); !errors.Is(err, ErrEmpty) {
			t.Errorf("asked for: %v", err)
		}
		w.happens(moved(1, guild.Seen, guild.Active))
		w.Pass(time.Minute)
		w.happens(moved(1, guild.Active, guild.Suspended), moved(1, guild.Suspended, guild.Active))
		w.Pass(48 * time.Hour)
		if n := len(w.cloud.messages()); n != 1 || w.puts != 1 {
			t.Errorf("%d messages, %d blobs: the matrix is as it was", n, w.puts)
		}
		claims := w.count("effect.claimed")
		w.restart()
		w.Pass(48 * time.Hour)
		if n := w.count("effect.claimed") - claims; n > 1 || len(w.cloud.messages()) != 1 {
			t.Errorf("%d tries after a restart", n)
		}
	})
}

func TestOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.config.Off = true
		w.restart()
		w.happens(trusted(1, 0, 600_000))
		w.Pass(3 * time.Hour)
		if n := len(w.cloud.messages()); n != 0 {
			t.Fatalf("%d messages", n)
		}
		b, err := w.Now(t.Context())
		if err != nil || b.Sent == 0 || b.Cause != "asked for" || len(w.cloud.messages()) != 1 {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.Run(w.Due)
		w.happens(trusted(1, 0, 600_000))
		w.Pass(time.Minute)
		first := w.List()[0]
		again, err := w.Now(t.Context())
		if err != nil || again.ID != first.ID || w.puts != 1 {
			t.Errorf("nothing has changed: %+v, %v", again, err)
		}
		w.happens(trusted(1, 600_000, 610_000))
		second, err := w.Now(t.Context())
		if err != nil || second.ID == first.ID || second.Sent == 0 || second.Matrix != w.hash() {
			t.Errorf("%+v, %v", second, err)
		}
		w.cloud.mu.Lock()
		clear(w.blobs)
		w.cloud.mu.Unlock()
		third, err := w.Now(t.Context())
		if err != nil || third.ID == second.ID || third.Matrix != second.Matrix || w.puts != 3 {
			t.Errorf("the server has lost it: %+v, %v", third, err)
		}
	})
}

func TestUploadGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.Run(w.Due)
		w.fails(errors.New("507 Insufficient Storage"), nil)
		w.happens(trusted(1, 0, 600_000))
		w.Pass(3 * time.Hour)
		if w.count("backup.failed") != 1 || w.count("backup.made") != 0 {
			t.Fatalf("%d given up", w.count("backup.failed"))
		}
		w.fails(nil, nil)
		w.Pass(3 * time.Hour)
		if n := len(w.cloud.messages()); n != 0 {
			t.Fatalf("%d messages without another change", n)
		}
		w.happens(trusted(1, 600_000, 610_000)) // since the latest backup, trust has moved by 0.61
		w.Pass(time.Minute)
		if list := w.List(); len(list) != 1 || list[0].Sent == 0 || list[0].Matrix != w.hash() {
			t.Errorf("%+v", list)
		}
	})
}

func TestMessageGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.Run(w.Due)
		w.fails(nil, errors.New("blocked: no gift wraps here"))
		w.happens(trusted(1, 0, 600_000))
		w.Pass(2 * time.Hour)
		list := w.List()
		if len(list) != 1 || list[0].Sent != 0 || !strings.Contains(list[0].Failed, "no gift wraps here") {
			t.Fatalf("%+v", list)
		}
		w.fails(nil, nil)
		w.happens(moved(1, guild.Active, guild.Suspended))
		w.Pass(time.Minute)
		if list = w.List(); len(list) != 2 || list[0].Sent == 0 || len(w.cloud.messages()) != 1 {
			t.Errorf("%+v", list)
		}
		if m := w.opened()[0]; !m.Previous.IsZero() || m.Difference == nil || m.Difference.Changed["trust"] == nil {
			t.Errorf("it starts from what nobody has: %+v", m)
		}
	})
}

func TestMessageWaitsForRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.Run(w.Due)
		w.fails(nil, fmt.Errorf("%w: no network", due.ErrLater))
		w.happens(trusted(1, 0, 600_000))
		w.Pass(24 * time.Hour)
		w.fails(nil, nil)
		w.Pass(time.Minute)
		if list := w.List(); len(list) != 1 || list[0].Sent == 0 {
			t.Errorf("%+v", list)
		}
	})
}

func TestChangeDuringBackup(t *testing.T) {
	f := NewFold(policy.Specification().Backup)
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{trusted(1, 0, 500_000), trusted(2, 0, 500_000)}})
	f.Apply(fact.Entry{Seq: 2, Facts: []fact.Fact{trusted(1, 500_000, 540_000)}})
	f.Apply(fact.Entry{Seq: 3, At: 5, Facts: []fact.Fact{fact.BackupMade{Backup: "a", Through: 1}}})
	f.Apply(fact.Entry{Seq: 4, At: 5, Facts: []fact.Fact{fact.BackupSent{Backup: "a"}}})
	if now := f.view(); now.Changed <= now.Covered {
		t.Error("what was moved after the snapshot was taken is forgotten")
	}
	if now := f.Copy(); now.Bases.Len() != 1 {
		t.Errorf("%d entries are remembered, want the one that moved meanwhile", now.Bases.Len())
	}
}

// Relays accept a message of 28 KiB. A larger difference is left out, but it is in the snapshot.
func TestLargeDifferenceIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newCloud())
		w.Run(w.Due)
		w.happens(trusted(1, 0, 600_000))
		w.Pass(2 * time.Hour)
		w.happens(trusted(1, 600_000, 900_000), moved(1, "", guild.Active))
		w.Pass(2 * time.Hour)
		for n := range byte(200) { // some 240 bytes each
			w.happens(trusted(n+1, 0, 300_000))
		}
		w.Pass(2 * time.Hour)
		m := w.opened()
		if len(m) != 3 {
			t.Fatalf("%d messages", len(m))
		}
		if m[2].Truncated || !m[2].Previous.IsZero() || len(m[2].Difference.Changed["trust"]) != 1 {
			t.Errorf("the first: %+v", m[2].Difference)
		}
		if m[1].Previous != m[2].Backup || len(m[1].Difference.Changed["trust"]) != 1 || len(m[1].Difference.Changed["state"]) != 1 || m[1].Rows != 2 {
			t.Errorf("the second: %+v", m[1])
		}
		if !m[0].Truncated || m[0].Difference != nil || m[0].Rows != 201 || m[0].Policy != guild.Sum([]byte("policy")) {
			t.Errorf("the third: %t, %+v", m[0].Truncated, m[0].Difference)
		}
		for _, v := range w.cloud.messages() {
			if n := len(v.Event().String()); n > 64<<10 {
				t.Errorf("a message of %d bytes", n)
			}
		}
	})
}

// The process dies after each entry of a history with three backups. It publishes the same as a process that does not
// die, and backs nothing up twice.
func TestKilledAtEveryEntry(t *testing.T) {
	script := [][]fact.Fact{
		{trusted(1, 0, 600_000), moved(1, "", guild.Active)},
		{trusted(2, 0, 450_000), trusted(1, 600_000, 640_000)},
		{moved(2, "", guild.Conditional), trusted(1, 640_000, 300_000), moved(1, guild.Active, guild.Suspended)},
	}
	var end guild.Hash
	stored := newCloud()
	live := func(w *world, from int) {
		n := 0
		for _, act := range script {
			for _, f := range act {
				if n++; n > from {
					w.happens(f)
				}
			}
			w.Pass(2 * time.Hour)
		}
	}
	whole := func(t *testing.T) []fact.Entry {
		w := newWorld(t, stored)
		w.Run(w.Due)
		live(w, 0)
		end = w.hash()
		if w.count("backup.sent") < 3 {
			t.Fatalf("%d backups", w.count("backup.sent"))
		}
		return w.Entries()
	}
	steptest.KillAtEachEntry(t, 1, whole, func(t *testing.T, left, _ []fact.Entry) {
		time.Sleep(24 * time.Hour) // a process that is started again is started later
		w := newWorld(t, newCloud())
		w.blobs = maps.Clone(stored.blobs)
		w.Relive(left)
		acted := len(steptest.Facts[fact.TrustChanged](w)) + len(steptest.Facts[fact.ProviderMoved](w))
		w.wraps = slices.Clone(stored.wraps[:w.count("backup.sent")])
		w.restart()
		w.Pass(2 * time.Hour)
		live(w, acted)
		w.agrees(end)
		r, report, err := restored(t, w.cloud, Options{})
		if err != nil || r.hash() != end || !report.Exact {
			t.Errorf("restored %+v, %v", report, err)
		}
	})
}

// agrees checks the end of a history in which a process died.
func (w *world) agrees(end guild.Hash) {
	w.Helper()
	if w.hash() != end {
		w.Error("another matrix")
	}
	made, matrices := map[string]bool{}, map[guild.Hash]int{}
	for _, b := range steptest.Facts[fact.BackupMade](w) {
		made[b.Message.ID.Hex()] = true
		matrices[b.Matrix]++
	}
	for m, n := range matrices {
		if n != 1 {
			w.Errorf("matrix %s was backed up %d times", m, n)
		}
	}
	sent := map[string]bool{}
	for _, v := range w.cloud.messages() {
		sent[v.Event().ID.Hex()] = true
	}
	for id := range sent {
		if !made[id] {
			w.Errorf("message %.8s is on no record", id)
		}
	}
	for id := range made {
		if !sent[id] {
			w.Errorf("message %.8s was never sent", id)
		}
	}
	for _, b := range w.List() {
		if b.Sent == 0 {
			w.Errorf("backup %.8s is not sent", b.ID)
		}
	}
	if list := w.List(); len(list) == 0 || list[0].Matrix != end {
		w.Errorf("the latest backup is of another matrix: %s", w)
	}
}

// history draws entries of a node that makes backups, some of them contradictory.
func history(t *rapid.T) (all []fact.Entry) {
	one := rapid.SampledFrom([]fact.Fact{
		trusted(1, 0, 450_000), trusted(1, 450_000, 500_000), trusted(2, 0, 900_000), moved(1, guild.Active, guild.Suspended),
		fact.BackupMade{Backup: "a", Through: 3, Message: event}, fact.BackupMade{Backup: "b", Through: 5, Message: event},
		fact.BackupSent{Backup: "a", Relays: []string{"wss://relay.example.com"}}, fact.BackupSent{Backup: "b"},
		fact.BackupFailed{Backup: "a", Reason: "no"}, fact.BackupFailed{Reason: "no"}, fact.BackupChosen{Backup: "c"}, fact.BackupRestored{Backup: "c"},
	})
	for i, f := range rapid.SliceOfN(one, 0, 30).Draw(t, "history") {
		all = append(all, fact.Entry{Seq: uint64(i + 1), At: int64(i + 1), Facts: []fact.Fact{f}})
	}
	return all
}

var event = mustSign()

func TestFoldSnapshot(t *testing.T) {
	foldtest.GoesOn(t, func() *Fold { return NewFold(policy.Specification().Backup) }, history, nil)
}

func TestBadSnapshot(t *testing.T) {
	f := NewFold(policy.Specification().Backup)
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{trusted(1, 0, 500_000)}})
	foldtest.Refuses(t, f, foldtest.Partial(t, f)...)
}

func TestListLimit(t *testing.T) {
	f := NewFold(policy.Specification().Backup)
	for n := range 3 * maxKnown {
		id := fmt.Sprint(n)
		f.Apply(fact.Entry{Seq: uint64(n + 1), Facts: []fact.Fact{fact.BackupMade{Backup: id}, fact.BackupSent{Backup: id}}})
	}
	if list := f.List(); len(list) != maxKnown || list[0].ID != fmt.Sprint(3*maxKnown-1) {
		t.Errorf("%d, %+v", len(list), list[0])
	}
}
