package node

import (
	"testing"
	"time"
)

func TestSinceWhenOthersAreHeard(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	tests := []struct {
		name  string
		looks []bool // deaf, second by second
		jump  time.Duration
		want  time.Time
	}{
		{"never, before the first look", nil, 0, time.Time{}},
		{"not while no relay is connected", []bool{true, true}, 0, time.Time{}},
		{"since the first connection", []bool{true, false, false, false}, 0, at(1)},
		{"not after the last one was lost", []bool{false, false, true}, 0, time.Time{}},
		{"since the one after an outage", []bool{false, true, true, false, false}, 0, at(3)},
		{"since a slow look as before", []bool{false, false}, 20 * time.Second, at(0)},
		{"since this machine woke up", []bool{false, false}, time.Hour, at(2).Add(time.Hour)},
		{"not because it woke up", []bool{true, true}, time.Hour, time.Time{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			now, woken := noon, 0
			e := &ears{now: func() time.Time { return now }, wake: func() { woken++ }}
			for _, deaf := range test.looks {
				e.look(now, deaf)
				now = now.Add(time.Second)
			}
			now = now.Add(test.jump)
			if got := e.hears(); !got.Equal(test.want) {
				t.Errorf("since %s, want %s", got, test.want)
			}
			if !test.want.IsZero() && woken == 0 {
				t.Error("nobody was told")
			}
		})
	}
}
