package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	"guild/internal/cli"
)

func TestCutKeepsWithinItsColumns(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "short": "short", "exactly 10": "exactly 10", "one more 11": "one more …", "漢字漢字漢字": "漢字漢字…",
	} {
		if got := cli.Cut(text, 10); got != want || lipgloss.Width(got) > 10 {
			t.Errorf("cut(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b]8;;http://evil\x07link\x1b]8;;\x07", 10)
	f.Add("a\u202eb\u2028c\x00\x9b31m", 3)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		got := cli.Cut(cli.Clean(text), columns%200)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e }) {
			t.Errorf("%q would drive a terminal", got)
		}
	})
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
