package trust

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
)

func TestOwnerSetsTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		w.attempt(service(1), judged(guild.Failure, 0))
		for _, c := range []struct {
			s    guild.Service
			to   guild.Trust
			from guild.Trust
		}{
			{service(1), 900_000, 555_000}, // by more than the limits of a step and of a day
			{service(1), 100_000, 900_000},
			{service(2), 300_000, 0}, // a provider without trust
		} {
			if err := w.step.Set(t.Context(), "python", c.s, c.to, "I know them"); err != nil {
				t.Fatal(err)
			}
			got := w.lastChange()
			w.wantsChange("set", got, fact.RuleOwner, c.from, c.to)
			if got.EMA != c.to || got.Runs != 0 || got.Reason != "I know them" || got.First != (c.from == 0) || got.Policy != w.Policy() {
				t.Errorf("%+v", got)
			}
			w.wants(c.s, c.to)
		}
		if got := w.inside().Days.Of("python").Spent; got != 45_000 {
			t.Errorf("%d of the day spent", got)
		}
		for _, to := range []guild.Trust{99_999, 900_001, 0, -1} {
			if err := w.step.Set(t.Context(), "python", service(1), to, ""); err == nil {
				t.Errorf("%d was set", to)
			}
		}
		for _, task := range []string{"", "  ", "a\nb", "\x1b[31mred", "\xff", strings.Repeat("x", 121)} {
			if err := w.step.Set(t.Context(), task, service(1), 500_000, ""); err == nil {
				t.Errorf("the task %q was taken", task)
			}
		}
	})
}

func TestOwnerUsesAdoptedPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stillWorld(t)
		if err := w.step.Set(t.Context(), "python", service(1), 500_000, ""); err != nil {
			t.Fatal(err)
		}
		if w.Adopted() != w.Policy() {
			t.Error("no policy was adopted")
		}
	})
}

func TestRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		w.attempt(service(2), judged(guild.Success, 700_000))
		w.hired(fact.JobOpened{Task: "other"}, service(1), judged(guild.Success, 900_000))
		time.Sleep(time.Minute)
		then := time.Now()
		before := w.Rows()
		time.Sleep(time.Minute)
		for range 3 {
			w.attempt(service(1), judged(guild.Failure, 0))
			w.hired(fact.JobOpened{Task: "other"}, service(1), judged(guild.Failure, 0))
		}
		w.attempt(service(3), judged(guild.Success, 900_000)) // a provider that was unknown at that time
		time.Sleep(time.Hour)

		n, err := w.step.Rollback(t.Context(), then, "python")
		if err != nil || n != 2 {
			t.Fatalf("%d changed, %v", n, err)
		}
		w.wants(service(1), 600_000)
		w.wants(service(2), 450_000)
		w.wants(service(3), 0)
		if got := w.Of(service(1)); got["other"] == 600_000 || len(w.Of(service(3))) != 0 {
			t.Errorf("%v", got)
		}
		for _, c := range w.changes() {
			if c.Rule == fact.RuleRollback && (c.EMA != c.To || c.Runs != 0 || c.Consecutive != 0) {
				t.Errorf("%+v", c)
			}
		}
		if got := w.inside().Days.Of("python").Spent; got > 135_000 {
			t.Errorf("%d of the day spent", got)
		}

		if n, err := w.step.Rollback(t.Context(), then, ""); err != nil || n != 1 {
			t.Fatalf("%d changed, %v", n, err)
		}
		last := w.Journal.Last()
		if n, err := w.step.Rollback(t.Context(), then, ""); err != nil || n != 0 || w.Journal.Last() != last {
			t.Errorf("once more: %d changed, %v", n, err)
		}
		after := w.Rows()
		if len(after) != len(before) {
			t.Errorf("%d rows, want %d", len(after), len(before))
		}
		for k := range before {
			var a, b wanted
			if json.Unmarshal(before[k], &a) != nil || json.Unmarshal(after[k], &b) != nil || a.Trust != b.Trust {
				t.Errorf("%s: %s, was %s", k, after[k], before[k])
			}
		}

		w.attempt(service(3), judged(guild.Success, 900_000)) // its trust was removed, so this sets a first trust
		w.wants(service(3), 600_000)
		if c := w.lastChange(); !c.First {
			t.Errorf("%+v", c)
		}
		for _, to := range []time.Time{time.Now().Add(time.Second), time.UnixMilli(1)} {
			if _, err := w.step.Rollback(t.Context(), to, ""); err == nil {
				t.Errorf("restored what was at %s", to)
			}
		}
	})
}

func TestRollbackIntoArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.attempt(service(1), judged(guild.Success, 900_000))
		then := time.Now()
		time.Sleep(time.Hour)
		w.attempt(service(1), judged(guild.Failure, 0))
		if _, err := w.Journal.Archive(t.Context(), time.Now(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := w.step.Rollback(t.Context(), then, ""); err == nil || !strings.Contains(err.Error(), "archived") {
			t.Errorf("%v", err)
		}
	})
}

func TestRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		odd := guild.Service{PubKey: service(1).PubKey, D: "a/b %"}
		w.hired(fact.JobOpened{Task: "py/thon"}, odd, judged(guild.Success, 900_000))
		w.attempt(service(2), judged(guild.Failure, 0)) // sets no trust
		rows := w.Rows()
		k := odd.PubKey.Hex() + "/a%2Fb%20%25/py%2Fthon"
		want := fmt.Sprintf(`{"ema_micro":600000,"runs":1,"samples":1,"service":{"d":"a/b %%","pubkey":"%s"},"task":"py/thon","trust_micro":600000}`, odd.PubKey.Hex())
		if len(rows) != 1 || string(rows[k]) != want {
			t.Errorf("%s", rows)
		}
	})
}

func TestRestoreIntoEmptyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range byte(5) {
			for range n + 1 {
				w.attempt(service(n+1), judged(guild.Success, 900_000))
				w.hired(fact.JobOpened{Task: "other"}, service(n+1), judged(guild.Success, 700_000))
			}
		}
		w.attempt(service(5), judged(guild.Failure, 0))
		fresh := newWorld(t)
		for range 2 { // it may be called again
			if err := fresh.step.Restore(t.Context(), w.Rows(), "abc"); err != nil {
				t.Fatal(err)
			}
		}
		if fresh.Hash() != w.Hash() || fresh.Hash() == newFold(t).Hash() {
			t.Errorf("%s\n%s", fresh.Rows(), w.Rows())
		}
		if last := fresh.Journal.Last(); last != 3 {
			t.Errorf("%d entries, want one for the policy and one for each task", last)
		}
		if c := fresh.lastChange(); c.Rule != fact.RuleRestored || !c.First || c.Reason != "from the backup abc" {
			t.Errorf("%+v", c)
		}
	})
}

func TestRestoreLargeBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFold(t)
		const providers = 1000
		for n := range providers {
			s := guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{30: byte(n >> 8), 31: byte(n) | 1}), D: fmt.Sprint("python", n)}
			f.Apply(fact.Entry{Seq: uint64(n + 1), Facts: []fact.Fact{fact.TrustChanged{Task: "python", Service: s, To: 600_000, EMA: 600_000, Runs: 1, First: true, Samples: 1}}})
		}
		w := newWorld(t)
		synctest.Wait()
		if err := w.step.Restore(t.Context(), f.Rows(), "abc"); err != nil {
			t.Fatal(err)
		}
		if w.Hash() != f.Hash() {
			t.Error("it is not what was backed up")
		}
		for _, e := range w.Entries() {
			if b, err := e.Encode(); err != nil || len(b) > 100_000 {
				t.Errorf("entry %d has %d bytes, %v", e.Seq, len(b), err)
			}
		}
		if last := w.Journal.Last(); last < 4 {
			t.Errorf("%d entries", last)
		}
	})
}

func TestBadRow(t *testing.T) {
	w := newWorld(t)
	good, err := json.Marshal(wanted{Task: "python", Service: service(1), Trust: 600_000, EMA: 600_000})
	if err != nil {
		t.Fatal(err)
	}
	k := rowKey("python", service(1))
	if _, err := w.step.readRow(k, good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"another key":    {rowKey("python", service(2)), string(good)},
		"no JSON":        {k, "{"},
		"too large":      {k, string(good) + strings.Repeat(" ", maxRow)},
		"no task":        {rowKey("", service(1)), strings.Replace(string(good), "python", "", 1)},
		"too much trust": {k, strings.Replace(string(good), `"trust_micro":600000`, `"trust_micro":900001`, 1)},
		"no average":     {k, strings.Replace(string(good), `"ema_micro":600000`, `"ema_micro":0`, 1)},
		"endless runs":   {k, strings.Replace(string(good), `"runs":0`, `"runs":92233720368547`, 1)}, // times 0.1 in micro-units is more than an int64
		"negative runs":  {k, strings.Replace(string(good), `"runs":0`, `"runs":-1`, 1)},
	} {
		if err := w.step.Restore(t.Context(), map[string]json.RawMessage{c[0]: json.RawMessage(c[1])}, "abc"); err == nil {
			t.Errorf("%s was restored", name)
		}
	}
	if len(w.Rows()) != 0 {
		t.Errorf("%v", w.Rows())
	}
}

func FuzzARowIsReadOrRefused(f *testing.F) {
	fold := newFold(f)
	step := New(Config{}, fold)
	good, err := json.Marshal(wanted{Task: "python", Service: service(1), Trust: 600_000, EMA: 600_000})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(rowKey("python", service(1)), good)
	f.Add("", []byte("null"))
	f.Fuzz(func(t *testing.T, k string, raw []byte) {
		w, err := step.readRow(k, raw)
		if err == nil && (w.Trust < 100_000 || w.Trust > 900_000 || w.EMA <= 0 || k != rowKey(w.Task, w.Service)) {
			t.Errorf("%+v", w)
		}
	})
}

func TestHashOfEqualNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 9 {
			w.attempt(service(byte(n%3+1)), judged([]guild.Outcome{guild.Success, guild.Success, guild.Error}[n/3], 900_000))
		}
		other := newFold(t)
		for _, e := range w.Entries() {
			again := newFold(t)
			if err := again.Restore([]byte(foldtest.Snapshot(t, other))); err != nil {
				t.Fatal(err)
			}
			other = again // it is restarted at every entry
			other.Apply(e)
		}
		if other.Hash() != w.Hash() || other.Hash().IsZero() {
			t.Errorf("%s\n%s", other.Rows(), w.Rows())
		}
	})
}
