package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"guild/nip89"
	"guild/nip90"
	"guild/replay/session"
)

func TestPriceByUsageInWords(t *testing.T) {
	for want, s := range map[string]Service{
		"at most 800 test: 300 + 2 per 1,000 tokens + 5 per minute": {
			Price: 800_000, Unit: "test", Rates: &nip90.Rates{Price: 300_000, Per1kTokens: 2000, PerMinute: 5000},
		},
		"at most 80 sat: 0.5 per 1,000 tokens":   {Price: 80_000, Unit: "sat", Rates: &nip90.Rates{Per1kTokens: 500}},
		"at most 8000 msat: 1000 + 7 per minute": {Price: 8000, Unit: "msat", Rates: &nip90.Rates{Price: 1000, PerMinute: 7}},
		"300 test":                               {Price: 300_000, Unit: "test"},
		"":                                       {Unit: "sat"},
	} {
		if got := s.PriceText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFixedPriceReaderSeesTheMost checks what a customer that knows no rates reads of a price by usage.
func TestFixedPriceReaderSeesTheMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Service{Task: "python", Do: echo, Price: 80_000, Rates: &nip90.Rates{Price: 9000, Per1kTokens: 2000}}
		w := newWorld(t, s)
		e := w.handler(t.Context(), w.Work.services["python"], nip89.Stability{}).Event()
		e.PubKey = w.c.PubKey
		card, err := nip89.Parse(e)
		if err != nil || card.PriceOf(5000) != 80_000 || card.Rates != (nip89.Rates{}) || card.PriceText != "at most 80 sat: 9 + 2 per 1,000 tokens" {
			t.Errorf("the card has %+v, %v", card, err)
		}
		quote := w.Work.services["python"].priced("")
		if quote.Amount != 80_000 || *quote.Rates != *s.Rates || quote.Text != card.PriceText {
			t.Errorf("the quote is %+v", quote)
		}
	})
}

func TestResultClaimsUsage(t *testing.T) {
	rates := &nip90.Rates{Per1kTokens: 1, PerMinute: 1}
	counted := func(ctx context.Context, a Assignment) error {
		a.RecordModel("m1", session.Tokens{Input: 12_000, Output: 400})
		time.Sleep(90 * time.Second)
		return echo(ctx, a)
	}
	uncounted := func(ctx context.Context, a Assignment) error {
		time.Sleep(90 * time.Second)
		return echo(ctx, a)
	}
	for name, c := range map[string]struct {
		do    func(context.Context, Assignment) error
		rates *nip90.Rates
		want  *nip90.Usage
	}{
		"counted":                  {recorded(counted), rates, &nip90.Usage{Tokens: 12_400, WorkMs: 90_000}},
		"counted without a record": {counted, rates, &nip90.Usage{WorkMs: 90_000}},
		"without a count":          {recorded(uncounted), rates, &nip90.Usage{WorkMs: 90_000}},
		"at a fixed price":         {recorded(counted), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := python(c.do)
				s.Rates = c.rates
				w := newWorld(t, s)
				in := w.asks(customer, task(t, bundle(t, []byte("in"))))
				sealed, err := w.sendsSealed(customer, task(t, bundle(t, []byte("in"))))
				if err != nil {
					t.Fatal(err)
				}
				w.pass(5 * time.Minute)
				for _, got := range []*nip90.Usage{w.resultOf(in).Usage, w.resultOf(sealed).Usage} {
					if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
						t.Errorf("claimed %+v, want %+v", got, c.want)
					}
				}
			})
		})
	}
}
