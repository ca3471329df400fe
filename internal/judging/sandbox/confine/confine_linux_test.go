package confine

import (
	"strings"
	"testing"
)

func TestNoRoutes(t *testing.T) {
	for file, want := range map[string]int64{
		"Ip: Forwarding OutNoRoutes ReasmOKs\nIp: 1 3 9\nTcp: a\nTcp: 1\n": 3,
		"Ip6InReceives   \t7\nIp6OutNoRoutes  \t2\n":                       2,
		"":                                  0,
		"Ip: Forwarding OutNoRoutes\nIp: 1": 0,
		"Ip: x\n":                           0,
	} {
		if got := noRoutes(file); got != want {
			t.Errorf("%q: %d, want %d", file, got, want)
		}
	}
}

func TestFloodKeep(t *testing.T) {
	var out strings.Builder
	f := NewFlood(4)
	k := &keep{&out, 4, f}
	for range 16 {
		if n, err := k.Write([]byte("abcd")); n != 4 || err != nil {
			t.Fatal(n, err)
		}
	}
	select {
	case <-f.over:
		t.Error("64 bytes are not more than 16 times 4")
	default:
	}
	k.Write([]byte("x"))
	<-f.over
	k.Write([]byte("x")) // once is enough
	if out.String() != "abcd" || !f.cut.Load() {
		t.Errorf("kept %q, cut %v", out.String(), f.cut.Load())
	}
}

func TestFamilyCountsOddNames(t *testing.T) {
	var f family
	f.count("7 (a) b (c) S 1 1 1 0 -1 0 0 0 0 0 10 20 30 40 20 0 5 0 100 9999 3 rest")
	if f.cpu.Milliseconds() != 1000 || f.threads != 5 || f.memory == 0 {
		t.Errorf("%+v", f)
	}
	f.count("7 (x")
	f.count("")
}
