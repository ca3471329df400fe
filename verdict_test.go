package guild_test

import (
	"testing"

	"guild"
)

func TestUsageAdd(t *testing.T) {
	a := guild.Usage{WallMs: 1, CPUMs: 2, MemoryPeak: 30, DiskPeak: 4, PidsPeak: 50, Output: 6, Refused: 7}
	b := guild.Usage{WallMs: 10, CPUMs: 20, MemoryPeak: 3, DiskPeak: 40, PidsPeak: 5, Output: 60, Refused: 70}
	want := guild.Usage{WallMs: 11, CPUMs: 22, MemoryPeak: 30, DiskPeak: 40, PidsPeak: 50, Output: 66, Refused: 77}
	if got := a.Add(b); got != want || b.Add(a) != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
