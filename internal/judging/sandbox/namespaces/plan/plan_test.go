package plan

import (
	"bytes"
	"reflect"
	"testing"
)

func whole() *Plan {
	return &Plan{
		Binds:    []Bind{{From: "/usr", Inside: "/usr"}, {Tree: 1, Inside: "/in", Writable: true, Optional: true, Device: true}},
		Links:    []Link{{"usr/bin", "/bin"}},
		Files:    []File{{"/etc/hosts", "127.0.0.1 localhost\n"}},
		Dirs:     []string{"/proc"},
		Hidden:   []string{"/usr/local/etc"},
		Proc:     FullProc,
		Terminal: true,
		Scratch:  Scratch{100 << 20, 20_000, []Part{{"/box", 0o755, true, []string{"work", "home"}}}},
		Trees:    1,
		Hostname: "box", Loopback: true, Port: 7777, Guard: true,
		Argv: []string{"sh", "-c", "true"}, Env: []string{"A=größe"}, Dir: "/box/work", Passed: 2, User: 1000, Change: true,
		Filter: []byte{1, 2, 3}, Asking: true, Rules: Rules{7, []string{"/box"}}, Rlimits: []Rlimit{{7, 1 << 63}},
		Copies: true, Places: []string{"/judge"}, ReadOnly: []string{"/judge"}, Collect: []string{"out"}, Workdir: "/box/work", Bytes: 1, Entries: 2,
	}
}

func TestEncodeDecode(t *testing.T) {
	p := whole()
	if got, err := Decode(p.Encode()); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, p)
	}
	m := &Message{Ended, 1, "text", 256, 1 << 40, 1 << 41, 1 << 20, true}
	if got, err := DecodeMessage(m.Encode()); err != nil || *got != *m {
		t.Errorf("%+v %v", got, err)
	}
}

func TestDecodeRejects(t *testing.T) {
	b := whole().Encode()
	for n := range b {
		if _, err := Decode(b[:n]); err == nil {
			t.Errorf("the first %d bytes of %d pass", n, len(b))
		}
	}
	if _, err := Decode(append(b, 0)); err == nil {
		t.Error("a longer one passes")
	}
	if _, err := Decode(append([]byte{version + 1}, b[1:]...)); err != errVersion {
		t.Errorf("another version: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(whole().Encode())
	f.Add((&Plan{}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(p.Encode())
		if err != nil || !bytes.Equal(again.Encode(), p.Encode()) {
			t.Errorf("%+v is not the same when encoded again: %v", p, err)
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add((&Message{Failed, 1, "mount /proc", 0, 0, 0, 0, false}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) { DecodeMessage(b) })
}
