package host

import (
	"bytes"
	"strings"
	"testing"
)

func TestNewID(t *testing.T) {
	id, err := NewID(bytes.NewReader(bytes.Repeat([]byte{0xff}, 16)))
	if err != nil || id != "nut-ffffffff-ffff-4fff-bfff-ffffffffffff" {
		t.Errorf("%s, %v", id, err)
	}
	if _, err := NewID(strings.NewReader("short")); err == nil {
		t.Error("an id without enough randomness")
	}
}

func TestWithin(t *testing.T) {
	p := &Program{Name: "guild nut"}
	for dir, want := range map[string]string{
		".": "guild nut check", "my-task": "guild nut check --dir my-task", "it's mine": `guild nut check --dir 'it'\''s mine'`,
	} {
		if got := p.Within(dir, "check"); got != want {
			t.Errorf("%s", got)
		}
	}
}
