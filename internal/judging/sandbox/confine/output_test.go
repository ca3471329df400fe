package confine

import (
	"bytes"
	"testing"

	"guild/internal/judging/sandbox"
)

func TestWholeStream(t *testing.T) {
	for _, c := range []struct {
		name       string
		writer     func(to *bytes.Buffer) any
		kept       int
		over, cuts bool
	}{
		{"an ordinary writer gets the beginning", func(to *bytes.Buffer) any { return to }, 4, true, true},
		{"a whole one gets all", func(to *bytes.Buffer) any { return sandbox.Whole{Writer: to} }, 100, true, false},
		{"a free one counts for nothing", func(to *bytes.Buffer) any { return sandbox.Whole{Writer: to, Free: true} }, 100, false, false},
	} {
		flood, to := NewFlood(4), &bytes.Buffer{}
		w := flood.Keep(c.writer(to).(interface{ Write([]byte) (int, error) }), 4)
		for range 100 {
			if n, err := w.Write([]byte{'x'}); n != 1 || err != nil {
				t.Fatalf("%s: %d, %v", c.name, n, err)
			}
		}
		if to.Len() != c.kept || flood.Cut() != c.cuts || flood.Written() > 0 != c.over {
			t.Errorf("%s: %d bytes are kept, %d counted, cut %v", c.name, to.Len(), flood.Written(), flood.Cut())
		}
	}
}
