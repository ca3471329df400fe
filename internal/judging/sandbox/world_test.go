package sandbox

import (
	"io"
	"testing"
)

func TestWritesJudge(t *testing.T) {
	for _, c := range []struct {
		name     string
		copies   []Copy
		writable int
		judge    bool
	}{
		{"no copies", nil, 0, false},
		{"one in the workspace", []Copy{{Inside: Workspace + "/a"}}, 1, false},
		{"tests that it may only read", []Copy{{Inside: Judge + "/tests", ReadOnly: true}}, 0, false},
		{"a directory of its own beside them", []Copy{{Inside: Judge + "/tests", ReadOnly: true}, {Inside: Judge + "/out"}}, 1, true},
		{"the whole place", []Copy{{Inside: Judge + "/."}}, 1, true},
		{"a place with a like name", []Copy{{Inside: Judge + "ment"}}, 1, false},
	} {
		s := Spec{Copies: c.copies}
		if got := s.Writable(); len(got) != c.writable || s.WritesJudge() != c.judge || len(s.Copies) != len(c.copies) {
			t.Errorf("%s: %d writable, beside the workspace %v", c.name, len(got), s.WritesJudge())
		}
	}
}

func TestHeadKeepsBeginning(t *testing.T) {
	h := Head{Most: 5}
	for _, s := range []string{"abc", "def", "ghi"} {
		if n, err := io.WriteString(&h, s); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if h.String() != "abcde" || string(h.Bytes()) != "abcde" {
		t.Errorf("%q", h.String())
	}
}
