package exchange

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"guild"
	"guild/internal/journal/fact"
)

func TestClockCountLimit(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool   // this guild has set a value, once
		count  uint64 // this guild's changes according to the document
		value  int64
		want   guild.Trust
		skips  bool
	}{
		{"lower, and as far ahead as can be written", true, maxCount, 200_000, 500_000, true},
		{"higher, and as far ahead as can be written", true, maxCount, 800_000, 500_000, true},
		{"taken back, and as far ahead as can be written", true, maxCount, 0, 500_000, true},
		{"of somebody whom we do not know", false, maxCount, 200_000, 0, true},
		{"taken back, of somebody whom we do not know", false, maxCount, 0, 0, true},
		{"one more than may be forgotten", true, maxAhead + 2, 200_000, 500_000, true},
		{"as many as may be forgotten", true, maxAhead + 1, 200_000, 200_000, false},
		{"as many as may be forgotten, of somebody whom we do not know", false, maxAhead, 200_000, 200_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOther(t, 1)
				if c.before {
					o.trusts("go", 1, 500_000, "")
					o.Write(fact.VariableSubject(fact.TimeoutConfig), fact.VariableChanged{Name: fact.TimeoutConfig, Key: "go", To: fact.Number(1_200_000)})
					o.Write(fact.VariableSubject(fact.Parallelism), fact.VariableChanged{Name: fact.Parallelism, Key: service(1).PubKey.Hex(), To: fact.Number(5)})
				}
				d := documentOf(trustOf("go", 1, says(c.value, c.count, 1)))
				d.Timeouts = []TimeoutEntry{{"go", []fact.VariableSibling{says(1_500_000, c.count, 1)}}}
				d.Parallelism = []ParallelismEntry{{service(1).PubKey, []fact.VariableSibling{says(3, c.count, 1)}}}
				sum := o.takes(d)
				if got := o.inForce("go", 1); got != c.want || (len(sum.Skipped) == 3) != c.skips || c.skips && !strings.Contains(sum.Skipped[0], "more changes") {
					t.Errorf("%s, want %s; skipped: %q", got, c.want, sum.Skipped)
				}
				o.trusts("go", 1, 600_000, "")
				o.isRead(t)
			})
		})
	}
}

// isRead checks that others can read a guild's export, and the guild its own backup.
func (o *other) isRead(t *testing.T) Document {
	t.Helper()
	b, err := o.Document().Encode()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(b)
	if err != nil {
		t.Fatalf("nobody reads this export: %v", err)
	}
	rows, err := o.Rows()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.RestoreRows(t.Context(), o.Journal, rows); err != nil {
		t.Errorf("its own backup: %v", err)
	}
	return d.Document
}

func TestExportCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crowd := says(500_000)
		for n := range byte(maxGuilds) {
			crowd.Clock[guildKey(n+100).Hex()] = 1
		}
		for name, clock := range map[string]map[string]uint64{
			"a count at its end":            {here: maxCount},
			"as many guilds as a clock has": crowd.Clock,
		} {
			o := newOther(t, 1)
			o.Write(fact.TrustSubject("go"), fact.TrustChanged{Task: "go", Service: service(1), To: 500_000, Rule: fact.RuleMerged,
				Siblings: []fact.Sibling{{Trust: 500_000, Clock: maps.Clone(clock)}}})
			o.Write(fact.VariableSubject(fact.Parallelism), fact.VariableChanged{Name: fact.Parallelism, Key: service(1).PubKey.Hex(), To: fact.Number(3),
				Siblings: []fact.VariableSibling{{Value: 3, Clock: maps.Clone(clock)}}})
			o.Write(fact.VariableSubject(fact.Parallelism), fact.VariableChanged{Name: fact.Parallelism, Key: "somebody", To: fact.Number(3)})
			o.trusts("go", 1, 600_000, "")
			o.Write(fact.VariableSubject(fact.Parallelism), fact.VariableChanged{Name: fact.Parallelism, Key: service(1).PubKey.Hex(), To: fact.Number(4)})
			o.trusts("python", 2, 600_000, "")
			if d := o.isRead(t); len(d.Entries) == 0 {
				t.Errorf("%s: nothing is exported", name)
			}
		}
		o := newOther(t, 1)
		if sum := o.takes(documentOf(trustOf("go", 1, crowd))); len(sum.Skipped) != 1 || !strings.Contains(sum.Skipped[0], errTooMany.Error()) {
			t.Errorf("a clock without a place for us: %+v", sum)
		}
	})
}

func TestReservedClockKey(t *testing.T) {
	reserved := fact.VariableSibling{Value: 500_000, Clock: map[string]uint64{ourselves: maxCount}}
	d := documentOf(trustOf("go", 1, reserved))
	if b, err := d.Encode(); err != nil {
		t.Fatal(err)
	} else if _, err := Decode(b); err == nil || !strings.Contains(err.Error(), "reserved key") {
		t.Errorf("%v: after a backup it would be a clock of ours", err)
	}
}
