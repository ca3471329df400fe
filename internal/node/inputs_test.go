package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/control"
	"guild/internal/step/work"
	"guild/nip89"
	"guild/nip90"
)

// A customer that implements only NIP-90, over a real relay: its inputs are fetched, and it gets a plain answer.
func TestPlainCustomer(t *testing.T) {
	url := startRelay(t)
	join := func(_ context.Context, a work.Assignment) error {
		files, err := filepath.Glob(filepath.Join(a.Inputs, "0*"))
		if err != nil {
			return err
		}
		var all strings.Builder
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			all.Write(b)
			all.WriteString("|")
		}
		return os.WriteFile(filepath.Join(a.Delivery, "output.txt"), []byte(all.String()), 0o644)
	}
	_, provider := start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "oa.join.v1", Do: join}}
	})
	customer := newPeer(t, url)
	note := customer.publish(nostr.Event{Kind: 1, Content: "a note"})
	first := customer.publish(nostr.Event{Kind: 5050, Tags: nostr.Tags{{"p", provider.Hex()}, {"i", "one", "text"}}})
	if got := customer.next(6050).Content; got != "one|" {
		t.Fatalf("%q", got)
	}
	second := customer.publish(nostr.Event{Kind: 5050, Tags: nostr.Tags{
		{"p", provider.Hex()}, {"i", "two", "text"}, {"i", note.ID.Hex(), "event"}, {"i", first.ID.Hex(), "job"},
	}})
	result := customer.next(6050)
	noted, err := json.Marshal(note)
	if err != nil {
		t.Fatal(err)
	}
	if want := "two|" + string(noted) + "|one||"; result.Content != want {
		t.Errorf("%q, want %q", result.Content, want)
	}
	if about := nip90.Correlate(result); about.Request != second.ID || about.Customer != customer.pubkey || about.Mentioned != second.ID {
		t.Errorf("%+v", about)
	}
	customer.publish(nostr.Event{Kind: 5050, Tags: nostr.Tags{{"p", provider.Hex()}, {"i", "https://example.com/x", "url"}}})
	refused := customer.next(nip90.KindFeedback)
	f, err := nip90.ParseFeedback(refused, nil)
	for err == nil && f.Status == nip90.Processing {
		f, err = nip90.ParseFeedback(customer.next(nip90.KindFeedback), nil)
	}
	if err != nil || f.Status != nip90.Error || !strings.Contains(f.Text, `does not fetch from "example.com"`) {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestOpenRequestGetsOffer(t *testing.T) {
	url := startRelay(t)
	start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer := newPeer(t, url)
	r := nip90.Request{Kind: 5000}
	r.Set(nip90.ParamJobType, "echo")
	r.Solicit()
	e, err := r.Event()
	if err != nil {
		t.Fatal(err)
	}
	asked := customer.publish(e)
	f, err := nip90.ParseFeedback(customer.next(nip90.KindFeedback), nil)
	if err != nil || f.Request != asked.ID || f.Status != nip90.Processing || f.Text != "offer" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestRecommendationsAreKept(t *testing.T) {
	url := startRelay(t)
	client, owner := start(t, url, func(*Config) {})
	one, two := newPeer(t, url), newPeer(t, url)
	one.announce()
	two.announce()
	awaitProviders(t, client, 2)
	var events []string
	for i, p := range []*peer{one, two, two} { // within one second
		all, err := control.RecommendProvider.Call(t.Context(), client, control.Recommend{Provider: p.pubkey.Hex()})
		if err != nil || len(all) != 1 || all[0].Kind != 5000 || all[0].D != "echo" || all[0].Others != min(i, 1) {
			t.Fatalf("%+v, %v", all, err)
		}
		events = append(events, all[0].Event)
	}
	stored, _ := one.stored(nip89.KindRecommendation)
	if len(stored) != 1 || stored[0].ID.Hex() != events[2] || stored[0].PubKey != owner {
		t.Fatalf("%v, said %v", stored, events)
	}
	r, err := nip89.ParseRecommendation(stored[0])
	if err != nil || r.Handles != "5000" || len(r.Handlers) != 2 || r.Handlers[0].PubKey != two.pubkey || r.Handlers[1].PubKey != one.pubkey {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = control.RecommendProvider.Call(t.Context(), client, control.Recommend{Provider: owner.Hex()})
	if problem, ok := errors.AsType[*control.ProblemError](err); !ok || problem.Problem.Code != "missing" || problem.Problem.Hint == "" {
		t.Errorf("somebody who announced nothing: %v", err)
	}
}
