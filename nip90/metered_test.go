package nip90_test

import (
	"reflect"
	"testing"

	"fiatjaf.com/nostr"

	"guild/nip90"
)

func TestRatesComeBackInClearAndSealed(t *testing.T) {
	quote := nip90.Feedback{
		Status: nip90.PaymentRequired, Request: nostr.ID{1}, Customer: customer.pub, Terms: "creqA",
		Rates: &nip90.Rates{Price: 300_000, Per1kTokens: 2000, PerMinute: 500},
	}
	sealed, err := quote.Sealed(asIs)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []nostr.Event{quote.Event(), sealed} {
		got, err := nip90.ParseFeedback(e, unopened)
		if err != nil || !reflect.DeepEqual(got.Rates, quote.Rates) || len(got.Extra) > 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if sealed.Tags.Has("metered") {
		t.Error("the rates of a sealed quote are in clear")
	}
}

func TestQuoteWithUnreadableRatesIsRefused(t *testing.T) {
	for name, tag := range map[string]nostr.Tag{
		"nothing":        {"metered"},
		"no rate":        {"metered", "1", "0", "0"},
		"too few":        {"metered", "1", "2"},
		"too many":       {"metered", "1", "2", "3", "4"},
		"negative":       {"metered", "1", "-2", "3"},
		"a fraction":     {"metered", "1", "2.5", "3"},
		"leading zero":   {"metered", "1", "02", "3"},
		"beyond numbers": {"metered", "1", "9007199254740992", "3"},
		"overflow":       {"metered", "1", "99999999999999999999", "3"},
	} {
		e := nip90.Feedback{Status: nip90.PaymentRequired, Extra: nostr.Tags{tag}}.Event()
		if f, err := nip90.ParseFeedback(e, nil); err == nil {
			t.Errorf("%s: %+v", name, f.Rates)
		}
	}
}

func TestUsageIsClaimedOnceAndInRange(t *testing.T) {
	for name, c := range map[string]struct {
		tags nostr.Tags
		want *nip90.Usage
	}{
		"a claim":           {nostr.Tags{{"usage", "12400", "65000"}}, &nip90.Usage{Tokens: 12400, WorkMs: 65000}},
		"of nothing":        {nostr.Tags{{"usage", "0", "0"}}, &nip90.Usage{}},
		"the first":         {nostr.Tags{{"usage", "1", "2"}, {"usage", "3", "4"}}, &nip90.Usage{Tokens: 1, WorkMs: 2}},
		"the first good":    {nostr.Tags{{"usage", "-1", "2"}, {"usage", "3", "4"}}, &nip90.Usage{Tokens: 3, WorkMs: 4}},
		"none":              {nil, nil},
		"another program's": {nostr.Tags{{"usage", `{"total_tokens":5}`}}, nil},
		"negative":          {nostr.Tags{{"usage", "5", "-1"}}, nil},
		"beyond numbers":    {nostr.Tags{{"usage", "9007199254740992", "1"}}, nil},
		"with more":         {nostr.Tags{{"usage", "1", "2", "3"}}, nil},
	} {
		e, err := nip90.Result{Kind: 6000, Extra: c.tags}.Event()
		if err != nil {
			t.Fatal(err)
		}
		r, err := nip90.ParseResult(e, nil)
		if err != nil || !reflect.DeepEqual(r.Usage, c.want) {
			t.Errorf("%s: %+v, %v", name, r.Usage, err)
		}
	}
	e, err := nip90.Result{Kind: 6000, Usage: &nip90.Usage{Tokens: -1, WorkMs: 1 << 60}}.Event()
	if err != nil {
		t.Fatal(err)
	}
	if tag := e.Tags.Find("usage"); tag[1] != "0" || tag[2] != "9007199254740991" {
		t.Errorf("written as %q", tag)
	}
}
