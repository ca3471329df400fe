package nip90_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

// TestKindRanges has the table of section 2.1.1 of the partnership protocol, with the results of 2.1.2.
func TestKindRanges(t *testing.T) {
	for _, c := range []struct {
		purpose  string
		from, to int
	}{
		{"generic job request", 5000, 5000},
		{"text generation", 5100, 5199},
		{"image generation", 5200, 5299},
		{"audio processing", 5300, 5399},
		{"reserved for private use", 5900, 5999},
	} {
		for _, kind := range []int{c.from, c.to} {
			if _, err := (nip90.Request{Kind: kind}).Event(); err != nil || !nip90.IsRequest(kind) {
				t.Errorf("%s: kind %d is no request: %v", c.purpose, kind, err)
			}
			if got := nip90.ResultKind(kind); got != kind+1000 || !nip90.IsResult(got) {
				t.Errorf("%s: the results of kind %d are of kind %d", c.purpose, kind, got)
			}
		}
	}
	for _, kind := range []int{4999, 6000} {
		if nip90.IsRequest(kind) {
			t.Errorf("kind %d is a request", kind)
		}
	}
	for _, kind := range []int{5999, 7000} {
		if nip90.IsResult(kind) {
			t.Errorf("kind %d is a result", kind)
		}
	}
}

// TestABenchmarkRequest has the example of section 2.4.1, in the order of 2.4.2, with i and output as in NIP-90.
func TestABenchmarkRequest(t *testing.T) {
	r := nip90.Request{
		Kind: 5000, Provider: &provider.pub, Job: "benchmark-eval-2024-001", Output: "application/json", Bid: 1000,
		Relays: []string{"wss://relay.agent.io", "wss://relay.damus.io"}, Content: "Benchmark task for partnership evaluation.",
		Inputs: []nip90.Input{nip90.Benchmark{ID: "std-v3", Modules: []string{"computation", "memory", "io"}}.Input()},
	}
	for _, p := range [][2]string{{"time-limit", "300"}, {"iterations", "5"}, {"benchmark-type", "standard"}, {"memory-limit", "512"}, {"language", "python3.11"}} {
		r.Set(p[0], p[1])
	}
	want := nostr.Tags{
		{"p", provider.pub.Hex()},
		{"d", "benchmark-eval-2024-001"},
		{"i", `{"benchmark_id":"std-v3","modules":["computation","memory","io"]}`, "text", "", "benchmark_spec"},
		{"param", "benchmark-type", "standard"},
		{"param", "iterations", "5"},
		{"param", "language", "python3.11"},
		{"param", "memory-limit", "512"},
		{"param", "time-limit", "300"},
		{"output", "application/json"},
		{"bid", "1000"},
		{"relays", "wss://relay.agent.io", "wss://relay.damus.io"},
	}
	e := must[nostr.Event](t)(r.Event())
	if !slices.EqualFunc(e.Tags, want, slices.Equal[nostr.Tag]) || e.Kind != 5000 {
		t.Errorf("tags\n%q, want\n%q", e.Tags, want)
	}
}

func TestIdempotencyKey(t *testing.T) {
	key := nip90.IdempotencyKey(guild.JobID{1}, provider.pub, 1)
	if key != nip90.IdempotencyKey(guild.JobID{1}, provider.pub, 1) || len(key) != 64 || strings.Trim(key, "0123456789abcdef") != "" {
		t.Errorf("key %q", key)
	}
	for _, other := range []string{
		nip90.IdempotencyKey(guild.JobID{2}, provider.pub, 1),
		nip90.IdempotencyKey(guild.JobID{1}, customer.pub, 1),
		nip90.IdempotencyKey(guild.JobID{1}, provider.pub, 2),
	} {
		if other == key {
			t.Errorf("two attempts have the key %s", key)
		}
	}
}

func TestJobHashIgnoresTransport(t *testing.T) {
	plain := fullRequest()
	want := must[guild.Hash](t)(plain.JobHash())
	travels := fullRequest()
	travels.Set(nip90.ParamIdempotencyKey, nip90.IdempotencyKey(guild.JobID{1}, provider.pub, 1))
	travels.Solicit()
	if got := must[guild.Hash](t)(travels.JobHash()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSolicitation(t *testing.T) {
	r := fullRequest()
	if r.Solicits() {
		t.Error("an ordinary request asks for the work")
	}
	r.Solicit()
	e := customer.publish(t, must[nostr.Event](t)(r.Event()))
	read := must[nip90.Request](t)(nip90.ParseRequest(e, nil))
	if !read.Solicits() || read.Provider != nil || e.Tags.Has("p") {
		t.Errorf("read as %+v", read)
	}
}

// Inline bundles must fit into events that common relays accept, also encrypted.
func TestEventsFitCommonRelays(t *testing.T) {
	bundle := nip90.NewParcel(bytes.Repeat([]byte{0xA5}, nip90.Inline))
	r := fullRequest()
	if err := r.SetBundle(bundle); err != nil {
		t.Fatal(err)
	}
	answer := nip90.Result{Kind: 6050, Request: nostr.ID{1}, Customer: customer.pub}
	if err := answer.SetDelivery(bundle); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]nostr.Event{
		"a request in clear":   must[nostr.Event](t)(r.Event()),
		"an encrypted request": must[nostr.Event](t)(r.Sealed(customer.sealTo(provider))),
		"a result in clear":    must[nostr.Event](t)(answer.Event()),
		"an encrypted result":  must[nostr.Event](t)(answer.Sealed(provider.sealTo(customer))),
	} {
		if n := len(e.String()); n > nip90.MaxEvent {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
}

func TestCorrelateInside(t *testing.T) {
	id := nostr.ID{7}
	for _, c := range []struct {
		name   string
		inside string
		want   nip90.Reference
	}{
		{"nostrdvm: the whole tag list", `[["e","` + id.Hex() + `"],["p","` + customer.pub.Hex() + `"],["content","x"]]`,
			nip90.Reference{Request: id, Customer: customer.pub}},
		{"a reference in the content", `{"request_id":"` + id.Hex() + `"}`, nip90.Reference{Mentioned: id}},
		{"prose", "done", nip90.Reference{}},
	} {
		text := must[string](t)(provider.Encrypt(context.Background(), c.inside, customer.pub))
		e := nostr.Event{Kind: 7000, PubKey: provider.pub, Content: text, Tags: nostr.Tags{{"encrypted"}}}
		if got := nip90.CorrelateInside(e, customer.open); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		stranger := newParty(3)
		if got := nip90.CorrelateInside(e, stranger.open); got != (nip90.Reference{}) {
			t.Errorf("%s: a stranger reads %+v", c.name, got)
		}
	}
	open := nostr.Event{Kind: 7000, PubKey: provider.pub, Tags: nostr.Tags{{"e", id.Hex()}}}
	if got := nip90.CorrelateInside(open, customer.open); got != (nip90.Reference{}) {
		t.Errorf("what is in clear has no inside: %+v", got)
	}
}

func ExampleIdempotencyKey() {
	fmt.Println(nip90.IdempotencyKey(guild.JobID{1}, nostr.PubKey{2}, 1))
	// Output: 34dd040debcf9efb4ab3a22b221d816ceacddc6847a27f1b6f65d17512471d71
}
