package main

import (
	"testing"
	"time"
)

func TestActivityText(t *testing.T) {
	now := time.UnixMilli(noon)
	p := activity{now: func() time.Time { return now }}
	wants := func(want string) {
		t.Helper()
		if got := p.text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	wants("judging")
	p.note("AC-1", "", false)
	now = now.Add(2500 * time.Millisecond)
	p.note("pylint", "", false)
	p.note("AC-1", "tests/test_a.py::test_b", false)
	wants("judging: AC-1 tests/test_a.py::test_b 2s, pylint 0s")
	p.note("AC-1", "", true)
	p.note("mypy", "", true)
	wants("judging: pylint 0s")
}
