package main

import (
	"strings"
	"testing"
	"time"
)

func TestWaitingShowsTime(t *testing.T) {
	person, screen := terminal(t)
	done := (&program{err: screen}).waiting(func() string { return "judging" })
	if shown := read(t, person, "0s"); !strings.Contains(shown, "judging, ") {
		t.Errorf("%q", shown)
	}
	done()
	read(t, person, "\r\x1b[K")
}

func TestAge(t *testing.T) {
	now := time.UnixMilli(noon)
	for back, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 59 * time.Second: "59s", 90 * time.Minute: "1h", 3 * time.Minute: "3m", 47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := age(now, now.Add(-back).UnixMilli()); got != want {
			t.Errorf("%v ago: %s, want %s", back, got, want)
		}
	}
}
