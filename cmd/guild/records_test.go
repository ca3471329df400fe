package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"guild/internal/control"
)

func TestJournalLinesAreShort(t *testing.T) {
	var out bytes.Buffer
	p := &program{out: &out}
	r := control.Record{Seq: 42, Subject: "job.c189d2ed5315cc9eb3fa449c054fb4c0", Entry: json.RawMessage(`{"at":1,"facts":[{"type":"job.opened"},{"type":"job.closed"}]}`)}
	if err := p.showRecord(r); err != nil {
		t.Fatal(err)
	}
	if line := out.String(); !strings.HasSuffix(line, "  job.c189d2ed      job.opened job.closed\n") || len(line) > 81 {
		t.Errorf("%q", line)
	}
}

func TestSince(t *testing.T) {
	p := &program{now: func() time.Time { return time.UnixMilli(noon) }}
	for text, want := range map[string]string{
		"": "", "17": "17", "2026-01-31T12:00:00Z": "2026-01-31T12:00:00Z",
		"1h": time.UnixMilli(noon).Add(-time.Hour).UTC().Format(time.RFC3339),
	} {
		if got, err := p.parseSince(text); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-3", "1d"} {
		if got, err := p.parseSince(text); err == nil {
			t.Errorf("%q was read as %q", text, got)
		}
	}
}

func TestStatusFitsATerminal(t *testing.T) {
	long := strings.Repeat("long ", 40)
	loss := int64(250_000)
	s := control.Status{
		Version: "v1", Npub: "npub1" + strings.Repeat("q", 58), Sandbox: long, Started: noon - 90_000,
		Relays:  []control.Relay{{URL: "ws://127.0.0.1:7447", Connected: true, Events: 7, Connect: 3, Latency: 9, Loss: &loss}, {URL: "wss://" + long, Error: "refused\x1b[2J"}},
		Local:   "ws://127.0.0.1:7447",
		Journal: control.Journal{Dir: "/" + long, Last: 12}, Jobs: map[string]int{"open": 1, "accepted": 2, "rejected": 0},
		Services: []control.Service{{Task: "python", Running: 1, Slots: 2}}, Dropped: map[string]int64{"stranger": 3}, Parked: []string{long, long},
	}
	var out bytes.Buffer
	if err := writeStatus(&out, s, time.UnixMilli(noon)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(line)); n > 81 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"✓ ws://127.0.0.1:7447, 7 events, embedded, 12 ms, 25 % lost", "2 accepted, 1 open", "3 stranger", "1 of 2 running", "1m, version v1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "rejected") {
		t.Errorf("%q", out.String())
	}
}
