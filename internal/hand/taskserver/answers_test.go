package taskserver

import (
	"errors"
	"net"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestPlainHTTPStaysHere(t *testing.T) {
	for _, address := range []string{"192.0.2.1:80", "10.0.0.1:80", "[2001:db8::1]:80", "0.0.0.0:80"} {
		if conn, err := loopback(t.Context(), "tcp", address); !errors.Is(err, ErrPlainHTTP) {
			t.Errorf("%s: %v", address, err)
			if err == nil {
				conn.Close()
			}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := loopback(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"task":{"id":"t-1","tags":"[\"a\"]","reward":5.0,"nutshell_hash":"sha256:` + strings.Repeat("0", 64) + `"}}`))
	f.Add([]byte(`[{"id":"t-1","tags":["a"]},null,{"bidder_id":"bob","amount":1e3}]`))
	f.Add([]byte(`{"tasks":[],"bids":[{}]}`))
	f.Add([]byte("<html>\x1b[2J"))
	f.Add([]byte(`{"error":{"message":"\u202e"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if task, err := parseTask(b, ""); err == nil && CheckID(task.ID) != nil {
			t.Errorf("%q is an id", task.ID)
		}
		if task, err := parseTask(b, "t-1"); err == nil && task.ID != "t-1" {
			t.Errorf("%q was not asked for", task.ID)
		}
		tasks, _ := parseTasks(b)
		for _, task := range tasks {
			if CheckID(task.ID) != nil || len(task.Reward.Plain()) > 200 {
				t.Errorf("%+v is a task", task)
			}
		}
		bids, _ := parseBids(b)
		for _, bid := range bids {
			if CheckPeer(bid.BidderID) != nil {
				t.Errorf("%+v is a bid", bid)
			}
		}
		said := message(b)
		if !utf8.ValidString(said) || utf8.RuneCountInString(said) > maxMessage+1 || strings.ContainsFunc(said, unicode.IsControl) {
			t.Errorf("%q would drive a terminal", said)
		}
	})
}
