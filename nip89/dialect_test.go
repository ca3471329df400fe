package nip89_test

import (
	"fmt"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

func TestPricesByKind(t *testing.T) {
	for _, c := range []struct {
		pricing string
		kind    int
		want    guild.Msat
	}{
		{`{"5050":10}`, 5050, 10_000},          // 2020117: sats
		{`{"5050":10,"5100":3}`, 5001, 10_000}, // the highest of others
		{`{"5050":"10","5000":5}`, 5000, 5_000},
		{`{"5050":"21 msats"}`, 5050, 21},
		{`{"5050":{"amount":700,"unit":"msats"},"per_job_msats":9}`, 5050, 700},
		{`{"5050":{"amount":700,"unit":"msats"},"per_job_msats":9}`, 5100, 9},
		{`{"amount":3,"currency":"sat"}`, 5050, 3_000},
		{`{"price":3}`, 5050, 3_000},
		{`{"amount":3,"currency":"USD"}`, 5050, 0},
		{`{"5050":-1}`, 5050, 0},
		{`{"5050":99999999999999999999}`, 5050, 0},
		{`"10 sats"`, 5050, 10_000},
		{`"per-request"`, 5050, 0},
		{`{"per_job_msats":1000}`, 5050, 1000},
	} {
		h := parse(t, nostr.Event{Kind: nip89.Kind, Tags: nostr.Tags{{"k", "5050"}}, Content: fmt.Sprintf(`{"pricing":%s}`, c.pricing)})
		if got := h.PriceOf(c.kind); got != c.want {
			t.Errorf("%s: kind %d costs %d msat, want %d", c.pricing, c.kind, got, c.want)
		}
	}
}

func TestEncryptionAsBoolean(t *testing.T) {
	for content, want := range map[string]bool{
		`{"supportsEncryption":true}`: true, `{"supportsEncryption":false}`: false, `{"encryptionSupported":true}`: true,
		`{"encryption":true}`: true, `{"encryption":["nip44"]}`: true, `{"supportsEncryption":"yes"}`: false,
	} {
		if h := parse(t, nostr.Event{Kind: nip89.Kind, Content: content}); h.Accepts("nip44") != want {
			t.Errorf("%s: NIP-44 %v, want %v", content, !want, want)
		}
	}
}

func TestWhoReadsBundles(t *testing.T) {
	for content, want := range map[string]bool{
		``: false, `{"name":"bob","pricing":{"5050":10}}`: false, `{"capabilities":{"supported_jobs":["text"]}}`: false,
		`{"accepts":["text/plain"]}`: false, `{"accepts":["text/plain","application/x-nutshell+gzip"]}`: true,
		`{"age_recipient":"` + recipient + `"}`: true,
	} {
		if h := parse(t, nostr.Event{Kind: nip89.Kind, Content: content}); h.ReadsBundles() != want {
			t.Errorf("%s: reads bundles %v, want %v", content, !want, want)
		}
	}
	if h := parse(t, nip89.Handler{D: "x", Bundles: true}.Event()); !h.Bundles || h.Extra != nil {
		t.Errorf("what we write is read as %+v", h)
	}
}

func TestKindToAskIn(t *testing.T) {
	for _, c := range []struct {
		listed  []int
		task    string
		bundles bool
		want    int
	}{
		{[]int{5000, 5050}, "text", true, 5000}, // bundles go in the usual kind
		{[]int{5050}, "text", true, 5050},
		{[]int{5000, 5050}, "text", false, 5050}, // others know the kind and no task
		{[]int{5000}, "text", false, 5000},
		{[]int{5001}, "text", false, 5001},
		{[]int{1, 5910}, "anything", false, 5910},
		{nil, "text", false, 5000},
		{[]int{1, 30023}, "text", false, 5000},
	} {
		if got := nip89.KindFor(c.listed, c.task, 5000, c.bundles); got != c.want {
			t.Errorf("%v, task %s, bundles %v: asked in %d, want %d", c.listed, c.task, c.bundles, got, c.want)
		}
	}
}

func TestKindAloneFitsItsTask(t *testing.T) {
	h := parse(t, nostr.Event{Kind: nip89.Kind, Tags: nostr.Tags{{"d", "x"}, {"k", "5050"}}})
	for task, want := range map[string]nip89.Confidence{"text": nip89.Inferred, "text-generation": nip89.Inferred, "translation": nip89.None, "python": nip89.None} {
		if got := h.Confidence(5000, task, nil); got != want {
			t.Errorf("%s: %v, want %v", task, got, want)
		}
	}
}
