package guild_test

import (
	"testing"

	"guild"
)

func TestMayPay(t *testing.T) {
	strong := guild.Verdict{Outcome: guild.Success, Strength: guild.Strong}
	weak := guild.Verdict{Outcome: guild.Success, Strength: guild.Weak}
	mixed := guild.Verdict{Outcome: guild.Success, Strength: guild.Mixed}
	unverified := guild.Verdict{Outcome: guild.Success, Strength: guild.Unverified}
	opinion := guild.Verdict{Outcome: guild.Success, Strength: guild.Unverified, Opinion: &guild.Opinion{Adjudication: "majority_vote"}}
	ruled := guild.Verdict{Outcome: guild.Success, Strength: guild.Weak, Ruling: &guild.Ruling{By: "aa"}}
	breached := guild.Verdict{Outcome: guild.Success, Strength: guild.Strong, Breaches: []guild.Breach{{Syscall: "connect"}}}
	for _, c := range []struct {
		name        string
		v           guild.Verdict
		amount, cap guild.Msat
		want        bool
	}{
		{"strong", strong, 1_000_000, 0, true},
		{"weak, nothing set", weak, 1, 0, false},
		{"weak, up to the cap", weak, 1000, 1000, true},
		{"weak, above the cap", weak, 1001, 1000, false},
		{"mixed, up to the cap", mixed, 1000, 1000, true},
		{"mixed, above the cap", mixed, 1001, 1000, false},
		{"unverified, up to the cap", unverified, 1, 1000, false},
		{"a strength that is not known", guild.Verdict{Outcome: guild.Success, Strength: "certain"}, 1, 1000, false},
		{"an opinion, up to the cap", opinion, 1000, 1000, true},
		{"an opinion, above the cap, however many agree", opinion, 1001, 1000, false},
		{"ruled by a person", ruled, 1001, 1000, true},
		{"partial", guild.Verdict{Outcome: guild.Partial, Strength: guild.Strong}, 1, 1000, false},
		{"a ruling that is no success", guild.Verdict{Outcome: guild.Failure, Ruling: &guild.Ruling{}}, 1, 1000, false},
		{"a breach", breached, 1, 1000, false},
		{"a negative amount", strong, -1, 1000, false},
		{"no verdict", guild.Verdict{}, 0, 0, false},
	} {
		if got := c.v.MayPay(c.amount, c.cap); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestUsageAdd(t *testing.T) {
	a := guild.Usage{WallMs: 1, CPUMs: 2, MemoryPeak: 30, DiskPeak: 4, PidsPeak: 50, Output: 6, Refused: 7}
	b := guild.Usage{WallMs: 10, CPUMs: 20, MemoryPeak: 3, DiskPeak: 40, PidsPeak: 5, Output: 60, Refused: 70}
	want := guild.Usage{WallMs: 11, CPUMs: 22, MemoryPeak: 30, DiskPeak: 40, PidsPeak: 50, Output: 66, Refused: 77}
	if got := a.Add(b); got != want || b.Add(a) != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
