package control_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
	"guild/nip89"
)

func TestStoredDocumentsAreUnchanged(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.wantProblem("GET", "/v1/receipts/01", nil, 404, "missing")
	d.wantProblem("GET", "/v1/receipts/r-0100", nil, 404, "missing")
	d.wantProblem("GET", "/v1/replays/01", nil, 404, "missing")
	d.life(guild.JobID{1}, func() {})
	for _, id := range []string{"r-0100", "r-01", "01"} {
		if got, err := control.Receipt.Call(t.Context(), d.Client, id); err != nil || string(got) != `{"a":1}` {
			t.Errorf("%s: %s, %v", id, got, err)
		}
	}
	for _, id := range []string{"01", "r-0100", "R-01"} {
		if got, err := control.Replay.Call(t.Context(), d.Client, id); err != nil || string(got) != "{}\n" {
			t.Errorf("%s: %s, %v", id, got, err)
		}
	}
	d.wantProblem("GET", "/v1/replays/r-x", nil, 404, "missing")
	d.wantProblem("GET", "/v1/receipts/02", nil, 404, "missing")
	d.wantProblem("GET", "/v1/receipts/r-x", nil, 404, "missing")
	d.wantProblem("GET", "/v1/replays/02", nil, 404, "missing")
	d.open(guild.JobID{3})
	d.append(fact.JobSubject(guild.JobID{3}), fact.AttemptPlanned{Attempt: nostr.ID{3}, Job: guild.JobID{3}, Provider: alice, Request: nostr.Event{PubKey: alice.PubKey}},
		fact.AttemptRecorded{Attempt: nostr.ID{3}, Receipt: "r-lost", Stored: guild.Hash{1}})
	d.wantProblem("GET", "/v1/receipts/03", nil, 500, "internal")
}

func TestJournalSince(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.open(guild.JobID{2})
	d.append(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: alice})
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, c := range []struct {
		query string
		want  []uint64
	}{
		{"", []uint64{1, 2, 3}}, {"?since=2", []uint64{2, 3}}, {"?since=9", nil}, {"?since=1h", []uint64{1, 2, 3}}, {"?since=0s", nil},
		{"?since=" + past.UTC().Format(time.RFC3339), []uint64{1, 2, 3}}, {"?since=" + future.UTC().Format(time.RFC3339), nil},
		{"?subject=job.", []uint64{1, 2}}, {"?subject=job.02", []uint64{2}}, {"?subject=trust&since=1", []uint64{3}}, {"?subject=x", nil},
	} {
		status, header, answer := d.ask("GET", "/v1/journal"+c.query, nil)
		var got []uint64
		for line := range bytes.Lines(answer) {
			var r control.Record
			if err := json.Unmarshal(line, &r); err != nil || len(r.Entry) < 10 || r.Subject == "" {
				t.Errorf("%s: %s, %v", c.query, line, err)
			}
			got = append(got, r.Seq)
		}
		if status != 200 || header.Get("Content-Type") != "application/x-ndjson" || !slices.Equal(got, c.want) && c.query != "?since=0s" {
			t.Errorf("%s: %d %v, want %v", c.query, status, got, c.want)
		}
	}
	for _, query := range []string{"?since=yesterday", "?since=-1", "?since=99999999999999999999", "?since=" + strings.Repeat("x", 4000)} {
		if p := d.wantProblem("GET", "/v1/journal"+query, nil, 400, "usage"); p.Hint == "" || len(p.Error) > 200 {
			t.Errorf("%+v", p)
		}
	}
}

func TestEntryBySequence(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	r, err := control.OneEntry.Call(t.Context(), d.Client, "1")
	var entry fact.Entry
	if err != nil || r.Subject != string(fact.JobSubject(guild.JobID{1})) || json.Unmarshal(r.Entry, &entry) != nil || entry.Facts[0].Type() != "job.opened" {
		t.Errorf("%+v, %v", r, err)
	}
	d.wantProblem("GET", "/v1/journal/2", nil, 404, "missing")
	d.wantProblem("GET", "/v1/journal/0", nil, 400, "usage")
	d.wantProblem("GET", "/v1/journal/x", nil, 400, "usage")
	d.wantProblem("GET", "/v1/journal/-1", nil, 400, "usage")
	d.wantProblem("GET", "/v1/journal/99999999999999999999", nil, 400, "usage")
}

func TestProvidersWithTrust(t *testing.T) {
	d := openDesk(t)
	if all, err := control.Providers.Call(t.Context(), d.Client); err != nil || all == nil || len(all) != 0 {
		t.Errorf("none: %v, %v", all, err)
	}
	h := nip89.Handler{D: "python", Name: "Alice", Kinds: []int{5000}, Tasks: []string{"python"}}
	e := h.Event()
	e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.SecretKey{31: 2})), e)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.registry.Observe(t.Context(), "ws://relay", v); err != nil {
		t.Fatal(err)
	}
	d.append(fact.ProviderSubject(alice.PubKey), fact.ProviderMoved{Service: alice, To: guild.Warned, Until: 7})
	d.append(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: alice, To: 600_000, First: true})
	for _, task := range []string{"", "python"} {
		all, err := control.Providers.Call(t.Context(), d.Client, task)
		if err != nil || len(all) != 1 {
			t.Fatalf("%q: %+v, %v", task, all, err)
		}
		p := all[0]
		if p.Name != "Alice" || p.PubKey != alice.PubKey.Hex() || p.Npub != nip19.EncodeNpub(alice.PubKey) || p.State != "warned" || p.Until != 7 || p.Trust["python"] != 0.6 {
			t.Errorf("%+v", p)
		}
	}
	if all, err := control.Providers.Call(t.Context(), d.Client, "cobol"); err != nil || len(all) != 0 {
		t.Errorf("cobol: %v, %v", all, err)
	}
}

func TestRejectedWithReason(t *testing.T) {
	d := openDesk(t)
	for _, reason := range []string{"stranger", "late"} {
		raw, _ := json.Marshal(control.Dropped{From: "wss://a", Event: "{}"})
		if err := d.journal.Reject(t.Context(), reason, raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.journal.Reject(t.Context(), "junk", []byte("no json")); err != nil {
		t.Fatal(err)
	}
	all, err := control.Rejected.Call(t.Context(), d.Client)
	if err != nil || len(all) != 2 || all[0].Reason != "stranger" || all[1].Reason != "late" || all[1].From != "wss://a" || all[1].At == 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
