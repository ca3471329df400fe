package work

import (
	"fmt"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

// metered returns the price by usage for a person, such as "at most 800 test: 300 + 2 per 1,000 tokens + 5 per minute". The most
// comes first, so that a reader who sees only the beginning sees no less.
func (s Service) metered() string {
	var parts []string
	if s.Rates.Price > 0 {
		parts = append(parts, s.inUnits(s.Rates.Price))
	}
	if s.Rates.Per1kTokens > 0 {
		parts = append(parts, s.inUnits(s.Rates.Per1kTokens)+" per 1,000 tokens")
	}
	if s.Rates.PerMinute > 0 {
		parts = append(parts, s.inUnits(s.Rates.PerMinute)+" per minute")
	}
	return fmt.Sprintf("at most %d %s: %s", s.units(), s.Unit, strings.Join(parts, " + "))
}

// inUnits writes thousandths of the unit.
func (s Service) inUnits(thousandths guild.Msat) string {
	whole, rest := thousandths/1000, thousandths%1000
	switch {
	case s.Unit == "msat":
		return fmt.Sprint(int64(thousandths))
	case rest == 0:
		return fmt.Sprint(int64(whole))
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", int64(whole), int64(rest)), "0")
}

// PriceText returns the price for a person, or "" if the work is free.
func (s Service) PriceText() string {
	if s.Price == 0 {
		return ""
	}
	return s.amount()
}

// usage returns what is claimed for work whose price depends on it, now or when it was quoted. A worker that reported no tokens took
// none.
func (w *Work) usage(s Service, request nostr.ID, tokens int64, worked time.Duration) *nip90.Usage {
	r, _ := w.fold.request(request)
	if s.Rates == nil && (r.Quoted == nil || !r.Quoted.Metered) {
		return nil
	}
	return &nip90.Usage{Tokens: tokens, WorkMs: worked.Milliseconds()}
}
