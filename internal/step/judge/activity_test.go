package judge

import (
	"testing"
	"time"
)

func TestActivityText(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	p := Activity{Now: func() time.Time { return now }}
	wants := func(want string) {
		t.Helper()
		if got := p.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	wants("")
	p.Note("AC-1", "", false)
	now = now.Add(2500 * time.Millisecond)
	p.Note("pylint", "", false)
	p.Note("AC-1", "tests/test_a.py::test_b", false)
	wants("AC-1 tests/test_a.py::test_b 2s, pylint 0s")
	p.Note("AC-1", "", true)
	p.Note("mypy", "", true)
	wants("pylint 0s")
}
